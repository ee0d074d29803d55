//! Importance matrices: fixtures by other writers, damaged ones, and drawn ones.

use crate::data::Random;
use apr_sdk::{
    Error, ErrorKind, ImportanceSink, ImportanceSums, MemorySource, Quantizer, Result, TensorSums, Value,
};
use std::path::Path;

/// Keeps what it is handed.
#[derive(Default, Debug, PartialEq)]
struct Kept {
    tensors: Vec<(String, Vec<u32>)>,
    records: Vec<(String, Value)>,
}

impl ImportanceSink for Kept {
    fn tensor(&mut self, dialect: &str, name: &str, values: &[f32]) -> Result<()> {
        assert_eq!(dialect, "gguf");
        assert!(!values.is_empty() && values.iter().all(|value| value.is_finite()), "{name}");
        self.tensors.push((name.to_owned(), values.iter().map(|value| value.to_bits()).collect()));
        Ok(())
    }

    fn record(&mut self, format: &str, key: &str, value: Value) -> Result<()> {
        assert_eq!(format, "gguf");
        self.records.push((key.to_owned(), value));
        Ok(())
    }
}

fn read(name: &str, bytes: &[u8]) -> Result<Kept> {
    let quants: Box<dyn Quantizer> = (apr_plugin_quants::PLUGIN.quantizer)().unwrap();
    let mut kept = Kept::default();
    quants.importance(&MemorySource::new(name, bytes), &mut kept)?;
    Ok(kept)
}

const FIXTURES: [&str; 5] = ["experts.gguf", "aligned.gguf", "calls.dat", "bare.dat", "chunks.dat"];

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

#[test]
fn fixtures_are_read_as_llama_quantize_reads_them() {
    for name in FIXTURES {
        let expected: serde_json::Value =
            serde_json::from_slice(&fixture(&format!("{name}.expected.json"))).unwrap();
        let kept = read(name, &fixture(name)).unwrap();
        let values = expected["values"].as_object().unwrap();
        assert_eq!(kept.tensors.len(), values.len(), "{name}");
        for (tensor, found) in &kept.tensors {
            let rows = values[tensor].as_array().unwrap();
            let bits = rows.iter().map(|digits| u32::from_str_radix(digits.as_str().unwrap(), 16).unwrap());
            assert_eq!(found, &bits.collect::<Vec<_>>(), "{name}: {tensor}");
        }
        let records = expected["records"].as_array().unwrap().iter().map(|record| {
            let value = match record[1].as_str().unwrap() {
                "u32" => Value::from_u32(u32::try_from(record[2].as_u64().unwrap()).unwrap()),
                _ => Value::from_string(record[2].as_str().unwrap()),
            };
            (record[0].as_str().unwrap().to_owned(), value)
        });
        assert_eq!(kept.records, records.collect::<Vec<_>>(), "{name}");
    }
}

/// An error that says what is wrong with the file, and where.
fn check(what: &str, error: &Error) {
    let kinds = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::LimitExceeded];
    assert!(kinds.contains(&error.kind()), "{what}: {error:?}");
    assert!(error.file().is_some() && error.offset().is_some(), "{what}: {error:?}");
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_with_its_place() {
    for name in FIXTURES {
        let whole = fixture(name);
        // The older form may end before its tail, and within it before the text.
        let may_end: &[usize] = match name {
            "calls.dat" => &[whole.len() - 23, whole.len() - 19],
            "chunks.dat" => &[whole.len() - 4],
            _ => &[],
        };
        for len in 0..whole.len() {
            match read(name, &whole[..len]) {
                Err(error) => check(&format!("{name} cut to {len}"), &error),
                Ok(_) if may_end.contains(&len) => {}
                // What follows the last value is padding.
                Ok(kept) if name.ends_with(".gguf") => {
                    assert!(whole[len..].iter().all(|&byte| byte == 0), "{name} cut to {len}");
                    assert_eq!(kept, read(name, &whole).unwrap());
                }
                Ok(_) => panic!("{name} cut to {len} is accepted"),
            }
        }
        assert!(may_end.iter().all(|&len| read(name, &whole[..len]).is_ok()), "{name}");
    }
}

