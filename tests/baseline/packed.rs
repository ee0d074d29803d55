//! A seeded checkpoint as GPTQ packs it: codes that must be copied or refused, and never taken for weights.

use apr_sdk::DType;
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::root;
use serde_json::{Value as Json, json};

/// Columns that share a scale.
const GROUP: u64 = 32;

/// The golden Llama with the matrices of its layers packed.
pub fn gptq() -> Checkpoint {
    let mut model = Checkpoint::golden(&root().join("tests/golden/llama")).unwrap();
    let (_, bytes) = model.companions.iter_mut().find(|(name, _)| name == "config.json").unwrap();
    let mut config: Json = serde_json::from_slice(bytes).unwrap();
    config["quantization_config"] = json!({"quant_method": "gptq", "bits": 4, "group_size": GROUP});
    *bytes = config.to_string().into_bytes();
    for (_, tensors) in &mut model.shards {
        *tensors = std::mem::take(tensors).into_iter().flat_map(packed).collect();
    }
    model
}

/// The tensors that a tensor becomes: codes of 4 bits, zero points, scales, and which group a column is in.
fn packed(tensor: SeededTensor) -> Vec<SeededTensor> {
    let [rows, columns] = tensor.shape[..] else { return vec![tensor] };
    let Some(module) = tensor.name.strip_suffix("_proj.weight") else { return vec![tensor] };
    let parts = [
        ("qweight", DType::I32, vec![columns / 8, rows]),
        ("qzeros", DType::I32, vec![columns / GROUP, rows / 8]),
        ("scales", DType::F16, vec![columns / GROUP, rows]),
        ("g_idx", DType::I32, vec![columns]),
    ];
    let part = |(end, dtype, shape)| SeededTensor {
        name: format!("{module}_proj.{end}"),
        dtype,
        shape,
        center: 0.0,
    };
    parts.map(part).into()
}
