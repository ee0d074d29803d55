//! The faults: how each is planted, where it shows first, and what it is called.

use crate::folder::{Folder, Tensor};
use apr_sdk::half::{from_bf16, from_f16, to_bf16, to_f16};
use serde_json::json;
use std::sync::Arc;

/// The model that faults are planted in.
pub struct Base {
    pub name: &'static str,
    pub folder: Folder,
    head: usize,
    heads: usize,
    is_gemma: bool,
}

impl Base {
    pub fn of(name: &'static str, folder: Folder) -> Base {
        let number = |key: &str| folder.config[key].as_u64().map(|n| n as usize);
        let heads = number("num_attention_heads").unwrap();
        let head = number("head_dim").unwrap_or(number("hidden_size").unwrap() / heads);
        Base { name, head, heads, is_gemma: name.starts_with("gemma"), folder }
    }
}

/// A change of a folder.
pub type Edit = Box<dyn Fn(&mut Folder)>;

/// A fault.
pub struct Fault {
    pub name: &'static str,
    /// Plants it in the suspect.
    pub suspect: Edit,
    /// Changes the reference, where it must have what the suspect lacks.
    pub reference: Edit,
    /// Where it may show first: one of these is in the result, the operation or the tensor.
    pub places: &'static [&'static str],
    /// What it may be called.
    pub words: &'static [&'static str],
    /// The words of the refusal, for a model that cannot be loaded with it.
    pub refused: Option<&'static str>,
}

fn fault(
    name: &'static str,
    places: &'static [&'static str],
    words: &'static [&'static str],
    suspect: impl Fn(&mut Folder) + 'static,
) -> Fault {
    Fault { name, suspect: Box::new(suspect), reference: Box::new(|_| ()), places, words, refused: None }
}

impl Fault {
    fn against(self, reference: impl Fn(&mut Folder) + 'static) -> Fault {
        Fault { reference: Box::new(reference), ..self }
    }
}

/// Gives the folder a table that computes in another way.
fn computed(folder: &mut Folder, base: &str, head: &str, rest: &str) {
    folder.table = Some(format!(
        "id = \"faulty_SIDE\"\nname = \"Faulty\"\nbase = \"{base}\"\n{head}\n[dialect.hf]\ndetect = [{{ model_type = [\"faulty_SIDE\"] }}]\n[dialect.gguf]\narch = \"faulty_SIDE\"\ndetect = [{{ \"general.architecture\" = \"faulty_SIDE\" }}]\n{rest}\n"
    ));
}

/// The row of a head that stands in a row of the other style.
fn interleaved(row: usize, head: usize) -> usize {
    let within = row % head;
    row / head * head + within / 2 + within % 2 * (head / 2)
}

fn noise(seed: &mut u64) -> f32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 40) as f32 / (1u64 << 24) as f32 - 0.5
}

/// All faults that can be planted in a model.
pub fn faults(base: &Base) -> Vec<Fault> {
    let mut all = of_weights(base);
    all.extend(of_configurations(base));
    all.extend(of_computations(base));
    all
}

