//! The layout contract's own tests, by its names: FALSIFY-001 to 008 of `tensor-layout-contract.yaml`, and its tensors.
//!
//! The compile-time half of 002 stands in `host/engine/src/contract/validators.rs` (`compile_fail`). 006 compares the converter with
//! the loader's validator; when inference comes, its loader must go through the same. 007 and 008 speak of kernels: what
//! holds without them is tested here.

use crate::altered::{altered, bf16, configure, converted};
use crate::models::opened;
use apr_engine::architecture::{ContractTensor, contract};
use apr_engine::contract::{
    BYTES, DENSITY, FINITE, Kind, OUTPUT_SHAPE, Quality, SHAPE, SPOT, StatisticsBuilder, ValidatedEmbedding,
    Validator, judge, kernel_bytes,
};
use apr_engine::expression::evaluate::read;
use apr_engine::open::OpenedModel;
use apr_host::host::Host;
use apr_sdk::{DType, Error, Extent, Payload, Tensor, checked_payload_len};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host};

const EMBEDDING: &str = "model.embed_tokens.weight";
const WEIGHT: &str = "model.layers.0.self_attn.q_proj.weight";
const VECTOR: &str = "model.norm.weight";
const STRICT: Quality = Quality { strict: true, relaxed: false, allow_nonfinite: false };

fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Tensor {
    let extent = Extent::new(0, 0, checked_payload_len(dtype, shape).unwrap());
    Tensor {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        payload: Payload::Extent { extent, view: None },
    }
}

/// An embedding of these values, as its validator gives it.
fn embedding(values: &[f32], vocabulary: u64, hidden: u64) -> Result<ValidatedEmbedding, Error> {
    let embedding = tensor("embed", DType::F32, &[vocabulary, hidden]);
    let validator = Validator::embedding(&embedding, vocabulary, hidden)?;
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    // In two pieces, the second first, cut inside a value.
    let cut = bytes.len() / 3;
    validator.see(cut as u64, &bytes[cut..]);
    validator.see(0, &bytes[..cut]);
    validator.finish()
}

fn code(error: &Error) -> &str {
    error.explicit_code().unwrap_or("no code")
}

#[test]
fn falsify_001_embedding_density() {
    let error = embedding(&vec![0.0; 1000 * 16], 1000, 16).unwrap_err();
    assert_eq!(code(&error), DENSITY);
    assert!(error.message().contains("100.0 % of its 16000 values are zero"), "{error}");
}

#[test]
fn falsify_002_type_enforcement() {
    // What needs a validated embedding takes nothing else, and this is how one comes to be.
    struct Loaded {
        embedding: ValidatedEmbedding,
    }
    let values: Vec<f32> = (0u8..200).map(|n| f32::from(n) - 77.5).collect();
    let loaded = Loaded { embedding: embedding(&values, 20, 10).unwrap() };
    assert_eq!(loaded.embedding.tensor().shape, [20, 10]);
    assert_eq!(loaded.embedding.receipt().statistics().values, 200);
}

