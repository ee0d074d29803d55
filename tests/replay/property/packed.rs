//! Packed checkpoints: whatever is said of tensors, the schemes answer or refuse, ask for bytes that there are, and give the same
//! values for the same rows; a type that is said to hold the values holds them.
//!
//! An input is what the configuration announces, `{"announced": [{"file", "key", "json"}], "dtype": TYPE}`, followed by files of
//! SafeTensors, all separated by [`NEXT_FILE`].

use super::arrange::NEXT_FILE;
use super::errors::check_shown;
use super::memory::peak;
use apr_sdk::half::{from_bf16, from_f16, to_bf16, to_f16};
use apr_sdk::{
    Announced, Budget, DType, Error, ErrorKind, ExactType, HeldRows, MOST_CONTENTS, PackedTensor, PartBox,
    PartRange, Quantizer, Schemes, StoredModel, StoredTensor, Understood, checked_elements,
    checked_payload_len,
};
use serde_json::{Value as Json, json};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// The key of a file's metadata whose text says how its layers are packed.
const OF_LAYERS: &str = "_quantization_metadata";

/// The most elements that one byte stands for: those of one bit.
const ELEMENTS_OF_A_BYTE: u64 = 8;

fn quantizer(
    cell: &'static OnceLock<Box<dyn Quantizer>>,
    plugin: &apr_sdk::PluginDecl,
) -> &'static dyn Quantizer {
    cell.get_or_init(|| (plugin.quantizer)().unwrap()).as_ref()
}

fn schemes() -> &'static dyn Schemes {
    static PLUGIN: OnceLock<Box<dyn Quantizer>> = OnceLock::new();
    quantizer(&PLUGIN, &apr_plugin_packed::PLUGIN).schemes().unwrap()
}

fn blocks() -> &'static dyn Quantizer {
    static PLUGIN: OnceLock<Box<dyn Quantizer>> = OnceLock::new();
    quantizer(&PLUGIN, &apr_plugin_quants::PLUGIN)
}

/// A model's tensors and their bytes.
struct Input {
    model: StoredModel,
    bytes: Vec<Vec<u8>>,
}

/// An input from the files of a folder, in the order of their names.
pub fn example(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let json = |name: &str| {
        let (_, bytes) = files.iter().find(|(file, _)| file == name)?;
        serde_json::from_slice::<Json>(bytes).ok()
    };
    let config = json("config.json").unwrap_or_default();
    let keys = ["quantization_config", "quantization", "compression_config"];
    let inside = keys
        .into_iter()
        .filter_map(|key| Some(json!({"file": "config.json", "key": key, "json": config.get(key)?})));
    let alone = ["hf_quant_config.json", "quantize_config.json", "quant_config.json"];
    let alone =
        alone.into_iter().filter_map(|name| Some(json!({"file": name, "key": "", "json": json(name)?})));
    let dtype = match config.get("dtype").or(config.get("torch_dtype")).and_then(Json::as_str) {
        Some("bfloat16") => Some("BF16"),
        Some("float16") => Some("F16"),
        Some("float32") => Some("F32"),
        _ => None,
    };
    let said = json!({"announced": inside.chain(alone).collect::<Vec<_>>(), "dtype": dtype});
    let is_weights = |name: &str| {
        Path::new(name).extension().is_some_and(|end| end == "safetensors") && name != "expected.safetensors"
    };
    let weights = files.iter().filter(|(name, _)| is_weights(name)).map(|(_, bytes)| bytes.as_slice());
    let said = said.to_string();
    std::iter::once(said.as_bytes()).chain(weights).collect::<Vec<_>>().join(NEXT_FILE)
}

/// The input that any bytes are; `None` for bytes that no reader would hand to a scheme.
fn parsed(input: &[u8]) -> Option<Input> {
    let at = |from: usize| {
        let found = input[from..].windows(NEXT_FILE.len()).position(|window| window == NEXT_FILE);
        found.map_or(input.len(), |found| from + found)
    };
    let mut end = at(0);
    let said: Json = serde_json::from_slice(&input[..end]).ok()?;
    let mut model = StoredModel::default();
    for one in said.get("announced")?.as_array()? {
        let text = |key: &str| Some(one.get(key)?.as_str()?.to_owned());
        let json = one.get("json")?.to_string();
        model.announced.push(Announced { file: text("file")?, key: text("key")?, json });
    }
    model.dtype = said.get("dtype").and_then(Json::as_str).and_then(DType::from_name);
    let mut bytes = Vec::new();
    while end < input.len() {
        let from = end + NEXT_FILE.len();
        end = at(from);
        let (len, rest) = input[from..end].split_first_chunk::<8>()?;
        let (header, payload) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        let header: serde_json::Map<String, Json> = serde_json::from_slice(header).ok()?;
        let of_layers = header.get("__metadata__").and_then(|metadata| metadata.get(OF_LAYERS)?.as_str());
        if let Some(json) = of_layers {
            let (file, key) = ("safetensors".to_owned(), OF_LAYERS.to_owned());
            model.announced.push(Announced { file, key, json: json.to_owned() });
        }
        for (name, of) in header.iter().filter(|(name, _)| *name != "__metadata__") {
            let dtype = DType::from_name(of.get("dtype")?.as_str()?)?;
            let numbers =
                |key: &str| of.get(key)?.as_array()?.iter().map(Json::as_u64).collect::<Option<Vec<u64>>>();
            let (shape, place) = (numbers("shape")?, numbers("data_offsets")?);
            let [begin, end] = place.as_slice() else { return None };
            let held = payload.get(usize::try_from(*begin).ok()?..usize::try_from(*end).ok()?)?;
            let is_whole = checked_payload_len(dtype, &shape).ok()? == held.len() as u64;
            let is_new = model.tensors.iter().all(|tensor| tensor.name != *name);
            if !is_whole || !is_new {
                return None;
            }
            model.tensors.push(StoredTensor { name: name.clone(), dtype, shape });
            bytes.push(held.to_vec());
        }
    }
    Some(Input { model, bytes })
}

