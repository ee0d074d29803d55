//! GGUF to .apr to GGUF, to the byte: of every golden model, in the orders of tensors and keys in which files come, and with
//! values that no operation of a table may change.

use crate::models::{goldens, name, opened, packed};
use crate::raw_gguf::RawGguf;
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_sdk::{DType, Error};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host};
use base64::Engine;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Numbers without pattern: the same in every run.
pub struct Random(u64);

impl Random {
    /// Xorshift, seeded by a text.
    pub fn new(seed: &str) -> Random {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Random(seed.bytes().fold(0xcbf2_9ce4_8422_2325, mix) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }
}

/// A float of any finite bits: one in four is a zero of either sign, a denormal, or the largest, smallest or next to 1.
fn finite(random: &mut Random, bits: u32, exponent: u32) -> u32 {
    let infinity = ((1u32 << exponent) - 1) << (bits - 1 - exponent);
    let one = ((1u32 << (exponent - 1)) - 1) << (bits - 1 - exponent);
    let smallest = 1u32 << (bits - 1 - exponent);
    let special = [0, 1, smallest - 1, smallest, one - 1, one, one + 1, infinity - 1];
    let word = u32::try_from(random.next() >> 32).unwrap();
    let sign = (word & 1) << (bits - 1);
    if word & 6 == 0 {
        return sign | special[random.below(special.len())];
    }
    let magnitude = (word >> 3) & ((1 << (bits - 1)) - 1);
    sign | if magnitude >= infinity { magnitude % infinity } else { magnitude }
}

/// A negative float between −256 and −2⁻⁸, as tensors hold that stand for decays.
fn ordinary(random: &mut Random, bits: u32, exponent: u32) -> u32 {
    let mantissa = bits - 1 - exponent;
    let word = u32::try_from(random.next() >> 32).unwrap();
    let power = (1u32 << (exponent - 1)) - 1 - 8 + (word >> 27) % 16;
    (1 << (bits - 1)) | (power << mantissa) | (word & ((1 << mantissa) - 1))
}

/// Gives the bits of a float of so many bits, of which so many are the exponent's.
type Draw = fn(&mut Random, u32, u32) -> u32;

/// Replaces the values of every tensor of floats.
fn randomize(file: &mut RawGguf, random: &mut Random, draw: Draw) {
    for tensor in &mut file.tensors {
        let Some((bits, exponent)) = tensor.float_bits() else { continue };
        let bytes = usize::try_from(bits / 8).unwrap();
        let length = tensor.elements() * bytes;
        for value in tensor.payload[..length].chunks_exact_mut(bytes) {
            value.copy_from_slice(&draw(random, bits, exponent).to_le_bytes()[..bytes]);
        }
    }
}

/// The order of tensors and keys in the converter's file, and the values that it computes otherwise.
fn as_the_converters(file: &mut RawGguf, golden: &Json) {
    let place = |list: &str, of: &str, name: &str| {
        golden[list].as_array().unwrap().iter().position(|one| one[of] == name).unwrap_or(usize::MAX)
    };
    file.tensors.sort_by_key(|tensor| place("tensors", "name", &tensor.name));
    file.keys.sort_by_key(|key| place("kvs", "key", &key.name));
    // Exponentials, which the converter takes from torch.
    for want in golden["tensors"].as_array().unwrap() {
        let Some(values) = want["values"].as_str() else { continue };
        let values = base64::engine::general_purpose::STANDARD.decode(values).unwrap();
        let tensor = file.tensors.iter_mut().find(|tensor| want["name"] == tensor.name).unwrap();
        tensor.payload[..values.len()].copy_from_slice(&values);
    }
}

/// An order that no converter would choose.
fn shuffle(file: &mut RawGguf, random: &mut Random) {
    for last in (1..file.tensors.len()).rev() {
        file.tensors.swap(last, random.below(last + 1));
    }
    // The format's own first keys stay where every file has them.
    for last in (2..file.keys.len()).rev() {
        file.keys.swap(last, 1 + random.below(last));
    }
}

fn to(host: &Host, input: &Path, output: &Path, precision: Option<DType>) -> Result<Converted, Error> {
    let options = ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        quantization: Quantization { precision, ..Quantization::default() },
        ..ConvertOptions::default()
    };
    convert(host, &options)
}

