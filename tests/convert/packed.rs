//! Packed checkpoints where no plugin knows the scheme: whatever would change codes and scales as if they were weights is
//! refused by the scheme's name, and exact copies are exact.

use apr_engine::open::{OpenOptions, open};
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::ConvertOptions;
use apr_host::host::Host;
use apr_sdk::{DType, ErrorKind, ForeignPolicy};
use apr_tests::{Scratch, host, host_without, must, names_in, options};
use serde_json::{Map, Value as Json, json};
use std::path::{Path, PathBuf};

use DType as T;

/// The model's sizes: hidden, feed-forward, vocabulary.
const H: u64 = 64;
const F: u64 = 128;
const V: u64 = 32;

/// A tensor: what its name has behind the module's, its type and shape.
pub(super) type Packed = (&'static str, DType, Vec<u64>);

/// A checkpoint as one scheme's package writes it.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// What the refusal must say.
    pub(super) says: &'static str,
    /// What `config.json` says besides.
    config: Json,
    /// A companion file.
    companion: Option<(&'static str, &'static str)>,
    /// The tensors of a linear module of so many rows and columns.
    module: fn(u64, u64) -> Vec<Packed>,
}

pub(super) fn case(
    name: &'static str,
    says: &'static str,
    config: Json,
    module: fn(u64, u64) -> Vec<Packed>,
) -> Case {
    Case { name, says, config, companion: None, module }
}

pub(super) fn method(json: Json) -> Json {
    json!({ "quantization_config": json })
}

fn gptq(out: u64, inner: u64) -> Vec<Packed> {
    vec![
        (".qweight", T::I32, vec![inner / 8, out]),
        (".qzeros", T::I32, vec![inner / 32, out / 8]),
        (".scales", T::F16, vec![inner / 32, out]),
        (".g_idx", T::I32, vec![inner]),
    ]
}

fn mlx(out: u64, inner: u64) -> Vec<Packed> {
    vec![
        (".weight", T::U32, vec![out, inner / 8]),
        (".scales", T::BF16, vec![out, inner / 64]),
        (".biases", T::BF16, vec![out, inner / 64]),
    ]
}

pub(super) fn fp8_blocks(out: u64, inner: u64) -> Vec<Packed> {
    vec![(".weight", T::F8_E4M3, vec![out, inner]), (".weight_scale_inv", T::F32, vec![1, 1])]
}

fn plain(out: u64, inner: u64) -> Vec<Packed> {
    vec![(".weight", T::BF16, vec![out, inner])]
}