#[test]
fn falsify_003_nan_rejection() {
    let weight = tensor("test", DType::F32, &[100, 10]);
    let validator = Validator::weight(&weight, None, 100, 10).unwrap();
    let mut data = vec![0.1f32; 1000];
    data[500] = f32::NAN;
    validator.see(0, &data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
    let error = validator.finish().unwrap_err();
    assert_eq!(code(&error), FINITE);
    assert!(error.message().contains("1 NaN"), "{error}");
}

#[test]
fn falsify_004_spot_check() {
    // PMAT-234: the first 94.5 % are zero, as if the data began at the wrong offset.
    let (host, scratch) = (host(), Scratch::new());
    let folder = altered(&scratch, &Checkpoint::tiny(), EMBEDDING, &|bytes| {
        let zeros = bytes.len() * 945 / 1000;
        bytes[..zeros].fill(0);
    });
    let output = scratch.at("out.apr");
    let error = converted(&host, &folder, ("apr", &output), STRICT).unwrap_err();
    assert_eq!((code(&error), error.tensor_name()), (DENSITY, Some(EMBEDDING)));
    assert!(!output.exists());
    assert_eq!(load(&folder, EMBEDDING), Some(DENSITY.to_owned()));
    // Each of the other gates sees it by itself too.
    let values = (0u16..640).map(|n| if n < 600 { 0.0 } else { f32::from(n) });
    let found = embedding(&values.collect::<Vec<_>>(), 64, 10).unwrap_err();
    assert_eq!(code(&found), DENSITY);
}

#[test]
fn falsify_005_lm_head_shape() {
    let wrong = tensor("lm_head.weight", DType::F32, &[896, 151_936]);
    let error = Validator::weight(&wrong, Some("output"), 151_936, 896).err().unwrap();
    assert_eq!(code(&error), OUTPUT_SHAPE);
    // A conversion sees it too.
    let (host, scratch) = (host(), Scratch::new());
    let mut model = Checkpoint::tiny();
    for (_, tensors) in &mut model.shards {
        tensors.iter_mut().filter(|t| t.name == "lm_head.weight").for_each(|t| t.shape.reverse());
    }
    let folder = scratch.at("model");
    model.write_to(&folder).unwrap();
    let error = converted(&host, &folder, ("gguf", &scratch.at("out.gguf")), Quality::default()).unwrap_err();
    assert_eq!((code(&error), error.tensor_name()), (OUTPUT_SHAPE, Some("lm_head.weight")));
}

/// A validator that has seen the payload of a tensor.
fn fed<V>(host: &Host, model: &OpenedModel, number: usize, validator: Validator<V>) -> Validator<V> {
    let mut at = 0;
    read::stream(host, model, number, &mut |bytes| {
        validator.see(at, bytes);
        at += bytes.len() as u64;
        Ok(())
    })
    .unwrap();
    validator
}

/// The code with which the loader's validator refuses a tensor of a folder, of the shapes that the model was made with.
fn load(folder: &std::path::Path, name: &str) -> Option<String> {
    let host = host();
    let model = opened(&host, folder);
    let number = model.model.tensors.iter().position(|t| t.name == name).unwrap();
    let tensor = &model.model.tensors[number];
    let refused = match name {
        EMBEDDING => Validator::embedding(tensor, 96, 64)
            .and_then(|v| fed(&host, &model, number, v).finish().map(drop)),
        WEIGHT => Validator::weight(tensor, Some("attention.query"), 64, 64)
            .and_then(|v| fed(&host, &model, number, v).finish().map(drop)),
        _ => Validator::vector(tensor, 64).and_then(|v| fed(&host, &model, number, v).finish().map(drop)),
    };
    refused.err().map(|error| code(&error).to_owned())
}

/// What the converter (strict) and the loader say of a tiny llama of which one tensor was changed; they must agree.
fn both(name: &str, alter: &dyn Fn(&mut [u8])) -> Option<String> {
    let (host, scratch) = (host(), Scratch::new());
    let folder = altered(&scratch, &Checkpoint::tiny(), name, alter);
    let converter = converted(&host, &folder, ("apr", &scratch.at("out.apr")), STRICT);
    let converter = converter.err().map(|error| code(&error).to_owned());
    assert_eq!(converter, load(&folder, name), "converter and loader judge differently");
    converter
}

fn put(bytes: &mut [u8], at: usize, value: f32) {
    bytes[at * 2..at * 2 + 2].copy_from_slice(&bf16([value]));
}

#[test]
fn falsify_006_good_embedding_accepted_by_both() {
    assert_eq!(both(EMBEDDING, &|_| ()), None);
}

#[test]
fn falsify_006_good_weight_accepted_by_both() {
    assert_eq!(both(WEIGHT, &|_| ()), None);
}

#[test]
fn falsify_006_good_vector_accepted_by_both() {
    assert_eq!(both(VECTOR, &|bytes| bytes.fill(0)), None);
}

#[test]
fn falsify_006_all_zeros_embedding_rejected_by_both() {
    assert_eq!(both(EMBEDDING, &|bytes| bytes.fill(0)).as_deref(), Some(DENSITY));
}

#[test]
fn falsify_006_nan_embedding_rejected_by_both() {
    assert_eq!(both(EMBEDDING, &|bytes| put(bytes, 77, f32::NAN)).as_deref(), Some(FINITE));
}

#[test]
fn falsify_006_inf_embedding_rejected_by_both() {
    assert_eq!(both(EMBEDDING, &|bytes| put(bytes, 77, f32::NEG_INFINITY)).as_deref(), Some(FINITE));
}

#[test]
fn falsify_006_wrong_shape_embedding_rejected_by_both() {
    let (host, scratch) = (host(), Scratch::new());
    let mut model = Checkpoint::tiny();
    for (_, tensors) in &mut model.shards {
        tensors.iter_mut().filter(|t| t.name == EMBEDDING).for_each(|t| t.shape.reverse());
    }
    let folder = scratch.at("model");
    model.write_to(&folder).unwrap();
    let error = converted(&host, &folder, ("apr", &scratch.at("out.apr")), STRICT).unwrap_err();
    assert_eq!(code(&error), SHAPE);
    assert_eq!(load(&folder, EMBEDDING).as_deref(), Some(SHAPE));
}

#[test]
fn falsify_006_spot_check_offset_bug_rejected_by_both() {
    // The row at 10 % of 96 alone.
    assert_eq!(both(EMBEDDING, &|bytes| bytes[9 * 128..10 * 128].fill(0)).as_deref(), Some(SPOT));
    assert_eq!(both(EMBEDDING, &|bytes| bytes[10 * 128..11 * 128].fill(0)), None);
}

#[test]
fn falsify_006_all_zero_weight_rejected_by_both() {
    assert_eq!(both(WEIGHT, &|bytes| bytes.fill(0)).as_deref(), Some(DENSITY));
}

#[test]
fn falsify_006_nan_weight_rejected_by_both() {
    assert_eq!(both(WEIGHT, &|bytes| put(bytes, 0, f32::NAN)).as_deref(), Some(FINITE));
}

/// Zeros in the first `n` of every 10 values; the others vary.
fn sparse(n: usize) -> impl Fn(&mut [u8]) {
    move |bytes| {
        for at in 0..bytes.len() / 2 {
            #[allow(clippy::cast_precision_loss, reason = "small numbers")]
            put(bytes, at, if at % 10 < n { 0.0 } else { 1.0 + (at % 7) as f32 });
        }
    }
}

#[test]
fn falsify_006_density_threshold_boundary_parity() {
    let half = |bytes: &mut [u8]| (0..bytes.len() / 2).for_each(|at| put(bytes, at, [0.0, 1.0][at % 2]));
    assert_eq!(both(EMBEDDING, &half).as_deref(), Some(DENSITY));
    let less = |bytes: &mut [u8]| {
        half(bytes);
        put(bytes, 0, 2.0);
    };
    assert_eq!(both(EMBEDDING, &less), None);
}

#[test]
fn falsify_006_weight_density_threshold_boundary_parity() {
    // 64 x 64 values: 8 of 10 zeros are 3278 of 4096, which is 80.03 %.
    assert_eq!(both(WEIGHT, &sparse(8)).as_deref(), Some(DENSITY));
    let less = |bytes: &mut [u8]| {
        sparse(8)(bytes);
        (0..2).for_each(|at| put(bytes, at, 3.0));
    };
    assert_eq!(both(WEIGHT, &less), None);
}

#[test]
fn falsify_006_nan_vector_rejected_by_both() {
    assert_eq!(both(VECTOR, &|bytes| put(bytes, 5, f32::NAN)).as_deref(), Some(FINITE));
}

#[test]
fn falsify_007_no_catch_all_in_dispatch_sites() {
    // Until there are kernels, the one place that treats quantized types one by one is where their scales lie: each type is
    // named there, or is said not to have been looked at; none falls to another's layout.
    for info in DType::ALL.iter().filter(|info| info.dtype.is_block()) {
        let row = u64::from(info.block_elements);
        match (info.dtype.scales(), StatisticsBuilder::new(&tensor("t", info.dtype, &[2, row]), false)) {
            (Some(_), Ok(builder)) => assert!(builder.by_scales(), "{}", info.name),
            (None, Err(why)) => assert!(why.message().contains("scales"), "{why}"),
            _ => panic!("{} is neither looked at nor left out", info.name),
        }
    }
    assert!(DType(u32::MAX).scales().is_none());
    StatisticsBuilder::new(&Tensor { dtype: DType(u32::MAX), ..tensor("t", DType::F32, &[1]) }, false)
        .err()
        .unwrap();
}

#[test]
fn falsify_008_one_type_s_blocks_are_no_other_s() {
    // Q6_K blocks where Q4_K is said: another size (F-LAYOUT-CONTRACT-004), and scales that are none.
    let (six, four) = (tensor("t", DType::Q6_K, &[4, 256]), tensor("t", DType::Q4_K, &[4, 256]));
    assert_eq!((kernel_bytes(&six), kernel_bytes(&four)), (Some(840), Some(576)));
    assert_eq!(kernel_bytes(&tensor("t", DType::Q8_0, &[3, 64])), Some(204));
    // Seen as Q4_K, quants of Q6_K are scales: of all bytes set, which are good quants, they are no numbers.
    let builder = StatisticsBuilder::new(&four, false).unwrap();
    let mut blocks = vec![0xff; 840];
    blocks.chunks_exact_mut(210).for_each(|block| block[208..].copy_from_slice(&0x3c00u16.to_le_bytes()));
    assert!(builder.see(0, &blocks[..576]));
    let broken = judge(Kind::Weight, &builder.build().unwrap());
    assert_eq!(broken.iter().map(|b| b.code).collect::<Vec<_>>(), [FINITE]);
    let builder = StatisticsBuilder::new(&six, false).unwrap();
    assert!(builder.see(0, &blocks));
    assert_eq!(judge(Kind::Weight, &builder.build().unwrap()), []);
    assert_eq!(BYTES, "F-LAYOUT-CONTRACT-004");
}

/// The tensors of the contract: role here, name in GGUF, name in APR, shape in APR. Where `transpose` is true, the shape in
/// GGUF is the reverse.
const CONTRACT: &[(&str, &str, &str, &[&str])] = &[
    ("embedding", "token_embd.weight", "model.embed_tokens.weight", &["vocab", "hidden"]),
    ("output", "output.weight", "lm_head.weight", &["vocab", "hidden"]),
    (
        "attention.query",
        "blk.{n}.attn_q.weight",
        "model.layers.{n}.self_attn.q_proj.weight",
        &["heads*head_dim", "hidden"],
    ),
    (
        "attention.key",
        "blk.{n}.attn_k.weight",
        "model.layers.{n}.self_attn.k_proj.weight",
        &["kv_heads*head_dim", "hidden"],
    ),
    (
        "attention.value",
        "blk.{n}.attn_v.weight",
        "model.layers.{n}.self_attn.v_proj.weight",
        &["kv_heads*head_dim", "hidden"],
    ),
    (
        "attention.output",
        "blk.{n}.attn_output.weight",
        "model.layers.{n}.self_attn.o_proj.weight",
        &["hidden", "heads*head_dim"],
    ),
    (
        "feed_forward.gate",
        "blk.{n}.ffn_gate.weight",
        "model.layers.{n}.mlp.gate_proj.weight",
        &["intermediate", "hidden"],
    ),
    (
        "feed_forward.up",
        "blk.{n}.ffn_up.weight",
        "model.layers.{n}.mlp.up_proj.weight",
        &["intermediate", "hidden"],
    ),
    (
        "feed_forward.down",
        "blk.{n}.ffn_down.weight",
        "model.layers.{n}.mlp.down_proj.weight",
        &["hidden", "intermediate"],
    ),
    ("attention.norm", "blk.{n}.attn_norm.weight", "model.layers.{n}.input_layernorm.weight", &["hidden"]),
    (
        "feed_forward.norm",
        "blk.{n}.ffn_norm.weight",
        "model.layers.{n}.post_attention_layernorm.weight",
        &["hidden"],
    ),
    ("output.norm", "output_norm.weight", "model.norm.weight", &["hidden"]),
];

/// The contract's words for what the tables call otherwise.
fn in_contract_words(tensor: &ContractTensor) -> (String, String, Vec<String>) {
    let size = |text: &String| {
        let words = [
            ("num_attention_heads", "heads"),
            ("num_key_value_heads", "kv_heads"),
            ("intermediate_size", "intermediate"),
            ("hidden_size", "hidden"),
            ("vocab_size", "vocab"),
            (" ", ""),
        ];
        words.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to))
    };
    let name = |name: &str| name.replace("{layer}", "{n}");
    (name(&tensor.name), name(&tensor.canonical_name), tensor.canonical_shape.iter().map(size).collect())
}

