//! Writes files with the crate `apr-format`, and beside each a golden manifest: what the crate's own reader says of it.
//!
//! The crate decodes none of its two quantized types; their values are computed here, as its writer documents them.

mod version_1;

use apr_format::crc32;
use apr_format::v2::{AprV2Header, AprV2Metadata, AprV2Reader, AprV2StreamingWriter, AprV2Writer, TensorDType};
use half::{bf16, f16};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(std::env::args().nth(1).expect("usage: generate FOLDER"));
    let header_64 = root.join("header_64");
    fs::create_dir_all(&header_64).unwrap();
    write_header_64(&header_64);
    version_1::write(&root.join("version_1"));
}

/// Numbers that differ everywhere, of about 1.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 37 % 101) as f32 - 50.0) / 32.0).collect()
}

fn metadata() -> AprV2Metadata {
    let mut metadata = AprV2Metadata::new("linear_regression");
    metadata.name = Some("golden".to_owned());
    metadata.description = Some("Ein Modell für Prüfungen".to_owned());
    metadata.license = Some("MIT".to_owned());
    metadata.created_at = Some("1700000000".to_owned());
    metadata.param_count = 8;
    metadata.hidden_size = Some(64);
    metadata.rope_theta = Some(10000.5);
    metadata
}

/// Every dtype that the crate writes.
fn every_dtype() -> AprV2Writer {
    let mut writer = AprV2Writer::new(metadata());
    let values = numbers(6);
    let bytes = |of: &dyn Fn(f32) -> Vec<u8>| values.iter().flat_map(|value| of(*value)).collect::<Vec<u8>>();
    let shape = vec![2, 3];
    writer.add_f32_tensor("f32", shape.clone(), &values);
    writer.add_f16_tensor("f16", shape.clone(), &values);
    let bf = bytes(&|value| bf16::from_f32(value).to_le_bytes().to_vec());
    writer.add_tensor("bf16", TensorDType::BF16, shape.clone(), bf);
    let f64s = bytes(&|value| f64::from(value).to_le_bytes().to_vec());
    writer.add_tensor("f64", TensorDType::F64, shape.clone(), f64s);
    let i32s = bytes(&|value| ((value * 32.0) as i32).to_le_bytes().to_vec());
    writer.add_tensor("i32", TensorDType::I32, shape.clone(), i32s);
    let i64s = bytes(&|value| ((value * 32.0) as i64 * 1_000_000_007).to_le_bytes().to_vec());
    writer.add_tensor("i64", TensorDType::I64, shape.clone(), i64s);
    writer.add_tensor("i8", TensorDType::I8, shape.clone(), bytes(&|value| vec![(value * 32.0) as i8 as u8]));
    writer.add_tensor("u8", TensorDType::U8, shape, bytes(&|value| vec![(value * 32.0 + 50.0) as u8]));
    writer.add_f32_tensor("scalar", vec![], &[0.5]);
    writer.add_f32_tensor("nothing", vec![0, 4], &[]);
    // Small positive scales, any codes.
    let blocks = |len: usize, scales: &[usize]| {
        let mut block: Vec<u8> = (0..len).map(|n| (n * 29 % 251) as u8).collect();
        for at in scales {
            block[*at..*at + 2].copy_from_slice(&f16::from_f32(0.0625).to_le_bytes());
        }
        block
    };
    let q4k = [blocks(144, &[0, 2]), blocks(144, &[0, 2])].concat();
    writer.add_q4k_raw_tensor("q4_k", vec![2, 256], q4k);
    writer.add_q6k_raw_tensor("q6_k", vec![1, 256], blocks(210, &[208]));
    quantized(&mut writer);
    writer
}

/// Both quantized types: with rows of whole blocks, with rows that share one, with none.
fn quantized(writer: &mut AprV2Writer) {
    writer.add_q4_tensor("q4.rows", vec![3, 64], &numbers(192));
    writer.add_q4_tensor("q4.across", vec![5, 11], &numbers(55));
    writer.add_q4_tensor("q4.one", vec![7], &numbers(7));
    writer.add_q4_tensor("q4.none", vec![0], &[]);
    writer.add_q8_tensor("q8", vec![5, 11], &numbers(55));
    writer.add_q8_tensor("q8.zeros", vec![4], &[0.0; 4]);
    writer.add_q8_tensor("q8.none", vec![2, 0], &[]);
}