#[allow(clippy::too_many_lines, reason = "a table of schemes")]
fn cases() -> Vec<Case> {
    let nothing = || json!({});
    let fp8 = || method(json!({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}));
    let compressed = |format: &str| {
        method(
            json!({"quant_method": "compressed-tensors", "format": format, "config_groups": {"group_0": {}}}),
        )
    };
    vec![
        case("fp8-blocks", "`fp8`", fp8(), fp8_blocks),
        case("fp8-blocks-unsaid", "FP8 with block scales", nothing(), fp8_blocks),
        case("fp8-static", "`fp8`", method(json!({"quant_method": "fp8"})), |out, inner| {
            vec![
                (".weight", T::F8_E4M3, vec![out, inner]),
                (".weight_scale", T::F32, vec![]),
                (".input_scale", T::F32, vec![]),
            ]
        }),
        case("fp8-scale-first", "FP8 with scales", nothing(), |out, inner| {
            vec![(".weight", T::F8_E4M3, vec![out, inner]), (".scale_weight", T::F32, vec![])]
        }),
        case("fp8-factor", "FP8 with scales", nothing(), |out, inner| {
            vec![(".weight", T::F8_E4M3, vec![out, inner]), (".weights_scaling_factor", T::F32, vec![])]
        }),
        case("fp8-mistral", "FP8 with scales", nothing(), |out, inner| {
            vec![(".weight", T::F8_E4M3, vec![out, inner]), (".qscale_weight", T::BF16, vec![])]
        }),
        case("fp8-experts", "FP8 with block scales", nothing(), |out, inner| {
            vec![
                (".experts.up", T::F8_E4M3, vec![2, out, inner]),
                (".experts.up_scale_inv", T::F32, vec![2, 1, 1]),
            ]
        }),
        case("fp8-powers", "codes with power-of-two scales", nothing(), |out, inner| {
            vec![(".weight", T::I8, vec![out, inner / 2]), (".scale", T::F8_E8M0, vec![out, inner / 32])]
        }),
        case("pack-quantized", "`compressed-tensors`", compressed("pack-quantized"), |out, inner| {
            vec![
                (".weight_packed", T::I32, vec![out, inner / 8]),
                (".weight_scale", T::BF16, vec![out, inner / 32]),
                (".weight_shape", T::I64, vec![2]),
            ]
        }),
        case("int-quantized", "`compressed-tensors`", compressed("int-quantized"), |out, inner| {
            vec![(".weight", T::I8, vec![out, inner]), (".weight_scale", T::BF16, vec![out, 1])]
        }),
        case("int8-unsaid", "int8 with scales", nothing(), |out, inner| {
            vec![(".weight", T::I8, vec![out, inner]), (".weight_scale", T::BF16, vec![out, 1])]
        }),
        case("int8-eetq", "int8 with scales", nothing(), |out, inner| {
            vec![(".weight", T::I8, vec![inner, out]), (".weight_scales", T::F16, vec![out])]
        }),
        case("gptq", "`gptq`", method(json!({"quant_method": "gptq", "bits": 4, "group_size": 32})), gptq),
        case("gptq-unsaid", "GPTQ", nothing(), gptq),
        case("awq", "`awq`", method(json!({"quant_method": "awq", "bits": 4})), |out, inner| {
            vec![
                (".qweight", T::I32, vec![inner, out / 8]),
                (".qzeros", T::I32, vec![inner / 32, out / 8]),
                (".scales", T::F16, vec![inner / 32, out]),
            ]
        }),
        case(
            "nf4",
            "`bitsandbytes`",
            method(
                json!({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}),
            ),
            |out, inner| {
                vec![
                    (".weight", T::U8, vec![out * inner / 2, 1]),
                    (".weight.absmax", T::U8, vec![out * inner / 64]),
                    (".weight.quant_map", T::F32, vec![16]),
                    (".weight.nested_absmax", T::F32, vec![1]),
                    (".weight.nested_quant_map", T::F32, vec![256]),
                    (".weight.quant_state.bitsandbytes__nf4", T::U8, vec![80]),
                ]
            },
        ),
        case("llm-int8", "bitsandbytes int8", nothing(), |out, inner| {
            vec![
                (".weight", T::I8, vec![out, inner]),
                (".SCB", T::F32, vec![out]),
                (".weight_format", T::U8, vec![]),
            ]
        }),
        case("mxfp4", "`mxfp4`", method(json!({"quant_method": "mxfp4"})), |out, inner| {
            vec![
                (".up_blocks", T::U8, vec![2, out, inner / 32, 16]),
                (".up_scales", T::U8, vec![2, out, inner / 32]),
            ]
        }),
        case("mxfp4-unsaid", "MXFP4", nothing(), |out, inner| {
            vec![
                (".up_blocks", T::U8, vec![2, out, inner / 32, 16]),
                (".up_scales", T::U8, vec![2, out, inner / 32]),
            ]
        }),
        Case {
            companion: Some((
                "hf_quant_config.json",
                r#"{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}"#,
            )),
            ..case("nvfp4", "`NVFP4`", nothing(), |out, inner| {
                vec![
                    (".weight", T::U8, vec![out, inner / 2]),
                    (".weight_scale", T::F8_E4M3, vec![out, inner / 16]),
                    (".weight_scale_2", T::F32, vec![]),
                    (".input_scale", T::F32, vec![]),
                ]
            })
        },
        case("mlx", "MLX", json!({"quantization": {"group_size": 64, "bits": 4, "mode": "affine"}}), mlx),
        case("mlx-unsaid", "MLX", nothing(), mlx),
        case("hqq", "HQQ", nothing(), |out, inner| {
            vec![
                (".W_q", T::U8, vec![out * inner / 128, 64]),
                (".scale", T::F16, vec![out * inner / 64, 1]),
                (".zero", T::F16, vec![out * inner / 64, 1]),
            ]
        }),
        case("aqlm", "AQLM", nothing(), |out, inner| {
            vec![
                (".codes", T::I16, vec![out, inner / 8, 1]),
                (".codebooks", T::F16, vec![1, 256, 1, 8]),
                (".scales", T::F16, vec![out, 1, 1, 1]),
            ]
        }),
        case("vptq", "VPTQ", nothing(), |out, inner| {
            vec![(".indices", T::I32, vec![1, out, inner / 16]), (".centroids.weight", T::F16, vec![1, 2048])]
        }),
        case("spqr", "SpQR", nothing(), |out, inner| {
            vec![(".dense_weights", T::I64, vec![out * inner / 16]), (".row_offsets", T::I32, vec![out + 1])]
        }),
        case("quip", "QuIP#", nothing(), |out, inner| vec![(".Qidxs", T::I64, vec![out / 16, inner / 64])]),
        case("quanto", "quanto", nothing(), |out, inner| {
            vec![(".weight._data", T::I8, vec![out, inner]), (".weight._scale", T::BF16, vec![out, 1])]
        }),
        case("higgs", "HIGGS", nothing(), |out, inner| {
            vec![
                (".weight", T::I16, vec![out / 4, inner]),
                (".scales", T::F16, vec![out, 1]),
                (".tables2", T::F32, vec![256, 2, 1]),
            ]
        }),
        case("torchao", "torchao", nothing(), |out, inner| {
            vec![("._weight_qdata", T::I8, vec![out, inner]), ("._weight_scale", T::BF16, vec![out, 1])]
        }),
        case("bitnet", "`bitnet`", method(json!({"quant_method": "bitnet"})), |out, inner| {
            vec![(".weight", T::U8, vec![out / 4, inner]), (".weight_scale", T::BF16, vec![1])]
        }),
        case("exl2", "EXL2", nothing(), |out, inner| {
            vec![
                (".q_weight", T::I32, vec![inner / 8, out]),
                (".q_scale", T::I32, vec![inner / 32, out / 8]),
                (".q_scale_max", T::F16, vec![inner / 32]),
                (".q_invperm", T::I16, vec![inner]),
            ]
        }),
        case("exl3", "EXL3", nothing(), |out, inner| {
            vec![
                (".trellis", T::I16, vec![inner / 16, out / 16, 64]),
                (".suh", T::F16, vec![inner]),
                (".svh", T::F16, vec![out]),
            ]
        }),
        case("marlin", "Marlin", nothing(), |out, inner| {
            vec![(".B", T::I32, vec![inner / 16, out * 2]), (".s", T::F16, vec![inner / 64, out])]
        }),
        case("marlin-24", "Marlin 2:4", nothing(), |out, inner| {
            vec![
                (".B_24", T::I32, vec![inner / 32, out * 2]),
                (".B_meta", T::I16, vec![inner / 32, out * 2]),
                (".s", T::F16, vec![1, out]),
                (".workspace", T::I32, vec![16]),
            ]
        }),
        case("fp-quant", "FP-Quant", nothing(), |out, inner| {
            vec![
                (".qweight", T::U8, vec![out, inner / 2]),
                (".scales", T::U8, vec![out, inner / 32]),
                (".weight_global_scale", T::BF16, vec![1]),
                (".act_global_scale", T::BF16, vec![1]),
                (".forward_hadamard_matrix", T::BF16, vec![32, 32]),
            ]
        }),
        case("squeezellm", "SqueezeLLM", nothing(), |out, inner| {
            vec![(".qweight", T::I32, vec![inner / 8, out]), (".lookup_table", T::F16, vec![out, 16])]
        }),
        case("qtip", "QTIP", nothing(), |out, inner| {
            vec![
                (".trellis", T::I16, vec![out * inner / 256, 32]),
                (".SU", T::F16, vec![inner]),
                (".SV", T::F32, vec![out]),
                (".tlut", T::F16, vec![512, 2]),
            ]
        }),
        case("nested", "`fp8`", json!({"text_config": fp8()}), plain),
        case("stale", "`gptq`", method(json!({"quant_method": "gptq"})), plain),
    ]
}

