//! A GGUF file comes back from APR to the byte, whatever its values and the order of its tensors.

use crate::models::{goldens, name, opened};
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_sdk::{DType, Payload, Tensor};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

fn convert_to(host: &Host, input: &Path, output: &Path) -> Converted {
    let (input, output) = (input.to_owned(), Some(output.to_owned()));
    // Values of the models need not be finite.
    let options = ConvertOptions { input, output, force: true, ..ConvertOptions::default() };
    convert(host, &options).unwrap()
}

/// Where a tensor's payload lies in its file.
fn range(tensor: &Tensor) -> Range<usize> {
    let Payload::Extent { extent, .. } = tensor.payload else { panic!("{}", tensor.name) };
    usize::try_from(extent.offset).unwrap()..usize::try_from(extent.end().unwrap()).unwrap()
}

/// The GGUF file that a checkpoint becomes.
fn gguf_of(host: &Host, model: &Checkpoint, scratch: &Scratch) -> PathBuf {
    let (folder, file) = (scratch.at(&model.name), scratch.at("m.gguf"));
    model.write_to(&folder).unwrap();
    convert_to(host, &folder, &file);
    file
}

/// The first difference between a GGUF file and what it becomes by way of APR.
fn difference(host: &Host, file: &Path, scratch: &Scratch) -> Option<String> {
    let (held, back) = (scratch.at("m.apr"), scratch.at("back.gguf"));
    let notes = convert_to(host, file, &held).notes;
    convert_to(host, &held, &back);
    let dialect = opened(host, &held).model.dialect;
    let is_told = notes.iter().any(|note| note.starts_with("names are kept in the dialect `gguf`"));
    if is_told != (dialect == "gguf") {
        return Some(format!("({dialect}) is told otherwise: {notes:?}"));
    }
    if fs::read(file).unwrap() == fs::read(&back).unwrap() {
        return None;
    }
    let names = |path: &Path| -> Vec<String> {
        opened(host, path).model.tensors.into_iter().map(|tensor| tensor.name).collect()
    };
    let (before, after) = (names(file), names(&back));
    let place = before.iter().zip(&after).position(|(a, b)| a != b);
    let order = place.map(|at| format!("tensor {at} is `{}`, not `{}`", after[at], before[at]));
    Some(format!("({dialect}) {}", order.unwrap_or("other values".to_owned())))
}

/// Fails with every golden whose GGUF file, changed by `prepare`, does not come back.
fn check(prepare: impl Fn(&Host, Checkpoint, &Scratch) -> PathBuf) {
    let host = host();
    let mut failed = Vec::new();
    for path in &goldens() {
        let scratch = Scratch::new();
        let file = prepare(&host, Checkpoint::golden(path).unwrap(), &scratch);
        if let Some(difference) = difference(&host, &file, &scratch) {
            failed.push(format!("{} {difference}", name(path)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn gguf_of_every_golden_comes_back_from_apr_to_the_byte() {
    check(|host, model, scratch| gguf_of(host, &model, scratch));
}

/// Bytes between two payloads of a GGUF file start at multiples of this.
const ALIGNMENT: usize = 32;

/// The GGUF file with its tensors in the opposite order, index and payload.
fn reversed(file: &[u8], tensors: &[Tensor]) -> Vec<u8> {
    let extents: Vec<Range<usize>> = tensors.iter().map(range).collect();
    let payloads = extents.iter().map(|extent| extent.start).min().unwrap();
    // An entry of the index begins with the length of its name and the name.
    let first = [&(tensors[0].name.len() as u64).to_le_bytes(), tensors[0].name.as_bytes()].concat();
    let index = file.windows(first.len()).position(|bytes| bytes == first).unwrap();
    let mut entries = Vec::new();
    let mut at = index;
    for tensor in tensors {
        let dims = u32::from_le_bytes(file[at + 8 + tensor.name.len()..][..4].try_into().unwrap());
        let len = 8 + tensor.name.len() + 4 + 8 * usize::try_from(dims).unwrap() + 4 + 8;
        entries.push(&file[at..at + len]);
        at += len;
    }
    let (mut out, mut data) = (file[..index].to_vec(), Vec::new());
    for (entry, extent) in entries.iter().zip(extents).rev() {
        data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
        out.extend(&entry[..entry.len() - 8]);
        out.extend((data.len() as u64).to_le_bytes());
        data.extend(&file[extent]);
    }
    data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
    out.resize(payloads, 0);
    out.extend(data);
    out
}

#[test]
fn gguf_comes_back_from_apr_in_the_order_that_its_tensors_had() {
    check(|host, model, scratch| {
        let file = gguf_of(host, &model, scratch);
        let bytes = reversed(&fs::read(&file).unwrap(), &opened(host, &file).model.tensors);
        fs::write(&file, bytes).unwrap();
        file
    });
}

/// Floats that are hard to give back: of any exponent and sign, zeros, subnormals, infinities and NaNs among them.
fn hard_values(count: usize, seed: u64) -> impl Iterator<Item = u32> {
    const SPECIAL: [u32; 8] =
        [0, 1 << 31, 1, 0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 0x7fa0_0001, 0x0080_0000];
    let mut state = seed | 1;
    (0..count).map(move |at| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        #[allow(clippy::cast_possible_truncation, reason = "the upper half of the state is random")]
        let random = (state >> 32) as u32;
        match at % 32 {
            0 => SPECIAL[at / 32 % SPECIAL.len()],
            // Near 1, where norms and gains lie.
            1..=23 => (random & 0x83ff_ffff) | 0x3c00_0000,
            _ => random & 0xbfff_ffff,
        }
    })
}

#[test]
fn gguf_comes_back_from_apr_whatever_its_values_are() {
    check(|host, model, scratch| {
        let file = gguf_of(host, &model, scratch);
        let mut bytes = fs::read(&file).unwrap();
        let tensors = opened(host, &file).model.tensors;
        // Two halves of 16 bits lie in a word.
        let is_float = |dtype: DType| [DType::F32, DType::F16, DType::BF16].contains(&dtype);
        for (number, tensor) in tensors.iter().enumerate().filter(|(_, tensor)| is_float(tensor.dtype)) {
            let words = bytes[range(tensor)].as_chunks_mut::<4>().0;
            let values: Vec<u32> = hard_values(words.len(), number as u64).collect();
            for (word, value) in words.iter_mut().zip(values) {
                *word = value.to_le_bytes();
            }
        }
        fs::write(&file, bytes).unwrap();
        file
    });
}