/// What does not come back of a file, and what was said.
fn lost(host: &Host, scratch: &Scratch, file: &RawGguf) -> Vec<String> {
    let [input, held, back] = ["in.gguf", "held.apr", "back.gguf"].map(|name| scratch.at(name));
    for path in [&held, &back] {
        drop(fs::remove_file(path));
    }
    fs::write(&input, file.bytes()).unwrap();
    let mut said = Vec::new();
    for (from, into) in [(&input, &held), (&held, &back)] {
        let to_what = into.extension().unwrap().to_str().unwrap();
        match to(host, from, into, None) {
            Ok(done) => {
                // Names that are kept, or weights that stay packed.
                let is_told = done.notes.iter().any(|note| note.contains("kept") || note.contains("copied"));
                if to_what == "apr" && !is_told && opened(host, into).model.dialect == "gguf" {
                    return vec![format!("names are kept, and the notes are {:?}", done.notes)];
                }
                let words = done.notes.iter().chain(&done.warnings);
                said.extend(words.map(|words| format!("said on the way to {to_what}: {words}")));
            }
            Err(error) => {
                let tensor = error.tensor_name().map(|name| format!(" ({name})")).unwrap_or_default();
                return vec![format!("refused on the way to {to_what}: {}{tensor}", error.message())];
            }
        }
    }
    let bytes = fs::read(&back).unwrap();
    if bytes == file.bytes() {
        return Vec::new();
    }
    let mut lines = file.differences(&RawGguf::parse(&bytes));
    if lines.is_empty() {
        lines.push("bytes that no tensor and no key has".to_owned());
    }
    if said.is_empty() {
        said.push("said nothing".to_owned());
    }
    [first(lines), first(said)].concat()
}

/// The first few lines, and how many more there are.
fn first(mut lines: Vec<String>) -> Vec<String> {
    const FEW: usize = 4;
    let more = lines.len().saturating_sub(FEW);
    lines.truncate(FEW);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

/// The variants of a golden model's file, by name.
fn variants(host: &Host, scratch: &Scratch, path: &Path) -> Vec<(&'static str, RawGguf)> {
    let golden: Json = serde_json::from_slice(&fs::read(path.join("golden.json")).unwrap()).unwrap();
    let model = Checkpoint::golden(path).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    let made = |precision| {
        let file = scratch.at("made.gguf");
        drop(fs::remove_file(&file));
        to(host, &folder, &file, precision).unwrap();
        RawGguf::parse(&fs::read(&file).unwrap())
    };
    let ours = made(None);
    let mut converters = ours.clone();
    as_the_converters(&mut converters, &golden);
    let mut floats = if apr_tests::is_packed(name(path)) { ours.clone() } else { made(Some(DType::F32)) };
    as_the_converters(&mut floats, &golden);
    let mut random = Random::new(name(path));
    let mut drawn = |file: &RawGguf, draw: Draw| {
        let mut file = file.clone();
        randomize(&mut file, &mut random, draw);
        file
    };
    let random_values = [
        ("with extreme values", drawn(&converters, finite)),
        ("with extreme values, in F32", drawn(&floats, finite)),
        ("with negative values", drawn(&converters, ordinary)),
        ("with negative values, in F32", drawn(&floats, ordinary)),
    ];
    let mut shuffled = ours.clone();
    shuffle(&mut shuffled, &mut random);
    let [ours, converters, shuffled] =
        [("as apr writes it", ours), ("as the converter writes it", converters), ("in any order", shuffled)];
    [ours, converters, shuffled].into_iter().chain(random_values).collect()
}

#[test]
fn a_gguf_file_comes_back_from_apr_to_the_byte() {
    let host = host();
    let only = std::env::var("MODEL").unwrap_or_default();
    let mut all: BTreeMap<String, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    let mut count = 0;
    for path in goldens().into_iter().chain(packed()).filter(|path| only.is_empty() || name(path) == only) {
        let scratch = Scratch::in_memory();
        for (variant, file) in variants(&host, &scratch, &path) {
            count += 1;
            let lines = lost(&host, &scratch, &file);
            if !lines.is_empty() {
                all.entry(name(&path).to_owned()).or_default().insert(variant, lines);
            }
        }
    }
    assert!(all.is_empty(), "{}", serde_json::to_string_pretty(&all).unwrap());
    assert!(count > 1000 || !only.is_empty(), "{count} files");
}