/// Bytes of a seeded tensor: floats as a model's, codes as they come, none of which is NaN.
fn payload(name: &str, dtype: DType, shape: &[u64]) -> Vec<u8> {
    if [T::F32, T::F16, T::BF16].contains(&dtype) {
        return apr_testkit::weight_bytes(7, name, dtype, shape, 0.0).unwrap();
    }
    let len = apr_sdk::checked_payload_len(dtype, shape).unwrap();
    let seed = name.bytes().fold(1u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    (0..len).map(|n| u8::try_from((seed ^ (n * 2_654_435_761)) >> 7 & 0x6f).unwrap()).collect()
}

/// Writes the folder of a model: a Llama of one layer, whose linear modules are packed.
pub(super) fn write(folder: &Path, case: &Case) {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), T::BF16, vec![V, H]),
        ("lm_head.weight".to_owned(), T::BF16, vec![V, H]),
        ("model.norm.weight".to_owned(), T::BF16, vec![H]),
        ("model.layers.0.input_layernorm.weight".to_owned(), T::BF16, vec![H]),
        ("model.layers.0.post_attention_layernorm.weight".to_owned(), T::BF16, vec![H]),
    ];
    for (module, out, inner) in [
        ("self_attn.q_proj", H, H),
        ("self_attn.k_proj", H, H),
        ("self_attn.v_proj", H, H),
        ("self_attn.o_proj", H, H),
        ("mlp.gate_proj", F, H),
        ("mlp.up_proj", F, H),
        ("mlp.down_proj", H, F),
    ] {
        let packed = (case.module)(out, inner).into_iter();
        tensors.extend(
            packed.map(|(suffix, dtype, shape)| (format!("model.layers.0.{module}{suffix}"), dtype, shape)),
        );
    }
    let (mut header, mut data) = (Map::new(), Vec::new());
    header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    for (name, dtype, shape) in &tensors {
        let from = data.len();
        data.extend(payload(name, *dtype, shape));
        let row = json!({"dtype": dtype.name(), "shape": shape, "data_offsets": [from, data.len()]});
        header.insert(name.clone(), row);
    }
    let mut header = Json::Object(header).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": H, "intermediate_size": F,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": V,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "rope_theta": 10000.0, "tie_word_embeddings": false,
    });
    for (key, value) in case.config.as_object().unwrap() {
        config[key] = value.clone();
    }
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    std::fs::write(folder.join("model.safetensors"), file).unwrap();
    if let Some((name, text)) = case.companion {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// Names, types, shapes and bytes of a model's tensors, by name.
pub(super) fn tensors(host: &Host, path: &Path) -> Vec<(String, DType, Vec<u64>, Vec<u8>)> {
    let opened = open(host, path, &OpenOptions::default()).unwrap();
    let mut all: Vec<_> = opened.model.tensors.iter().collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let read = |tensor: &apr_sdk::Tensor| {
        let apr_sdk::Payload::Extent { extent, view: None } = tensor.payload else {
            panic!("{}", tensor.name)
        };
        let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
        opened.files.read_at(extent.file, extent.offset, &mut bytes).unwrap();
        (tensor.name.clone(), tensor.dtype, tensor.shape.clone(), bytes)
    };
    all.into_iter().map(read).collect()
}

pub(super) fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    names_in(folder)
        .into_iter()
        .map(|name| (name.clone(), std::fs::read(folder.join(name)).unwrap()))
        .collect()
}