#[test]
fn no_changed_byte_does_harm() {
    for name in FIXTURES {
        let whole = fixture(name);
        for at in 0..whole.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] ^= change;
                if let Err(error) = read(name, &changed) {
                    check(&format!("{name} with byte {at} changed"), &error);
                }
            }
        }
    }
}

/// An entry of the older form.
fn entry(name: &str, calls: i32, count: i32, values: &[f32]) -> Vec<u8> {
    let len = i32::try_from(name.len()).unwrap();
    let mut bytes =
        [&len.to_le_bytes(), name.as_bytes(), &calls.to_le_bytes(), &count.to_le_bytes()].concat();
    values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    bytes
}

fn dat(entries: i32, parts: &[Vec<u8>]) -> Vec<u8> {
    [entries.to_le_bytes().to_vec(), parts.concat()].concat()
}

#[test]
fn wrong_numbers_in_the_older_form_are_refused_at_their_place() {
    let good = || entry("a.weight", 2, 2, &[1.0, 2.0]);
    let long = i32::MAX.to_le_bytes().to_vec();
    let wrong = [
        ("no entries", dat(0, &[good()]), 0, "not an importance matrix"),
        ("fewer than none", dat(-1, &[good()]), 0, "not an importance matrix"),
        ("too many", dat(1 << 20, &[good()]), 0, "not an importance matrix"),
        ("a long name", dat(1, &[long.clone(), vec![b'a'; 64]]), 4, "the length of the name"),
        (
            "a negative length",
            dat(1, &[(-1i32).to_le_bytes().to_vec(), vec![0; 64]]),
            4,
            "the length of the name is -1",
        ),
        ("no values", dat(1, &[entry("a", 1, 0, &[1.0])]), 13, "0 is not a valid number of values"),
        (
            "fewer values than none",
            dat(1, &[entry("a", 1, -3, &[1.0])]),
            13,
            "-3 is not a valid number of values",
        ),
        ("too many values", dat(1, &[entry("a", 1, i32::MAX, &[1.0])]), 13, "the number of values"),
        ("twice", dat(2, &[good(), good()]), 32, "duplicate entry name"),
        (
            "not finite",
            dat(1, &[entry("a", 1, 2, &[1.0, f32::NAN])]),
            21,
            "the importance of column 1 is not finite: NaN",
        ),
        (
            "infinite",
            dat(1, &[entry("a", 1, 1, &[f32::INFINITY])]),
            17,
            "the importance of column 0 is not finite: inf",
        ),
        (
            "negative",
            dat(1, &[entry("a", 2, 3, &[1.0, 0.0, -3.0])]),
            25,
            "the importance of column 2 is negative: -1.5",
        ),
        ("not UTF-8", dat(1, &[vec![1, 0, 0, 0, 0xff], vec![0; 64]]), 8, "not valid UTF-8"),
        ("a long text", dat(1, &[good(), vec![1, 0, 0, 0], long]), 36, "the length of the name of the text"),
    ];
    for (what, bytes, offset, message) in wrong {
        let error = read("a.dat", &bytes).unwrap_err();
        check(what, &error);
        assert_eq!(error.offset(), Some(offset), "{what}: {error:?}");
        assert!(error.message().contains(message), "{what}: {error:?}");
    }
    // What another plugin might know is not called damaged.
    for other in [b"\x93NUMPY\x01\x00".as_slice(), &[0; 64], &[0xff; 64], b"{\"a\": 1}", b"GGUF\x09\0\0\0"] {
        assert_eq!(read("a", other).unwrap_err().kind(), ErrorKind::Unsupported, "{other:?}");
    }
    // Calls below one divide nothing.
    let kept = read("a.dat", &dat(1, &[entry("a", -1, 2, &[1.5, 0.0])])).unwrap();
    assert_eq!(kept.tensors, [("a".to_owned(), vec![1.5f32.to_bits(), 0])]);
}