fn write_header_64(folder: &Path) {
    let whole = every_dtype().write().unwrap();
    save(folder, "every_dtype", &whole);
    // Two released models have no footer.
    save(folder, "no_footer", &whole[..whole.len() - 4]);

    let mut writer = AprV2Writer::new(AprV2Metadata::new("tensors"));
    quantized(&mut writer);
    save(folder, "old_numbers", &renumbered(writer.write().unwrap()));

    // Neither this flag nor any other compresses anything.
    let mut writer = AprV2Writer::new(metadata());
    writer.add_f32_tensor("a", vec![3], &numbers(3));
    writer.with_lz4_compression();
    save(folder, "says_lz4", &writer.write().unwrap());
    let with_flags = |flags: u16| {
        let mut writer = AprV2Writer::new(metadata());
        writer.add_f32_tensor("a", vec![3], &numbers(3));
        reflagged(writer.write().unwrap(), flags)
    };
    // Files from before the flag for rows have none of it; signed, sharded, quantized, filterbank, card, streaming,
    // vocabulary; an undefined one.
    save(folder, "no_flags", &with_flags(0));
    save(folder, "many_flags", &with_flags(0x13f8));
    fs::create_dir_all(folder.join("rejects")).unwrap();
    save(folder, "rejects/column_major", &with_flags(0x0800));

    // In this order, which is not that of the names.
    let streamed = folder.join("streamed.apr");
    let mut metadata = metadata();
    metadata.custom.insert("tokenizer.vocabulary".to_owned(), json!(["a", "b", "ü"]));
    metadata.custom.insert("nested".to_owned(), json!({"deep": [1, 2.5, null, true]}));
    let mut writer = AprV2StreamingWriter::new(metadata).unwrap();
    writer.add_f32_tensor("z", vec![2, 2], &numbers(4)).unwrap();
    writer.add_q8_tensor("a", vec![70000], &numbers(70000)).unwrap();
    writer.add_q4_tensor("m", vec![40000], &numbers(40000)).unwrap();
    writer.finalize(&streamed).unwrap();
    let written = fs::read(&streamed).unwrap();
    save(folder, "streamed", &written);

    // Cut after 256 bytes, the second in the middle of a character.
    let mut writer = AprV2Writer::new(AprV2Metadata::new("tensors"));
    writer.add_f32_tensor("n".repeat(300), vec![1], &[1.0]);
    writer.add_f32_tensor(format!("{}ü", "o".repeat(255)), vec![1], &[2.0]);
    save(folder, "long_names", &writer.write().unwrap());
}

/// The file with the numbers that AprQ4 and AprQ8 had before.
fn renumbered(mut file: Vec<u8>) -> Vec<u8> {
    let header = AprV2Header::from_bytes(&file).unwrap();
    let mut at = header.tensor_index_offset as usize;
    for _ in 0..header.tensor_count {
        at += 2 + usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
        file[at] -= 120;
        at += 2 + 8 * usize::from(file[at + 1]) + 16;
    }
    with_footer(file)
}

/// The file with other flags.
fn reflagged(mut file: Vec<u8>, flags: u16) -> Vec<u8> {
    let mut header = AprV2Header::from_bytes(&file).unwrap();
    header.flags = apr_format::v2::AprV2Flags::from_bits(flags);
    header.update_checksum();
    file[..64].copy_from_slice(&header.to_bytes());
    with_footer(file)
}

fn with_footer(mut file: Vec<u8>) -> Vec<u8> {
    let end = file.len() - 4;
    let sum = crc32(&file[..end]);
    file[end..].copy_from_slice(&sum.to_le_bytes());
    file
}

fn save(folder: &Path, name: &str, file: &[u8]) {
    fs::write(folder.join(format!("{name}.apr")), file).unwrap();
    let golden = match AprV2Reader::from_bytes(file) {
        Ok(reader) => golden(&reader),
        Err(error) => json!({"refused": error.to_string()}),
    };
    write_json(&folder.join(format!("{name}.golden.json")), &golden);
}

pub(crate) fn write_json(path: &Path, json: &Json) {
    fs::write(path, format!("{json:#}\n")).unwrap();
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn golden(reader: &AprV2Reader) -> Json {
    let tensors = reader.tensor_index().iter().map(|entry| {
        let data = reader.get_tensor_data(&entry.name).unwrap();
        let values = match entry.dtype {
            TensorDType::AprQ4 => q4(data, entry.element_count()),
            TensorDType::AprQ8 => q8(data),
            _ => data.to_vec(),
        };
        json!({
            "name": entry.name,
            "dtype": entry.dtype.to_string(),
            "shape": entry.shape,
            "stored": entry.size,
            "sha256": sha256(&values),
        })
    });
    json!({"metadata": reader.metadata(), "tensors": tensors.collect::<Vec<_>>()})
}

/// The values of AprQ4, as F32.
fn q4(data: &[u8], elements: usize) -> Vec<u8> {
    let value = |n: usize| {
        let block = &data[n / 32 * 18..][..18];
        let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
        let byte = block[2 + n % 32 / 2];
        let nibble = if n % 2 == 0 { byte & 15 } else { byte >> 4 };
        (f32::from(nibble) - 8.0) * scale
    };
    (0..elements).flat_map(|n| value(n).to_le_bytes()).collect()
}

/// The values of AprQ8, as F32.
fn q8(data: &[u8]) -> Vec<u8> {
    let Some((scale, codes)) = data.split_first_chunk::<4>() else { return Vec::new() };
    let scale = f32::from_le_bytes(*scale);
    codes.iter().flat_map(|code| (f32::from(*code as i8) * scale).to_le_bytes()).collect()
}