/// A conversion with the names that the target likes.
pub(super) fn to(format: &str, input: &Path, output: &Path) -> ConvertOptions {
    ConvertOptions { to: Some(format.to_owned()), arch: None, ..options(input, output) }
}

pub(super) fn casting(dtype: DType) -> Quantization {
    Quantization { precision: Some(dtype), ..Quantization::default() }
}

pub(super) fn dequantizing() -> Quantization {
    Quantization { dequantize: Some(T::F32), ..Quantization::default() }
}

pub(super) fn quantizing() -> Quantization {
    Quantization { recipe: Some("Q8_0".to_owned()), ..Quantization::default() }
}

/// Every conversion of `input` that would change what is packed.
pub(super) fn changes(input: &Path, output: &Path) -> Vec<(&'static str, ConvertOptions)> {
    let with = |format: &str, quantization: Quantization| ConvertOptions {
        quantization,
        ..to(format, input, output)
    };
    let none = || Some("none".to_owned());
    vec![
        ("folder, cast", with("huggingface", casting(T::BF16))),
        ("safetensors, cast", with("safetensors", casting(T::BF16))),
        ("apr, cast", with("apr", casting(T::F32))),
        ("names kept, cast", ConvertOptions { arch: none(), ..with("apr", casting(T::F16)) }),
        ("folder, dequantized", with("huggingface", dequantizing())),
        ("safetensors, dequantized", with("safetensors", dequantizing())),
        ("gguf, dequantized", with("gguf", dequantizing())),
        ("gguf, quantized", with("gguf", quantizing())),
        ("names kept, quantized", ConvertOptions { arch: none(), ..with("apr", quantizing()) }),
        ("gguf", to("gguf", input, output)),
        ("gguf, names kept", ConvertOptions { arch: none(), ..to("gguf", input, output) }),
        ("apr, canonical", ConvertOptions { wants_architecture: true, ..to("apr", input, output) }),
        ("apr, by name", ConvertOptions { arch: Some("llama".to_owned()), ..to("apr", input, output) }),
    ]
}

