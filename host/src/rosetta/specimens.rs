//! The small models that every pair is tried with: dtypes and shapes, names, metadata, companions. Generated
//! from seeds alone, so that the same plugins give the same models everywhere.
//!
//! Names are those of a bag of tensors: models for architecture tables come with those tables.

use apr_engine::registry::Format;
use apr_sdk::{DType, DTypeInfo, DTypeKind, ForeignPolicy, FormatManifest, Packing, Result, Value};
use apr_testkit::{ModelFixture, Random, tensor_bytes, values};
use std::collections::BTreeSet;

/// A model that is not in any format yet.
pub struct Specimen {
    /// Its feature: `F32/4d`, `names/unicode`.
    pub name: String,
    /// Tensors with their payloads: (name, dtype, shape, bytes).
    pub tensors: Vec<(String, DType, Vec<u64>, Vec<u8>)>,
    /// Its contents besides tensors.
    pub extra: Extra,
    /// The treatment of foreign metadata.
    pub policy: ForeignPolicy,
    /// True if a writer may refuse it with an explicit error, although the manifest cannot express that.
    pub may_refuse: bool,
}

/// The contents that a model may have besides tensors.
#[derive(Clone)]
pub enum Extra {
    /// Only tensors.
    Nothing,
    /// Metadata in whichever format it is first written.
    Metadata(Vec<(String, Value)>),
    /// A small tokenizer.
    Tokenizer,
    /// Companion files.
    Assets,
}

