//! Seeded models with tensors of several tiles, whose rows are permuted, turned, stacked and regrouped on the way to another
//! dialect. Each is a golden one of one layer, widened where that does not make the rest wide.

use apr_testkit::Checkpoint;
use apr_tests::root;
use serde_json::{Value as Json, json};

/// How a golden model is widened.
struct Wide {
    golden: &'static str,
    /// What its configuration says instead.
    config: Json,
    /// What is in the names of layers that are left out.
    without: &'static str,
    /// Ends of names, and the shapes of these tensors.
    shapes: &'static [(&'static str, &'static [u64])],
}

/// The models by name.
pub fn models() -> Vec<(&'static str, Checkpoint)> {
    wide().iter().map(|wide| (wide.golden, wide.checkpoint())).collect()
}

fn wide() -> Vec<Wide> {
    vec![
        // Rows of q and k are permuted in pairs, head by head.
        Wide {
            golden: "llama",
            config: json!({"num_hidden_layers": 1, "head_dim": 288}),
            without: ".layers.1.",
            shapes: &[
                ("q_proj.weight", &[2304, 256]),
                ("k_proj.weight", &[1152, 256]),
                ("v_proj.weight", &[1152, 256]),
                ("o_proj.weight", &[256, 2304]),
            ],
        },
        // Every matrix is turned.
        Wide {
            golden: "gpt2",
            config: json!({"n_layer": 1, "n_inner": 8192}),
            without: ".h.1.",
            shapes: &[
                ("c_fc.weight", &[64, 8192]),
                ("c_fc.bias", &[8192]),
                ("mlp.c_proj.weight", &[8192, 64]),
            ],
        },
        // Experts are stacked.
        Wide {
            golden: "mixtral",
            config: json!({"num_hidden_layers": 1, "intermediate_size": 3072}),
            without: ".layers.1.",
            shapes: &[("w1.weight", &[3072, 64]), ("w2.weight", &[64, 3072]), ("w3.weight", &[3072, 64])],
        },
        // Query, key and value come head by head and go one behind the other.
        Wide {
            golden: "gpt-neox",
            config: json!({
                "num_hidden_layers": 1, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 512,
            }),
            without: ".layers.1.",
            shapes: &[
                ("embed_out.weight", &[448, 512]),
                ("embed_in.weight", &[448, 512]),
                ("norm.weight", &[512]),
                ("norm.bias", &[512]),
                ("query_key_value.weight", &[1536, 512]),
                ("query_key_value.bias", &[1536]),
                ("rotary_emb.inv_freq", &[8]),
                ("dense.weight", &[512, 512]),
                ("dense_h_to_4h.weight", &[512, 512]),
                ("dense_4h_to_h.weight", &[512, 512]),
                ("dense.bias", &[512]),
                ("dense_h_to_4h.bias", &[512]),
                ("dense_4h_to_h.bias", &[512]),
                ("layernorm.weight", &[512]),
                ("layernorm.bias", &[512]),
            ],
        },
    ]
}

impl Wide {
    fn checkpoint(&self) -> Checkpoint {
        let mut model = Checkpoint::golden(&root().join("tests/golden").join(self.golden)).unwrap();
        let (_, bytes) = model.companions.iter_mut().find(|(name, _)| name == "config.json").unwrap();
        let mut config: Json = serde_json::from_slice(bytes).unwrap();
        for (key, value) in self.config.as_object().unwrap() {
            config[key] = value.clone();
        }
        *bytes = config.to_string().into_bytes();
        for (_, tensors) in &mut model.shards {
            tensors.retain(|tensor| !tensor.name.contains(self.without));
            for tensor in tensors {
                if let Some((_, shape)) = self.shapes.iter().find(|(end, _)| tensor.name.ends_with(end)) {
                    tensor.shape = shape.to_vec();
                }
            }
        }
        model
    }
}