#[test]
fn the_tables_say_what_the_contract_says() {
    let host = host();
    let tables = host.tables();
    for id in ["llama", "mistral", "qwen2"] {
        let tensors = contract(tables.find(id).unwrap(), "gguf");
        for (role, gguf_name, apr_name, apr_shape) in CONTRACT {
            let of_role = |t: &&ContractTensor| t.role.as_deref() == Some(*role);
            let found = tensors.iter().find(of_role).unwrap_or_else(|| panic!("{id} lacks {role}"));
            let (name, canonical, shape) = in_contract_words(found);
            assert_eq!((name.as_str(), canonical.as_str()), (*gguf_name, *apr_name), "{id}");
            assert_eq!(shape, *apr_shape, "{id}: {role}");
            // F-LAYOUT-CONTRACT-001 and 003.
            let mut reversed = found.canonical_shape.clone();
            reversed.reverse();
            assert_eq!(found.reversed_shape, reversed);
            assert_eq!(found.reversed, apr_shape.len() > 1, "{id}: {role}");
        }
    }
}

#[test]
fn shapes_that_the_configuration_contradicts_have_the_contract_s_codes() {
    let (host, scratch) = (host(), Scratch::new());
    for (key, value, wanted) in
        [("vocab_size", 97, SHAPE), ("intermediate_size", 130, SHAPE), ("num_key_value_heads", 2, SHAPE)]
    {
        let model = Checkpoint { name: format!("tiny-{key}"), ..Checkpoint::tiny() };
        let folder = altered(&scratch, &model, VECTOR, &|_| ());
        configure(&folder, key, value.into());
        let error =
            converted(&host, &folder, ("gguf", &scratch.at("out.gguf")), Quality::default()).unwrap_err();
        assert_eq!(code(&error), wanted, "{key}: {error}");
    }
}