/// Panics unless the error blames the file.
fn check_refusal(what: &str, error: &Error) {
    let text = error.to_string();
    check_shown(what, &text);
    let kinds = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::LimitExceeded];
    assert!(kinds.contains(&error.kind()), "{what}: {:?}: {text}", error.kind());
}

/// Any bytes as a packed checkpoint. Gives whether it has packed weights, all of which have values.
pub fn check(input: &[u8]) -> bool {
    let Some(input_of) = parsed(input) else { return false };
    let most = Budget::BASE + Budget::PER_BYTE * input.len() as u64;
    let (understood, held) = peak(|| understood(&input_of));
    assert!(held <= most, "{held} bytes are held at once, for an input of {}", input.len());
    let understood = match understood {
        Ok(understood) => understood,
        Err(error) => {
            check_refusal("understanding", &error);
            return false;
        }
    };
    for (number, what) in &understood.unused {
        assert!(*number < input_of.bytes.len(), "an unused tensor that there is not: {what}");
        check_shown("what is unused", what);
    }
    let mut all = !understood.packed.is_empty();
    for weight in &understood.packed {
        let (has_values, held) = peak(|| check_weight(&input_of, weight));
        assert!(held <= most, "{held} bytes are held at once for `{}`", weight.about);
        all &= has_values;
    }
    for of in &understood.factored {
        let weight = &understood.packed[of.weight];
        let numbers = [Some(of.factor), of.input].into_iter().flatten();
        assert!(numbers.into_iter().all(|(number, _)| number < input_of.bytes.len()), "`{}`", weight.about);
        // Without its factor, the weight is one in fewer parts.
        let parts = schemes().ranges(&of.rows, 0..0).expect("no rows are there").len();
        let exact = vec![ExactType { dtype: of.dtype, evidence: of.evidence.clone() }];
        let parts = weight.parts[..parts].to_vec();
        check_weight(&input_of, &PackedTensor { rows: of.rows.clone(), parts, exact, ..weight.clone() });
    }
    all
}

/// What the schemes find, handing them the contents that they ask for.
fn understood(input: &Input) -> apr_sdk::Result<Understood> {
    let mut model = input.model.clone();
    for _ in 0..4 {
        let understood = schemes().understand(&model)?;
        if understood.wanted.is_empty() {
            return Ok(understood);
        }
        for number in understood.wanted {
            let bytes = input.bytes.get(number).expect("contents are wanted of a tensor that there is not");
            assert!(bytes.len() as u64 <= MOST_CONTENTS, "contents of {} bytes are wanted", bytes.len());
            assert!(model.contents_of(number).is_none(), "contents are wanted twice");
            model.contents.push((number, bytes.clone()));
        }
        model.contents.sort_by_key(|(number, _)| *number);
    }
    panic!("contents are wanted without end");
}

fn check_weight(input: &Input, weight: &PackedTensor) -> bool {
    check_shown("what a weight is", &weight.about);
    let (rows, row_len) = (weight.rows.rows, weight.rows.row_len);
    let stored: u64 = weight.parts.iter().map(|(number, _)| input.bytes[*number].len() as u64).sum();
    let elements = rows.checked_mul(row_len).expect("more elements than can be counted");
    let elements_of_shape = checked_elements(&weight.shape).unwrap();
    assert!(!weight.strides.is_empty() || elements == elements_of_shape, "rows and shape disagree");
    assert!(
        elements <= ELEMENTS_OF_A_BYTE * stored,
        "{elements} elements of {stored} bytes: `{}`",
        weight.about
    );
    // Rows without elements cost nothing, and there may be any number.
    let rows = 0..rows.min(1 << 16);
    let whole = match unpacked(input, weight, rows.clone(), rows.clone()) {
        Ok(whole) => whole,
        Err(error) => {
            check_refusal("unpacking", &error);
            return false;
        }
    };
    let middle = (rows.end / 2)..(rows.end / 2 + 1).min(rows.end);
    for held in [middle.clone(), middle.start.saturating_sub(1)..rows.end] {
        let some = unpacked(input, weight, held, middle.clone()).expect("these rows had values");
        let from = usize::try_from(middle.start * row_len).unwrap();
        assert!(same(&some, &whole[from..][..some.len()]), "other values alone: `{}`", weight.about);
    }
    for exact in &weight.exact {
        check_exact(input, weight, (exact.dtype, &exact.evidence), &whole);
    }
    true
}