#[test]
fn what_would_change_packed_weights_is_refused_by_the_schemes_name() {
    let (host, scratch) = (host_without("packed"), Scratch::in_memory());
    let mut wrong = Vec::new();
    for case in cases() {
        let folder = scratch.at(case.name);
        write(&folder, &case);
        let output = scratch.at("out");
        for (what, wanted) in changes(&folder, &output) {
            match apr_host::convert::convert(&host, &wanted) {
                Ok(_) => wrong.push(format!("{}: {what}: done", case.name)),
                Err(error) => {
                    let hint = error.hint_text().unwrap_or_default().to_owned();
                    let invites = ["--arch", "--precision f", "--dequantize f", "--allow", "--relaxed"]
                        .iter()
                        .any(|flag| hint.contains(flag));
                    if error.kind() != ErrorKind::Unsupported
                        || !error.message().contains(case.says)
                        || invites
                    {
                        wrong.push(format!("{}: {what}: {error}; {hint}", case.name));
                    }
                }
            }
            assert!(!output.exists(), "{}: {what} left something behind", case.name);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn exact_copies_of_packed_weights_are_exact_and_stay_known() {
    let (host, scratch) = (host_without("packed"), Scratch::in_memory());
    for case in cases() {
        let at = |name: &str| scratch.at(&format!("{}-{name}", case.name));
        let folder = at("folder");
        write(&folder, &case);
        let before = tensors(&host, &folder);
        must(&host, &to("huggingface", &folder, &at("again")));
        assert_eq!(files(&at("again")), files(&folder), "{}", case.name);
        for format in ["safetensors", "apr", "pytorch"] {
            let copy = at(&format!("copy.{format}"));
            let done = must(&host, &to(format, &folder, &copy));
            assert!(
                done.notes.iter().any(|note| note.contains(case.says)),
                "{}: {:?}",
                case.name,
                done.notes
            );
            assert!(tensors(&host, &copy) == before, "{} to {format}", case.name);
            if case.companion.is_none() || format == "apr" {
                assert_eq!(done.warnings.iter().find(|w| w.contains("not carried")), None, "{}", case.name);
            }
            let cast = ConvertOptions { quantization: casting(T::F32), ..to(format, &copy, &at("cast")) };
            let error = apr_host::convert::convert(&host, &cast).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{}, from {format}: {error}", case.name);
        }
        let back = at("back");
        must(&host, &to("huggingface", &at("copy.apr"), &back));
        assert_eq!(files(&back), files(&folder), "{}", case.name);
    }
}

#[test]
fn a_copy_that_loses_what_announced_the_scheme_warns() {
    let (host, scratch) = (host(), Scratch::in_memory());
    for case in cases().iter().filter(|case| ["nvfp4", "gptq", "mlx"].contains(&case.name)) {
        let (folder, copy) = (scratch.at(case.name), scratch.at(&format!("{}.safetensors", case.name)));
        write(&folder, case);
        let without = ConvertOptions { foreign: ForeignPolicy::Drop, ..to("safetensors", &folder, &copy) };
        let done = must(&host, &without);
        let place = case.companion.map_or("config.json", |(name, _)| name);
        let says = |warning: &&String| warning.starts_with("not carried over: ") && warning.contains(place);
        assert!(done.warnings.iter().any(|warning| says(&warning)), "{}: {:?}", case.name, done.warnings);
    }
}

pub(super) fn unscaled(scratch: &Scratch, name: &'static str, dtype: fn(u64, u64) -> Vec<Packed>) -> PathBuf {
    let folder = scratch.at(name);
    write(&folder, &case(name, "", json!({}), dtype));
    folder
}

#[test]
fn codes_without_scales_do_not_become_the_weights_of_another_dialect() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let int8 = unscaled(&scratch, "int8", |out, inner| vec![(".weight", T::I8, vec![out, inner])]);
    let words = unscaled(&scratch, "int32", |out, inner| vec![(".weight", T::I32, vec![out, inner])]);
    let fp8 = unscaled(&scratch, "fp8", |out, inner| vec![(".weight", T::F8_E4M3, vec![out, inner])]);
    for folder in [&int8, &words, &fp8] {
        let output = scratch.at("out.gguf");
        for quantization in [Quantization::default(), casting(T::F16), dequantizing(), quantizing()] {
            let wanted = ConvertOptions { quantization, ..to("gguf", folder, &output) };
            let error = apr_host::convert::convert(&host, &wanted).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.message().contains("the meaning of these codes is unknown"), "{error}");
            assert!(!error.hint_text().unwrap().contains("--"), "{error:?}");
            assert!(!output.exists());
        }
        must(&host, &to("huggingface", folder, &scratch.at("copy")));
        assert_eq!(files(&scratch.at("copy")), files(folder));
        std::fs::remove_dir_all(scratch.at("copy")).unwrap();
    }
    // Nor does anything say that integers were made floats.
    let asked = ConvertOptions { quantization: dequantizing(), ..to("safetensors", &int8, &scratch.at("o")) };
    let done = must(&host, &asked);
    assert!(done.warnings.iter().any(|w| w.contains("7 tensors of I8")), "{:?}", done.warnings);
    let asked = ConvertOptions {
        quantization: quantizing(),
        arch: Some("none".to_owned()),
        ..to("apr", &int8, &scratch.at("q"))
    };
    match apr_host::convert::convert(&host, &asked) {
        Ok(_) => {
            let after = tensors(&host, &scratch.at("q"));
            assert!(
                after.iter().filter(|t| t.0.contains("proj")).all(|t| t.1 == T::I8),
                "integers were quantized"
            );
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
}

#[test]
fn floats_of_8_bits_that_are_no_codes_are_cast_there_and_back() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = unscaled(&scratch, "plain", plain);
    for format in ["huggingface", "safetensors", "apr"] {
        let (small, back) = (scratch.at(&format!("small.{format}")), scratch.at(&format!("back.{format}")));
        must(&host, &ConvertOptions { quantization: casting(T::F8_E4M3), ..to(format, &folder, &small) });
        assert!(tensors(&host, &small).iter().all(|tensor| tensor.1 == T::F8_E4M3), "{format}");
        must(&host, &ConvertOptions { quantization: casting(T::BF16), ..to(format, &small, &back) });
        assert!(tensors(&host, &back).iter().all(|tensor| tensor.1 == T::BF16), "{format}");
    }
}

#[test]
fn a_precision_that_does_not_speak_of_blocks_says_so() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = unscaled(&scratch, "plain", plain);
    let blocks = scratch.at("q8.gguf");
    must(&host, &ConvertOptions { quantization: quantizing(), ..to("gguf", &folder, &blocks) });
    // Norms are F32 in GGUF, and the rest is blocks: nothing would change.
    let wanted =
        ConvertOptions { quantization: casting(T::F16), ..to("gguf", &blocks, &scratch.at("same.gguf")) };
    let error = apr_host::convert::convert(&host, &wanted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(
        error.message().contains("8 tensors of Q8_0") || error.message().contains("9 tensors of Q8_0"),
        "{error}"
    );
    assert!(error.hint_text().unwrap().contains("--dequantize f16"), "{error:?}");
    // Elsewhere norms become F16: then it is told.
    let wanted =
        ConvertOptions { quantization: casting(T::F16), ..to("apr", &blocks, &scratch.at("half.apr")) };
    let done = must(&host, &wanted);
    assert!(
        done.warnings.iter().any(|w| w.contains("of Q8_0") && w.contains("--dequantize f16")),
        "{:?}",
        done.warnings
    );
    let both = Quantization { dequantize: Some(T::F16), ..casting(T::F16) };
    let done =
        must(&host, &ConvertOptions { quantization: both, ..to("apr", &blocks, &scratch.at("all.apr")) });
    assert!(done.warnings.is_empty(), "{:?}", done.warnings);
    assert!(tensors(&host, &scratch.at("all.apr")).iter().all(|tensor| tensor.1 == T::F16));
}

#[test]
fn names_under_which_a_packed_weight_would_mean_something_else_are_refused() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let wide = |out: u64, inner: u64| {
        vec![
            (".weight", T::U32, vec![out, inner / 4]),
            (".scales", T::BF16, vec![out, inner / 32]),
            (".biases", T::BF16, vec![out, inner / 32]),
        ]
    };
    let of_one = json!({"group_size": 32, "bits": 8});
    let config =
        json!({"quantization": {"group_size": 64, "bits": 4, "model.layers.0.self_attn.q_proj": of_one}});
    let case = case("mlx-of-one", "MLX", config, wide);
    let folder = scratch.at("model");
    write(&folder, &case);
    let renamed = |rule: (&str, &str), to: &str| {
        let renames = vec![(rule.0.to_owned(), rule.1.to_owned())];
        let to = ConvertOptions {
            renames,
            arch: Some("none".to_owned()),
            to: Some("huggingface".to_owned()),
            ..options(&folder, &scratch.at(to))
        };
        apr_host::convert::convert(&host, &to)
    };
    let error = renamed(("model.*", "other.model.*"), "a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("packed weights are found by name"), "{error}");
    renamed(("model.norm.weight", "norm.weight"), "b").unwrap();
}