/// A GGUF file of keys and tensors: name, dimensions, values.
#[derive(Clone)]
struct Gguf {
    keys: Vec<(&'static str, Value)>,
    tensors: Vec<(String, Vec<u64>, Vec<f32>)>,
    version: u32,
    kind: u32,
}

impl Gguf {
    fn new(tensors: &[(&str, &[u64], &[f32])]) -> Gguf {
        let keys = vec![
            ("imatrix.datasets", Value::from_strings(&["a.txt"])),
            ("imatrix.chunk_count", Value::from_u32(3)),
            ("imatrix.chunk_size", Value::from_u32(512)),
        ];
        let owned = |(name, dims, values): &(&str, &[u64], &[f32])| {
            ((*name).to_owned(), dims.to_vec(), values.to_vec())
        };
        Gguf { keys, tensors: tensors.iter().map(owned).collect(), version: 3, kind: 0 }
    }

    fn bytes(&self) -> Vec<u8> {
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        };
        let mut out = [b"GGUF".as_slice(), &self.version.to_le_bytes()].concat();
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (name, value) in &self.keys {
            text(&mut out, name);
            out.extend(value.kind.0.to_le_bytes());
            out.extend(value.bytes.inline().unwrap());
        }
        let mut data = Vec::new();
        for (name, dims, values) in &self.tensors {
            text(&mut out, name);
            out.extend(u32::try_from(dims.len()).unwrap().to_le_bytes());
            dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(self.kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            values.iter().for_each(|value| data.extend(value.to_le_bytes()));
            data.resize(data.len().next_multiple_of(32), 0);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        [out, data].concat()
    }
}

#[test]
fn wrong_numbers_in_the_newer_form_are_refused_at_their_place() {
    let sums: (&str, &[u64], &[f32]) = ("a.in_sum2", &[2, 1], &[3.0, 4.0]);
    let counts: (&str, &[u64], &[f32]) = ("a.counts", &[1, 1], &[2.0]);
    let good = Gguf::new(&[sums, counts]);
    assert_eq!(read("a.gguf", &good.bytes()).unwrap().tensors[0].1, [1.5f32.to_bits(), 2.0f32.to_bits()]);
    let with = |change: &dyn Fn(&mut Gguf)| {
        let mut changed = good.clone();
        change(&mut changed);
        changed.bytes()
    };
    let without = |key: &'static str| with(&|gguf| gguf.keys.retain(|(name, _)| *name != key));
    let key = |value: Value| with(&|gguf| gguf.keys.push(("general.alignment", value.clone())));
    let wrong = [
        ("a version", with(&|gguf| gguf.version = 1), "GGUF version 1"),
        ("another version", with(&|gguf| gguf.version = 0x0300_0000), "GGUF version"),
        ("another type", with(&|gguf| gguf.kind = 1), "its type is not F32"),
        ("no datasets", without("imatrix.datasets"), "imatrix.datasets"),
        ("no count of chunks", without("imatrix.chunk_count"), "imatrix.chunk_count"),
        ("no size of chunks", without("imatrix.chunk_size"), "imatrix.chunk_size"),
        (
            "a wide count",
            with(&|gguf| gguf.keys[1].1 = Value::from_u64(3)),
            "`imatrix.chunk_count` must be a u32",
        ),
        ("an alignment of none", key(Value::from_u32(0)), "not a power of two"),
        ("an odd alignment", key(Value::from_u32(24)), "not a power of two"),
        ("no counts", Gguf::new(&[sums]).bytes(), "counts is missing"),
        ("no sums", Gguf::new(&[counts]).bytes(), "in_sum2 is missing"),
        ("nothing", Gguf::new(&[]).bytes(), "it has no tensors"),
        ("twice", Gguf::new(&[sums, counts, counts]).bytes(), "duplicate entry name"),
        (
            "three counts",
            Gguf::new(&[sums, ("a.counts", &[3], &[1.0; 3])]).bytes(),
            "2 values do not match 3",
        ),
        ("no values", Gguf::new(&[("a.in_sum2", &[0], &[]), counts]).bytes(), "0 values"),
        (
            "too many",
            Gguf::new(&[("a.in_sum2", &[1 << 40, 1 << 40], &[]), counts]).bytes(),
            "values, expected 1 to",
        ),
        (
            "more than there are",
            Gguf::new(&[counts, ("a.in_sum2", &[999], &[1.0])]).bytes(),
            "its data ends at",
        ),
        ("other places", Gguf::new(&[("a.in_sum2", &[9], &[1.0]), counts]).bytes(), "its data starts"),
        (
            "dimensions",
            Gguf::new(&[("a.in_sum2", &[1; 5], &[1.0]), counts]).bytes(),
            "the number of dimensions 5",
        ),
        (
            "not finite",
            Gguf::new(&[("a.in_sum2", &[2], &[1.0, f32::NAN]), counts]).bytes(),
            "the importance of column 1 is not finite",
        ),
    ];
    for (what, bytes, message) in wrong {
        let error = read("a.gguf", &bytes).unwrap_err();
        check(what, &error);
        assert!(error.message().contains(message), "{what}: {error:?}");
    }
    // Counts at which an expert was not met.
    for count in [0.0, 0.4] {
        let gguf = Gguf::new(&[("a.in_sum2", &[2], &[f32::NAN, 4.0]), ("a.counts", &[1], &[count])]);
        assert_eq!(read("a.gguf", &gguf.bytes()).unwrap().tensors[0].1, [1.0f32.to_bits(); 2], "{count}");
    }
    for count in [-1.0, f32::NAN] {
        let gguf = Gguf::new(&[("a.in_sum2", &[2], &[1.0, 4.0]), ("a.counts", &[1], &[count])]);
        let error = read("a.gguf", &gguf.bytes()).unwrap_err();
        assert!(error.message().contains("the count of matrix 0 is"), "{count}: {error:?}");
    }
    // Keys of every type are passed over; texts that are none are no text.
    let mut gguf = good.clone();
    gguf.keys[0].1 = Value::from_u64(7);
    gguf.keys.insert(0, ("a", Value::from_strings(&["b", ""])));
    gguf.keys.insert(0, ("b", Value::from_items(apr_sdk::ValueType::U16, 3, &[0; 6])));
    gguf.keys.insert(0, ("c", Value::from_bool(true)));
    gguf.keys.insert(0, ("d", Value::from_string("text")));
    let records = read("a.gguf", &gguf.bytes()).unwrap().records;
    let names: Vec<_> = records.iter().map(|(name, _)| name.rsplit('.').next().unwrap()).collect();
    assert_eq!(names, ["file", "entries_count", "chunks_count"]);
}

/// As the program that makes matrices, and the one that uses them, calculate.
#[test]
fn what_is_drawn_comes_back_from_both_forms() {
    let mut random = Random(0x00a9_0600);
    for round in 0..200 {
        let tensors = 1 + random.next() % 5;
        let (mut parts, mut gguf, mut expected) = (Vec::new(), Gguf::new(&[]), [Vec::new(), Vec::new()]);
        for n in 0..tensors {
            let name = format!("blk.{n}.ffn_up_exps.weight");
            let (columns, experts) = (1 + random.next() % 2000, 1 + random.next() % 4);
            let sums: Vec<f32> = (0..columns * experts).map(|_| random.unit() * 1e6).collect();
            let counts: Vec<f32> = (0..experts).map(|_| (random.next() % 3 * 512) as f32).collect();
            let calls = i32::try_from(random.next() % 5).unwrap() - 1;

            let of_expert = |at: usize| counts[at / usize::try_from(columns).unwrap()];
            let by_counts = sums.iter().enumerate().map(|(at, sum)| match of_expert(at) {
                0.0 => 1.0f32.to_bits(),
                count => (sum / count).to_bits(),
            });
            expected[0].push((name.clone(), by_counts.collect::<Vec<u32>>()));
            let by_calls =
                sums.iter().map(|sum| (if calls > 0 { sum / calls as f32 } else { *sum }).to_bits());
            expected[1].push((name.clone(), by_calls.collect::<Vec<u32>>()));
            parts.push(entry(&name, calls, i32::try_from(sums.len()).unwrap(), &sums));
            gguf.tensors.push((format!("{name}.in_sum2"), vec![columns, experts], sums));
            gguf.tensors.push((format!("{name}.counts"), vec![1, experts], counts));
        }
        let dat = dat(i32::try_from(tensors).unwrap(), &parts);
        assert_eq!(read("a.dat", &dat).unwrap().tensors, expected[1], "round {round}");
        assert_eq!(read("a.gguf", &gguf.bytes()).unwrap().tensors, expected[0], "round {round}");
    }
}

fn sums(name: &str, bytes: &[u8]) -> Result<ImportanceSums> {
    let quants: Box<dyn Quantizer> = (apr_plugin_quants::PLUGIN.quantizer)().unwrap();
    quants.importance_sums(&MemorySource::new(name, bytes))
}

fn file(sums: &ImportanceSums, name: &str, form: Option<&str>) -> Result<Vec<u8>> {
    let quants: Box<dyn Quantizer> = (apr_plugin_quants::PLUGIN.quantizer)().unwrap();
    quants.importance_file(sums, name, form)
}

#[test]
fn what_is_written_has_the_same_sums_and_means() {
    for name in FIXTURES {
        let mut read_sums = sums(name, &fixture(name)).unwrap();
        if read_sums.chunk_size == 0 {
            // As llama-imatrix reads the older form.
            read_sums.chunk_size = 1;
        }
        let written = file(&read_sums, "x", None).unwrap();
        let again = sums("x", &written).unwrap();
        let mut sorted = read_sums.clone();
        sorted.tensors.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(again, sorted, "{name}");
        let mut means = read(name, &fixture(name)).unwrap().tensors;
        means.sort();
        // A form with calls that are not positive does not divide.
        if read_sums.tensors.iter().all(|tensor| name.ends_with(".gguf") || tensor.counts != [0]) {
            assert_eq!(read("x", &written).unwrap().tensors, means, "{name}");
        }
    }
}

#[test]
fn the_older_form_leaves_out_what_has_no_data() {
    let mut some = ImportanceSums::default();
    (some.dialect, some.chunk_size, some.chunks) = ("gguf".to_owned(), 4, 3);
    some.datasets = vec!["a".to_owned(), "b".to_owned()];
    let tensor = |name: &str, sums: &[f32], counts: &[u64]| TensorSums {
        name: name.to_owned(),
        sums: sums.to_vec(),
        counts: counts.to_vec(),
    };
    some.tensors = vec![
        tensor("z", &[1.0], &[0]),
        tensor("e", &[8.0, 4.0, 9.0, 9.0], &[2, 0]),
        tensor("d", &[6.0], &[9]),
    ];
    let bytes = file(&some, "x.dat", None).unwrap();
    // Calls are counts of chunks, rounded up; an expert without data gets 1.
    let expected = [
        dat(2, &[entry("d", 3, 1, &[2.0]), entry("e", 1, 4, &[4.0, 2.0, 1.0, 1.0])]),
        3i32.to_le_bytes().to_vec(),
        1i32.to_le_bytes().to_vec(),
        b"b".to_vec(),
    ]
    .concat();
    assert_eq!(bytes, expected);
    some.tensors.truncate(1);
    assert!(file(&some, "x.dat", None).unwrap_err().message().contains("no data"));
    assert!(file(&some, "x", Some("gguf")).is_ok());
}

#[test]
fn what_cannot_be_written_is_told() {
    let mut some = ImportanceSums::default();
    let error = file(&some, "x", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    some.dialect = "gguf".to_owned();
    assert!(file(&some, "x", None).unwrap_err().message().contains("how long its chunks are"));
    some.chunk_size = 512;
    assert!(file(&some, "x", Some("csv")).unwrap_err().message().contains("unknown form `csv`"));
    some.tensors = vec![TensorSums { name: "n".repeat(60), sums: vec![1.0], counts: vec![1] }];
    assert!(file(&some, "x", None).unwrap_err().message().contains("longer than the 63 bytes"));
    assert!(file(&some, "x", Some("dat")).is_ok());
}