fn of_weights(base: &Base) -> Vec<Fault> {
    let (head, heads) = (base.head, base.heads);
    let mut all = vec![
        fault(
            "q and k not permuted",
            &["layer.0.attention.qkv linear blk.0.attn_q"],
            &["RoPE style"],
            move |f| {
                f.reorder("q_proj.weight", |row| interleaved(row, head));
                f.reorder("k_proj.weight", |row| interleaved(row, head));
            },
        ),
        fault("k not permuted", &["blk.0.attn_k"], &["RoPE style"], move |f| {
            f.reorder("k_proj.weight", |row| interleaved(row, head));
        }),
        fault("gate and up swapped", &["blk.0.ffn_gate"], &["swapped"], |f| f.swap("gate_proj", "up_proj")),
        fault("k and v swapped", &["blk.0.attn_k.weight"], &["swapped"], |f| {
            f.swap("k_proj.weight", "v_proj.weight")
        }),
        fault("head order", &["blk.0.attn_q.weight"], &["heads in another order"], move |f| {
            f.reorder("q_proj.weight", |row| ((row / head + 1) % heads) * head + row % head);
        }),
        fault("vocabulary off by one", &["hidden embed"], &["shifted by one"], |f| {
            f.edit("embed_tokens.weight", |elements, columns| elements.rotate_left(columns));
        }),
        fault("layers swapped", &["layer.1.attention.norm"], &["blk.2.attn_norm"], |f| {
            f.swap("layers.1.", "layers.2.");
        }),
        fault("o transposed", &["blk.0.attn_output"], &["transposed"], |f| {
            f.edit("o_proj.weight", |elements, columns| {
                let rows = elements.len() / columns;
                let turned = (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c)));
                *elements = turned.map(|(r, c)| elements[r * columns + c]).collect();
            });
        }),
        fault("down reshaped", &["blk.0.ffn_down"], &["transposed"], |f| {
            f.edit("down_proj.weight", |elements, columns| {
                let rows = elements.len() / columns;
                let turned = (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c)));
                *elements = turned.map(|(r, c)| elements[r * columns + c]).collect();
            });
        }),
        fault("nibbles swapped", &["blk.0.attn_k.weight"], &["nibbles"], |f| {
            f.edit("k_proj.weight", |elements, _| {
                elements.chunks_exact_mut(32).for_each(|block| block.rotate_left(16))
            });
        }),
        fault("bf16 read as f16", &["blk.0.attn_v.weight"], &["BF16 read as F16"], |f| {
            f.map("v_proj.weight", |x| from_f16(to_bf16(x)));
        }),
        fault("f16 read as bf16", &["blk.0.attn_v.weight"], &["F16 read as BF16"], |f| {
            f.map("v_proj.weight", |x| from_bf16(to_f16(x)));
        }),
        fault("other byte order", &["blk.0.ffn_up"], &["bytes in the other order"], |f| {
            f.map("up_proj.weight", |x| f32::from_bits(x.to_bits().swap_bytes()));
        }),
        fault("rounded to 4 bits", &["blk.0.attn", "hidden embed"], &["is rounded"], |f| {
            f.edit("proj.weight", |elements, _| {
                for block in elements.chunks_mut(32) {
                    let step = block.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 7.0;
                    block.iter_mut().for_each(|x| *x = (*x / step).round() * step);
                }
            });
        }),
        fault("output scaled by 1.1", &["blk.0.attn_output"], &["is 1.1 times"], |f| {
            f.map("layers.0.self_attn.o_proj.weight", |x| x * 1.1);
        }),
        fault("opposite sign", &["blk.1.ffn_down"], &["opposite sign"], |f| {
            f.map("layers.1.mlp.down_proj.weight", |x| -x);
        }),
        fault("zeros", &["blk.1.attn_v"], &["only zeros"], |f| {
            f.map("layers.1.self_attn.v_proj.weight", |_| 0.0)
        }),
        fault("nan", &["blk.1.ffn_up"], &["NaN or infinite"], |f| {
            f.edit("layers.1.mlp.up_proj.weight", |elements, _| elements[77] = f32::NAN);
        }),
        fault("a damaged element", &["blk.2.attn_q"], &["is damaged: 1 of"], |f| {
            f.edit("layers.2.self_attn.q_proj.weight", |elements, columns| elements[5 * columns + 3] = 4.0);
        }),
        fault("norm lacks 1", &["layer.0.attention.norm norm"], &["lacks the 1"], |f| {
            f.map("norm.weight", |x| x - 1.0)
        }),
        fault("norm has 1 twice", &["layer.0.attention.norm norm"], &["once too often"], |f| {
            f.map("norm.weight", |x| x + 1.0)
        }),
    ];
    all.push(
        fault("head is the embedding", &["logits linear"], &["the head is the embedding"], |f| {
            f.remove("lm_head.weight");
            f.config["tie_word_embeddings"] = json!(true);
        })
        .against(untied),
    );
    all.push(fault("another head", &["logits linear"], &["a tensor of its own"], untied));
    if !base.is_gemma {
        all.push(fault("biases missing", &["layer.0.attention.qkv"], &["the bias is missing"], |f| {
            f.remove("_proj.bias");
        }));
        all.push(fault("a bias of zeros", &["blk.0.attn_k"], &["only zeros"], |f| {
            f.map("k_proj.bias", |_| 0.0)
        }));
    }
    all
}

/// Gives a model a head of its own.
fn untied(folder: &mut Folder) {
    let embedding = folder.tensors["model.embed_tokens.weight"].clone();
    let mut seed = 11;
    let elements = embedding.elements.iter().map(|_| 0.1 * noise(&mut seed)).collect();
    let head = Tensor { shape: embedding.shape, elements: Arc::new(elements) };
    folder.tensors.insert("lm_head.weight".to_owned(), head);
    folder.config["tie_word_embeddings"] = json!(false);
}