fn same(some: &[f32], others: &[f32]) -> bool {
    let equal = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
    some.len() == others.len() && some.iter().zip(others).all(equal)
}

/// A type that is said to hold the values holds them.
fn check_exact(input: &Input, weight: &PackedTensor, (dtype, evidence): (DType, &[usize]), whole: &[f32]) {
    let rows = 0..weight.rows.rows.min(1 << 16);
    if !evidence.is_empty() {
        let parts = held(input, weight, &rows, Some(evidence));
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        match schemes().holds(&weight.rows, &HeldRows { rows: rows.clone(), parts: &parts }, dtype) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return check_refusal("checking a type", &error),
        }
    }
    let what = &weight.about;
    if !dtype.is_block() {
        let rounded = |value: &f32| match dtype {
            DType::BF16 => from_bf16(to_bf16(*value)),
            DType::F16 => from_f16(to_f16(*value)),
            _ => *value,
        };
        let rounded: Vec<f32> = whole.iter().map(rounded).collect();
        assert!(same(&rounded, whole), "{dtype} does not hold `{what}`");
        return;
    }
    let info = dtype.info().unwrap();
    let elements = (rows.end - rows.start) * weight.rows.row_len;
    assert!(weight.rows.row_len.is_multiple_of(u64::from(info.block_elements)), "{dtype} for `{what}`");
    let len = elements / u64::from(info.block_elements) * u64::from(info.block_bytes);
    let mut out = vec![0xee; usize::try_from(len).unwrap()];
    let parts = held(input, weight, &rows, None);
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let of_rows = HeldRows { rows: rows.clone(), parts: &parts };
    if let Err(error) = schemes().repack(&weight.rows, &of_rows, rows, dtype, &mut out) {
        return check_refusal("repacking", &error);
    }
    let mut values = vec![0.0; whole.len()];
    blocks().decode(dtype, &out, weight.rows.row_len, &mut values).unwrap();
    assert!(same(&values, whole), "{dtype} does not hold `{what}`");
}

/// The values of rows, of which more may be held.
fn unpacked(
    input: &Input,
    weight: &PackedTensor,
    of: Range<u64>,
    rows: Range<u64>,
) -> apr_sdk::Result<Vec<f32>> {
    let parts = held(input, weight, &of, None);
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let len = usize::try_from((rows.end - rows.start) * weight.rows.row_len).unwrap();
    let mut out = vec![f32::NAN; len];
    schemes().unpack(&weight.rows, &HeldRows { rows: of, parts: &parts }, rows, &mut out)?;
    Ok(out)
}

/// The bytes of rows in each part, all of which lie inside of it; only those of `evidence`, if there is any.
fn held(input: &Input, weight: &PackedTensor, rows: &Range<u64>, evidence: Option<&[usize]>) -> Vec<Vec<u8>> {
    let ranges = schemes().ranges(&weight.rows, rows.clone()).expect("these rows are there");
    assert_eq!(ranges.len(), weight.parts.len(), "a range for each part of `{}`", weight.about);
    let of_part = |(at, ((number, _), range)): (usize, (&(usize, String), &PartRange))| {
        let bytes = &input.bytes[*number];
        match range {
            _ if evidence.is_some_and(|evidence| !evidence.contains(&at)) => Vec::new(),
            PartRange::Whole => bytes.clone(),
            PartRange::Boxes(boxes) => {
                let info = input.model.tensors[*number].dtype.info().unwrap();
                // What has less than a byte is moved in bytes.
                let each = if info.block_elements > 1 { 1 } else { info.block_bytes as usize };
                let mut out = Vec::new();
                boxes.iter().for_each(|one| gather((bytes, each), one, &weight.about, &mut out));
                out
            }
        }
    };
    weight.parts.iter().zip(&ranges).enumerate().map(of_part).collect()
}

/// Appends the elements of a box.
fn gather((bytes, each): (&[u8], usize), one: &PartBox, what: &str, out: &mut Vec<u8>) {
    if one.dims.iter().any(|(size, _)| *size == 0) {
        return;
    }
    let mut reach = one.start;
    for (size, stride) in &one.dims {
        reach += (size - 1).checked_mul(*stride).expect("a box beyond all bounds");
    }
    assert!(reach < (bytes.len() / each) as u64, "`{what}` reaches beyond its part");
    let mut at = vec![0u64; one.dims.len()];
    loop {
        let offset: u64 = one.dims.iter().zip(&at).map(|((_, stride), at)| stride * at).sum();
        let from = usize::try_from(one.start + offset).unwrap() * each;
        out.extend_from_slice(&bytes[from..from + each]);
        assert!(out.len() <= 1 << 24, "`{what}` wants more than there is");
        let Some(axis) = (0..at.len()).rev().find(|&axis| at[axis] + 1 < one.dims[axis].0) else { return };
        at[axis] += 1;
        at[axis + 1..].fill(0);
    }
}