impl Specimen {
    /// The model as it is first written in `format`.
    pub fn fixture(&self, format: &FormatManifest) -> ModelFixture {
        let mut model = ModelFixture::new();
        for (name, dtype, shape, payload) in &self.tensors {
            model = model.tensor_with(name, *dtype, shape, payload.clone());
        }
        match &self.extra {
            Extra::Nothing => model,
            Extra::Metadata(entries) => entries
                .iter()
                .fold(model, |model, (key, value)| model.foreign(&format.id, key, value.clone())),
            Extra::Tokenizer => model.tokenizer(r#"{"schema":1,"kind":"none","tokens":["<s>","a","é"]}"#),
            Extra::Assets => {
                model.asset("README.md", "# Small\n").asset("sub/data.bin", vec![0, 255, 10, 13])
            }
        }
    }
}

/// Every specimen for these formats. Limits in manifests are tried from both sides, so more formats may mean
/// more specimens.
///
/// # Errors
/// None that the generators' own shapes could cause.
pub fn all(formats: &[Format]) -> Result<Vec<Specimen>> {
    let mut specimens = Vec::new();
    for row in DType::ALL {
        for (what, shape) in shapes(row) {
            specimens.push(of_dtype(row, what, &shape)?);
        }
        specimens.extend(any_bits(row)?);
    }
    specimens.extend(alone(formats)?);
    specimens.extend(names(formats)?);
    specimens.push(plain("mixed/nothing", &[])?);
    specimens.push(mixed()?);
    specimens.push(layers()?);
    specimens.push(many()?);
    specimens.extend(metadata()?);
    specimens.push(Specimen { extra: Extra::Tokenizer, ..plain("with/tokenizer", &["w"])? });
    specimens.push(Specimen { extra: Extra::Assets, ..plain("with/companions", &["w"])? });
    Ok(specimens)
}

/// The shapes to try for a dtype: whole blocks in the last dimension, odd sizes elsewhere.
fn shapes(row: &DTypeInfo) -> Vec<(&'static str, Vec<u64>)> {
    let block = u64::from(row.block_elements);
    let (odd, longer) = match (block, row.packing) {
        (1, _) => (7, 33),
        // Eight elements of any width are whole bytes.
        (_, Packing::Flat) => (8, 24),
        _ => (block, 3 * block),
    };
    let mut shapes = vec![
        ("empty", vec![0]),
        ("empty-2d", vec![3, 0]),
        ("1d", vec![longer]),
        ("2d", vec![3, odd]),
        ("3d", vec![2, 3, odd]),
        ("4d", vec![2, 1, 3, odd]),
        ("5d", vec![1, 2, 1, 3, odd]),
        ("8d", vec![1, 2, 1, 1, 1, 3, 1, odd]),
    ];
    if block == 1 {
        shapes.push(("0d", vec![]));
    }
    if row.packing == Packing::Flat && block > 1 {
        shapes.push(("odd-bits", vec![3, 7]));
    }
    shapes
}

fn of_dtype(row: &DTypeInfo, what: &str, shape: &[u64]) -> Result<Specimen> {
    let short = vec![u64::from(row.block_elements).max(8)];
    Ok(Specimen {
        name: format!("{}/{what}", row.name),
        tensors: vec![
            ("first.weight".into(), row.dtype, shape.to_vec(), tensor_bytes(row.dtype, shape, 1)?),
            // The next tensor reveals whether the end of the first was right.
            ("second".into(), row.dtype, short.clone(), tensor_bytes(row.dtype, &short, 2)?),
        ],
        extra: Extra::Nothing,
        policy: ForeignPolicy::Default,
        // No manifest can say that bits must fill their last byte.
        may_refuse: what == "odd-bits",
    })
}

/// Every bit pattern, including NaN and infinity: a conversion copies, it does not judge.
fn any_bits(row: &DTypeInfo) -> Result<Option<Specimen>> {
    if row.kind == DTypeKind::Bool {
        return Ok(None);
    }
    let shape = vec![2, 64.max(u64::from(row.block_elements))];
    let len = tensor_bytes(row.dtype, &shape, 0)?.len();
    let tensors = vec![("any.bits".to_owned(), row.dtype, shape, Random::new(3).bytes(len))];
    let name = format!("{}/any-bits", row.name);
    let policy = ForeignPolicy::Default;
    Ok(Some(Specimen { name, tensors, extra: Extra::Nothing, policy, may_refuse: false }))
}

/// A single tensor of each dtype in a few shapes, for formats that hold only one.
fn alone(formats: &[Format]) -> Result<Vec<Specimen>> {
    let mut carries: Vec<_> = formats.iter().map(|f| &f.manifest.carries).collect();
    carries.retain(|carries| carries.one_tensor);
    let mut specimens = Vec::new();
    for row in DType::ALL.iter().filter(|row| carries.iter().any(|carries| carries.dtype(row.name))) {
        for (what, shape) in shapes(row) {
            if ["empty", "0d", "1d", "4d", "8d"].contains(&what) {
                let payload = tensor_bytes(row.dtype, &shape, 4)?;
                let tensors = vec![("alone".to_owned(), row.dtype, shape, payload)];
                let name = format!("{}/alone-{what}", row.name);
                specimens.push(Specimen { tensors, ..plain(&name, &[])? });
            }
        }
    }
    Ok(specimens)
}

/// A specimen of small F32 tensors with these names.
fn plain(name: &str, tensors: &[&str]) -> Result<Specimen> {
    let tensors = (1..).zip(tensors).map(|(seed, &name)| small(name, &[2, 3], seed));
    Ok(Specimen {
        name: name.to_owned(),
        tensors: tensors.collect::<Result<_>>()?,
        extra: Extra::Nothing,
        policy: ForeignPolicy::Default,
        may_refuse: false,
    })
}

fn names(formats: &[Format]) -> Result<Vec<Specimen>> {
    let mut specimens = vec![
        plain(
            "names/punctuation",
            &["with space", "q\"u'o`t\\e", "{[<%&$#", "dots.and/slashes", "-dash", "~"],
        )?,
        plain("names/unicode", &["é漢🙂", "e\u{301}", "\u{200b}", "İ"])?,
        plain("names/case", &["weight", "Weight", "WEIGHT"])?,
        plain("names/control", &["tab\tline\nreturn\r", "\u{1b}[31mred"])?,
        plain("names/nul", &["nul\0byte"])?,
    ];
    // An empty name or one that is a path may be refused by a format whose tensors are files.
    for (name, tensors) in [
        ("names/paths", &["../up", "/root", ".", "..", "C:\\x", "a//b"][..]),
        ("names/nested", &["a", "a.b", "a/b"]),
        ("names/none", &["", "x"]),
    ] {
        specimens.push(Specimen { may_refuse: true, ..plain(name, tensors)? });
    }
    let longest = usize::try_from(apr_sdk::Limits::default().name_bytes).unwrap_or(usize::MAX);
    let limits = formats.iter().map(|f| f.manifest.carries.max_name_bytes);
    let lengths: BTreeSet<usize> =
        limits.flat_map(|n| [n, n.saturating_add(1)]).filter(|&n| n <= longest).collect();
    for length in lengths {
        specimens.push(plain(&format!("names/{length}-bytes"), &[&"n".repeat(length), "short"])?);
    }
    Ok(specimens)
}

/// Types of every width side by side, so that no tensor ends where the next one's alignment wants it.
fn mixed() -> Result<Specimen> {
    let mut tensors = Vec::new();
    for (n, dtype) in (0u64..).zip([DType::I8, DType::F32, DType::F16, DType::I64, DType::I16, DType::F64]) {
        let shape = vec![1 + n % 3, 5];
        tensors.push((format!("t{n}"), dtype, shape.clone(), tensor_bytes(dtype, &shape, n)?));
    }
    Ok(Specimen { tensors, ..plain("mixed/dtypes", &[])? })
}

/// The names and shapes of a small decoder.
fn layers() -> Result<Specimen> {
    let of_a_layer: [(&str, &[u64]); 3] =
        [("input_layernorm", &[8]), ("self_attn.q_proj", &[8, 8]), ("mlp.down_proj", &[8, 24])];
    let mut tensors = vec![small("model.embed_tokens.weight", &[32, 8], 0)?];
    for layer in 0..12 {
        for (what, shape) in of_a_layer {
            let name = format!("model.layers.{layer}.{what}.weight");
            tensors.push(small(&name, shape, tensors.len() as u64)?);
        }
    }
    Ok(Specimen { tensors, ..plain("mixed/layers", &[])? })
}

/// An F32 tensor.
fn small(name: &str, shape: &[u64], seed: u64) -> Result<(String, DType, Vec<u64>, Vec<u8>)> {
    Ok((name.to_owned(), DType::F32, shape.to_vec(), tensor_bytes(DType::F32, shape, seed)?))
}

fn many() -> Result<Specimen> {
    let names: Vec<String> = (0..300).rev().map(|n| format!("t.{n}")).collect();
    plain("mixed/300-tensors", &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// One specimen per value type, and one with all values at once, kept on request.
fn metadata() -> Result<Vec<Specimen>> {
    let mut specimens = Vec::new();
    for (key, value) in values(|_| true) {
        let name = format!("metadata/{}", key.trim_start_matches("kit."));
        let extra = Extra::Metadata(vec![(key, value)]);
        specimens.push(Specimen { extra, may_refuse: true, ..plain(&name, &["w"])? });
    }
    let text = vec![("kit.text".to_owned(), Value::from_string("kept on request"))];
    let kept = Specimen {
        extra: Extra::Metadata(text),
        policy: ForeignPolicy::Keep,
        may_refuse: true,
        ..plain("metadata/foreign-keep", &["w"])?
    };
    specimens.push(kept);
    Ok(specimens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specimens_are_sound_and_have_names_of_their_own() {
        let specimens = all(&[]).unwrap();
        let names: BTreeSet<_> = specimens.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names.len(), specimens.len());
        let format = FormatManifest::default();
        for specimen in &specimens {
            let (model, _) = specimen.fixture(&format).build().unwrap();
            assert_eq!(model.tensors.len(), specimen.tensors.len(), "{}", specimen.name);
        }
        for row in DType::ALL {
            assert!(names.contains(format!("{}/4d", row.name).as_str()));
        }
    }
}