fn of_configurations(base: &Base) -> Vec<Fault> {
    let mut all = vec![
        fault("theta 10 times", &["query.rotated rope"], &["theta of RoPE is"], |f| {
            f.config["rope_theta"] = json!(f.config["rope_theta"].as_f64().unwrap() * 10.0);
        }),
        fault("epsilon 1e-3", &[" norm "], &["ε of the norm is 0.001"], |f| {
            f.config["rms_norm_eps"] = json!(1e-3)
        }),
        fault("epsilon 1e-5", &["norm"], &["ε of the norm is 0.00001"], |f| {
            f.config["rms_norm_eps"] = json!(1e-5)
        }),
    ];
    if base.is_gemma {
        all.extend([
            fault(
                "global theta is the local one",
                &["layer.5.attention.query.rotated"],
                &["theta of RoPE is 10000, not"],
                |f| {
                    f.config["rope_theta"] = json!(10000.0);
                },
            ),
            fault(
                "rope scaled by 8",
                &["layer.5.attention.query.rotated"],
                &["a scaling of positions by 8"],
                |f| {
                    f.config["rope_scaling"] = json!({"rope_type": "linear", "factor": 8.0});
                },
            ),
            fault(
                "attention scale 2 times",
                &["layer.0.attention.heads attention"],
                &["the scale of the scores"],
                |f| {
                    f.config["query_pre_attn_scalar"] = json!(64);
                },
            ),
            fault(
                "attention scale 1/d",
                &["layer.0.attention.heads attention"],
                &["the scale of the scores"],
                |f| {
                    f.config["query_pre_attn_scalar"] = json!(65536);
                },
            ),
            fault("silu for gelu", &["feed_forward.activated activate"], &["the activation is SiLU"], |f| {
                f.config["hidden_activation"] = json!("silu");
            }),
            fault("erf for tanh", &["activate"], &["the activation is GELU, not"], |f| {
                f.config["hidden_activation"] = json!("gelu");
            }),
            fault("window missing", &["layer.0.attention.heads attention"], &["the mask is"], |f| {
                f.config["sliding_window"] = json!(4096);
            })
            .against(|f| f.config["sliding_window"] = json!(16)),
            fault(
                "window short",
                &["layer.0.attention.heads attention"],
                &["the mask is window of 16"],
                |f| {
                    f.config["sliding_window"] = json!(16);
                },
            ),
            fault("bos missing", &["prompt"], &["is missing"], |f| begin(f, "[]")),
        ]);
    } else {
        all.push(fault(
            "gelu for silu",
            &["feed_forward.activated activate"],
            &["the activation is GELU"],
            |f| {
                f.config["hidden_act"] = json!("gelu_pytorch_tanh");
            },
        ));
        all.push(fault(
            "rope scaled by 8",
            &["layer.0.attention.query.rotated"],
            &["a scaling of positions by 8"],
            |f| {
                f.config["rope_scaling"] = json!({"rope_type": "linear", "factor": 8.0});
            },
        ));
    }
    all
}

/// Changes the tokens that begin every text.
fn begin(folder: &mut Folder, ids: &str) {
    for (name, bytes) in &mut folder.companions {
        if name == "tokenizer.json" {
            let mut json: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            json["post_processor"] = serde_json::Value::Null;
            *bytes = json.to_string().into_bytes();
        }
        if name == "tokenizer_config.json" {
            let mut json: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            json["add_bos_token"] = json!(ids != "[]");
            *bytes = json.to_string().into_bytes();
        }
    }
}

fn of_computations(base: &Base) -> Vec<Fault> {
    let table = if base.is_gemma { "gemma3" } else { "qwen2" };
    let half = base.head / 2;
    let mut all = vec![
        fault(
            "rope style",
            &["layer.0.attention.query.rotated"],
            &["in the style `interleaved`"],
            move |f| {
                computed(f, table, "rope = \"norm\"", "");
            },
        ),
        fault(
            "half the rotation",
            &["layer.0.attention.query.rotated"],
            &["pairs of each head, not"],
            move |f| {
                computed(f, table, "", &format!("[decoder.rope]\ndimensions = \"{half}\""));
            },
        ),
        fault("embedding scale", &["hidden embed"], &["scale of the embeddings"], move |f| {
            let scale = if table == "gemma3" { "1" } else { "8" };
            computed(f, table, "", &format!("[decoder]\ninput = {{ scale = \"{scale}\" }}"));
        }),
        fault(
            "soft cap of scores missing",
            &["attention.heads"],
            &["the soft cap of the scores, 5, is missing"],
            |_| (),
        )
        .against(move |f| computed(f, table, "", "[decoder.attention]\nsoft_cap = \"5\"")),
        fault("soft cap of logits missing", &["logits.capped"], &["is missing"], |_| ())
            .against(move |f| computed(f, table, "", "[decoder]\noutput = { soft_cap = \"30\" }")),
    ];
    if base.is_gemma {
        let optional = "[[tensor]]\nrole = \"attention.query.norm\"\nname = \"model.layers.{layer}.self_attn.q_norm.weight\"\nshape = [\"head_dim\"]\ngguf = { name = \"blk.{layer}.attn_q_norm.weight\", ops = [\"add(1)\"] }\noptional = true\n\n[[tensor]]\nrole = \"attention.key.norm\"\nname = \"model.layers.{layer}.self_attn.k_norm.weight\"\nshape = [\"head_dim\"]\ngguf = { name = \"blk.{layer}.attn_k_norm.weight\", ops = [\"add(1)\"] }\noptional = true\n";
        all.push(fault(
            "qk norm missing",
            &["layer.0.attention.query.norm norm"],
            &["norm of attention query is missing"],
            move |f| {
                f.remove("q_norm.weight");
                f.remove("k_norm.weight");
                computed(f, table, "", optional);
            },
        ));
    } else {
        all.push(fault(
            "attention scale 2 times",
            &["layer.0.attention.heads attention"],
            &["the scale of the scores"],
            move |f| {
                computed(f, table, "", "[decoder.attention]\nscale = \"0.5\"");
            },
        ));
        all.push(fault(
            "window short",
            &["layer.0.attention.heads attention"],
            &["the mask is window of 16"],
            move |f| {
                computed(f, table, "", "[decoder.attention]\nwindow = \"16\"");
            },
        ));
    }
    all
}
