//! Fixtures with something changed: an error or an answer, never a panic, and no box outside of its part.

use crate::folder::{Folder, fixtures, schemes};
use apr_sdk::{DType, PartRange};
use serde_json::Value as Json;

/// A generator of numbers (xorshift64*): the same ones in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % n.max(1)
    }
}

/// Numbers that files and configurations should not have.
const ODD: [i64; 12] = [0, 1, -1, 3, 7, 31, 33, 100, 4096, i64::MAX, i64::MIN, 1 << 40];

/// Changes one value somewhere in an object.
fn change(json: &mut Json, random: &mut Random) {
    match json {
        Json::Object(members) if !members.is_empty() => {
            let at = random.below(members.len());
            let key = members.keys().nth(at).unwrap().clone();
            match random.below(6) {
                0 => drop(members.remove(&key)),
                _ => change(&mut members[&key], random),
            }
        }
        Json::Array(items) if !items.is_empty() => {
            let at = random.below(items.len());
            change(&mut items[at], random);
        }
        value => {
            *value = match random.below(4) {
                0 => Json::Null,
                1 => Json::from("odd"),
                2 => Json::Bool(true),
                _ => Json::from(ODD[random.below(ODD.len())]),
            };
        }
    }
}

fn mutate(folder: &mut Folder, random: &mut Random) {
    let n = folder.model.tensors.len();
    let at = random.below(n);
    match random.below(5) {
        0 => {
            folder.model.tensors.remove(at);
            folder.bytes.remove(at);
        }
        1 => {
            let types = [
                DType::I32,
                DType::U8,
                DType::I8,
                DType::F16,
                DType::BF16,
                DType::F32,
                DType::F8_E4M3,
                DType::I64,
            ];
            folder.model.tensors[at].dtype = types[random.below(types.len())];
        }
        2 => {
            let shape = &mut folder.model.tensors[at].shape;
            match random.below(4) {
                0 => shape.reverse(),
                1 => drop(shape.pop()),
                2 => shape.push(1 + random.below(4) as u64),
                _ => {
                    let along = random.below(shape.len());
                    if let Some(size) = shape.get_mut(along) {
                        *size = u64::try_from(ODD[random.below(ODD.len())]).unwrap_or(1 << 62);
                    }
                }
            }
        }
        3 if !folder.bytes[at].is_empty() => {
            let bytes = &mut folder.bytes[at];
            let n = bytes.len();
            (0..1 + n / 16).for_each(|_| bytes[random.below(n)] = u8::try_from(random.below(256)).unwrap());
        }
        _ if !folder.model.announced.is_empty() => {
            let at = random.below(folder.model.announced.len());
            let announced = &mut folder.model.announced[at];
            let mut json = serde_json::from_str(&announced.json).unwrap();
            change(&mut json, random);
            announced.json = json.to_string();
        }
        _ => {}
    }
}

#[test]
fn whatever_is_changed_in_a_fixture_ends_in_an_error_or_an_answer() {
    let mut random = Random(0x5eed);
    let (mut errors, mut answers) = (0, 0);
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        for _ in 0..60 {
            let mut folder = Folder::read(&path);
            (0..1 + random.below(2)).for_each(|_| mutate(&mut folder, &mut random));
            let Ok(understood) = folder.understood() else {
                errors += 1;
                continue;
            };
            for weight in &understood.packed {
                let rows = 0..weight.rows.rows.min(3);
                // A declared shape may be larger than what is there: the host compares both before anything is read.
                let is_whole = weight.parts.iter().all(|(part, _)| {
                    let tensor = &folder.model.tensors[*part];
                    let len = apr_sdk::checked_payload_len(tensor.dtype, &tensor.shape);
                    len.is_ok_and(|len| len == folder.bytes[*part].len() as u64)
                });
                let Ok(ranges) = schemes().ranges(&weight.rows, rows.clone()) else { continue };
                if !is_whole {
                    continue;
                }
                for (range, (part, _)) in ranges.iter().zip(&weight.parts) {
                    let PartRange::Boxes(boxes) = range else { continue };
                    let info = folder.model.tensors[*part].dtype.info().unwrap();
                    let each = if info.block_elements > 1 { 1 } else { u64::from(info.block_bytes) };
                    let units = folder.bytes[*part].len() as u64 / each;
                    for one in boxes {
                        let reach: u64 =
                            one.dims.iter().map(|(size, stride)| size.saturating_sub(1) * stride).sum();
                        let is_empty = one.dims.iter().any(|(size, _)| *size == 0);
                        let shown = path.display();
                        assert!(
                            is_empty || one.start + reach < units,
                            "{shown}: {} reaches beyond its part",
                            weight.about
                        );
                    }
                }
                answers += 1;
                let _ = folder.unpack(weight, rows.clone(), rows);
            }
        }
    }
    assert!(errors > 500 && answers > 500, "{errors} errors and {answers} answers");
}
