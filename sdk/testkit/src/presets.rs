//! The small decoders that most tests need, of the llama and qwen2 families, with no file behind them.

use crate::{Checkpoint, ModelFixture, SeededTensor};
use apr_sdk::{DType, Result};
use serde_json::{Value, json};

/// Values stated in a preset's config.
struct Decoder {
    name: &'static str,
    hidden: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    feed_forward: u64,
    vocabulary: u64,
    /// Qwen2: biases on q, k and v; no `lm_head`.
    qwen: bool,
}

const TINY: Decoder = Decoder {
    name: "tiny",
    hidden: 64,
    layers: 2,
    heads: 4,
    kv_heads: 4,
    feed_forward: 128,
    vocabulary: 96,
    qwen: false,
};

const SMALL: Decoder = Decoder {
    name: "small",
    hidden: 256,
    layers: 4,
    heads: 8,
    kv_heads: 8,
    feed_forward: 512,
    vocabulary: 320,
    ..TINY
};

const GQA: Decoder = Decoder { name: "gqa", hidden: 128, heads: 8, kv_heads: 2, feed_forward: 256, ..TINY };

const QWEN: Decoder = Decoder { name: "qwen", kv_heads: 4, qwen: true, ..GQA };

const TINYLLAMA: Decoder =
    Decoder { name: "tinyllama", hidden: 256, heads: 32, kv_heads: 4, feed_forward: 512, ..TINY };

impl Checkpoint {
    /// A llama of 4 heads, 64 wide: the smallest decoder.
    pub fn tiny() -> Checkpoint {
        TINY.checkpoint()
    }

    /// A llama of 8 heads, 256 wide: rows are whole blocks of every quantized type.
    pub fn small() -> Checkpoint {
        SMALL.checkpoint()
    }

    /// A llama of 8 heads with 2 key-value heads.
    pub fn gqa() -> Checkpoint {
        GQA.checkpoint()
    }

    /// A Qwen2 of 8 heads with 4 key-value heads, biases and a tied output.
    pub fn qwen() -> Checkpoint {
        QWEN.checkpoint()
    }

    /// A llama of TinyLlama's 32 heads with 4 key-value heads.
    pub fn tinyllama() -> Checkpoint {
        TINYLLAMA.checkpoint()
    }
}

impl ModelFixture {
    /// The tensors of [`Checkpoint::tiny`].
    ///
    /// # Errors
    /// None that a preset can raise.
    pub fn tiny() -> Result<ModelFixture> {
        Checkpoint::tiny().fixture()
    }

    /// The tensors of [`Checkpoint::small`].
    ///
    /// # Errors
    /// None that a preset can raise.
    pub fn small() -> Result<ModelFixture> {
        Checkpoint::small().fixture()
    }

    /// The tensors of [`Checkpoint::gqa`].
    ///
    /// # Errors
    /// None that a preset can raise.
    pub fn gqa() -> Result<ModelFixture> {
        Checkpoint::gqa().fixture()
    }

    /// The tensors of [`Checkpoint::qwen`].
    ///
    /// # Errors
    /// None that a preset can raise.
    pub fn qwen() -> Result<ModelFixture> {
        Checkpoint::qwen().fixture()
    }

    /// The tensors of [`Checkpoint::tinyllama`].
    ///
    /// # Errors
    /// None that a preset can raise.
    pub fn tinyllama() -> Result<ModelFixture> {
        Checkpoint::tinyllama().fixture()
    }
}

fn seeded(name: &str, shape: &[u64], center: f32) -> SeededTensor {
    SeededTensor { name: name.to_owned(), dtype: DType::BF16, shape: shape.to_vec(), center }
}

impl Decoder {
    fn config(&self) -> Value {
        let (architecture, model_type) =
            if self.qwen { ("Qwen2ForCausalLM", "qwen2") } else { ("LlamaForCausalLM", "llama") };
        json!({
            "architectures": [architecture],
            "model_type": model_type,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "intermediate_size": self.feed_forward,
            "max_position_embeddings": 256,
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": 1e-5,
            "rope_theta": if self.qwen { 1_000_000.0 } else { 10_000.0 },
            "tie_word_embeddings": self.qwen,
            "torch_dtype": "bfloat16",
            "vocab_size": self.vocabulary,
        })
    }

    fn tensors(&self) -> Vec<SeededTensor> {
        let kv = self.hidden / self.heads * self.kv_heads;
        let matrix = [self.vocabulary, self.hidden];
        let mut tensors = vec![
            seeded("model.embed_tokens.weight", &matrix, 0.0),
            seeded("model.norm.weight", &[self.hidden], 1.0),
        ];
        if !self.qwen {
            tensors.push(seeded("lm_head.weight", &matrix, 0.0));
        }
        for layer in 0..self.layers {
            let layer = format!("model.layers.{layer}");
            for (letter, rows) in [("q", self.hidden), ("k", kv), ("v", kv)] {
                let projection = format!("{layer}.self_attn.{letter}_proj");
                tensors.push(seeded(&format!("{projection}.weight"), &[rows, self.hidden], 0.0));
                if self.qwen {
                    tensors.push(seeded(&format!("{projection}.bias"), &[rows], 0.0));
                }
            }
            for (name, shape, center) in [
                ("self_attn.o_proj", &[self.hidden, self.hidden][..], 0.0),
                ("mlp.gate_proj", &[self.feed_forward, self.hidden], 0.0),
                ("mlp.up_proj", &[self.feed_forward, self.hidden], 0.0),
                ("mlp.down_proj", &[self.hidden, self.feed_forward], 0.0),
                ("input_layernorm", &[self.hidden], 1.0),
                ("post_attention_layernorm", &[self.hidden], 1.0),
            ] {
                tensors.push(seeded(&format!("{layer}.{name}.weight"), shape, center));
            }
        }
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        tensors
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            name: self.name.to_owned(),
            seed: 1,
            companions: vec![("config.json".to_owned(), self.config().to_string().into_bytes())],
            shards: vec![("model.safetensors".to_owned(), self.tensors())],
        }
    }
}
