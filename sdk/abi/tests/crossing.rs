//! Reading across the wire is reading without it: the toy hears and answers the same, panics become errors.

use crate::toy::{Toy, full_error, heard, module, told};
use apr_sdk::*;
use std::fmt::Write;

fn source() -> MemorySource {
    MemorySource::new("a", (0..32).collect::<Vec<u8>>()).with("b", vec![1, 2])
}

/// Everything a host does with a reader, as one text: answers, what the toy heard, what the source logged.
fn read_with(reader: &dyn Reader) -> String {
    let mut text = String::new();
    let source = source();
    let entries = ["x".to_owned(), "y/".to_owned()];
    let look = Look { name: "n", len: 9, head: b"head", tail: b"", is_folder: true, entries: &entries };
    writeln!(text, "{:?}", reader.probe(&look)).unwrap();
    let mut limits = Limits { dims: 3, tensors: 20, name_bytes: 30, ..Limits::default() };
    (limits.metadata_keys, limits.nesting, limits.files) = (40, 5, 60);
    let options = Options::new().with("charge", "1000").with("earn", "7").with("é", "\0");
    let model = reader.open(&source, &limits, &options).unwrap();
    writeln!(text, "{}", limits.budget.left()).unwrap();
    let file_len = |file| source.len(file);
    let mut builder = ModelBuilder::new("toy", &limits, &file_len);
    model.describe(&source, &mut builder).unwrap();
    writeln!(text, "{:#?}", builder.finish()).unwrap();
    let mut blocks = Blocks::default();
    model.blocks(&source, 3, &mut blocks).unwrap();
    writeln!(text, "{:?}", blocks.0).unwrap();
    let mut out = [0; 4];
    for codec in [0, 1] {
        let decoded = model.decode(&told(codec), BlockAt { tensor: 1 << 33, block: 2 }, b"st", &mut out);
        writeln!(text, "{decoded:?} {out:?}").unwrap();
    }
    writeln!(text, "{:?}", model.stream(0).err()).unwrap();
    let mut stream = model.stream(1).unwrap();
    writeln!(text, "{:?} {out:?}", stream.read(&source, &mut out)).unwrap();
    for options in [Options::new().with("fail", "true"), Options::new().with("charge", "99999999999")] {
        writeln!(text, "{:?}", reader.open(&source, &limits, &options).err()).unwrap();
    }
    for id in ["good", "bad", "fails"] {
        writeln!(text, "{:?}", reader.report(id, &source, &limits, &options)).unwrap();
    }
    writeln!(text, "{:?} {:#?}", source.logged(), heard()).unwrap();
    text
}

#[derive(Default)]
struct Blocks(Vec<(Extent, u64)>);

impl BlockSink for Blocks {
    fn block(&mut self, stored: Extent, raw_len: u64) -> Result<()> {
        self.0.push((stored, raw_len));
        Ok(())
    }
}

#[test]
fn a_reader_hears_and_says_the_same_across_the_wire() {
    let plain = read_with(&Toy);
    let loaded = read_with(&*module().reader("toy").unwrap());
    assert_eq!(plain, loaded);
    assert!(
        plain.contains("form: Hex") && plain.contains("form: Masked") && plain.contains("LimitExceeded"),
        "{plain}"
    );
    assert!(plain.contains("passed: true") && plain.contains("passed: false"), "{plain}");
}

#[test]
fn every_field_of_an_error_crosses() {
    let reader = module().reader("toy").unwrap();
    let options = Options::new().with("fail", "true");
    let error = reader.open(&source(), &Limits::default(), &options).err().unwrap();
    assert_eq!(error, full_error());
}

#[test]
fn a_view_is_the_hosts_own_memory() {
    struct Seen;
    impl Source for Seen {
        fn name(&self, _: FileId) -> String {
            String::new()
        }
        fn len(&self, _: FileId) -> Result<u64> {
            Ok(1)
        }
        fn read_at(&self, _: FileId, _: u64, _: &mut [u8]) -> Result<()> {
            panic!("in the host")
        }
        fn view(&self, _: Extent) -> Result<&[u8]> {
            Ok(b"the very bytes")
        }
        fn sibling(&self, _: &str) -> Result<FileId> {
            Err(full_error())
        }
        fn entries(&self) -> Result<Vec<String>> {
            Ok(Vec::new())
        }
        fn log(&self, _: LogLevel, _: &str) {}
    }
    let wire = apr_abi::adapt::source::ToWireSource(&Seen);
    let object = wire.object();
    let back = apr_abi::adapt::source::FromWireSource(&object);
    let view = back.view(Extent::default()).unwrap();
    assert_eq!(view.as_ptr(), Seen.view(Extent::default()).unwrap().as_ptr());
    assert_eq!(back.sibling("x").unwrap_err(), full_error());
    apr_abi::guard::install_hook();
    let error = back.read_at(0, 0, &mut []).unwrap_err();
    assert_eq!((error.explicit_code(), error.kind()), (Some("E_HOST"), ErrorKind::Io));
    assert!(error.message().contains("in the host at "), "{error}");
}

#[test]
fn a_panic_in_probe_is_noted_and_a_missing_role_is_an_error() {
    let module = module();
    let reader = module.reader("toy").unwrap();
    let look = Look { name: "panics", len: 0, head: b"", tail: b"", is_folder: false, entries: &[] };
    assert_eq!(reader.probe(&look), Score::NO);
    let faults = module.take_faults();
    assert!(
        faults.len() == 1 && faults[0].starts_with("panicked while probing: \"in probe at "),
        "{faults:?}"
    );
    assert!(module.take_faults().is_empty());
    assert_eq!(module.reader("none").err().unwrap().kind(), ErrorKind::Plugin);
    assert_eq!(module.writer("none").err().unwrap().kind(), ErrorKind::Plugin);
}

/// Takes importance, and refuses more than one tensor.
#[derive(Default)]
struct Taken(Vec<String>);

impl ImportanceSink for Taken {
    fn tensor(&mut self, dialect: &str, name: &str, values: &[f32]) -> Result<()> {
        if self.0.is_empty() {
            self.0.push(format!("{dialect} {name} {values:?}"));
            return Ok(());
        }
        Err(full_error())
    }

    fn record(&mut self, format: &str, key: &str, value: Value) -> Result<()> {
        self.0.push(format!("{format} {key} {value:?}"));
        Ok(())
    }
}

/// Everything a host does with a quantizer, as one text.
fn quantize_with(quantizer: &dyn Quantizer) -> String {
    let mut text = format!("{:?} {:?}\n", quantizer.dtypes(), quantizer.recipes());
    let mut out = [0.0; 3];
    for blocks in [&[1u8, 2][..], &[]] {
        writeln!(text, "{:?} {out:?}", quantizer.decode(DType::Q8_0, blocks, 1 << 40, &mut out)).unwrap();
    }
    let mut blocks = [0; 3];
    for importance in [None, Some(&[0.5, 0.25][..])] {
        let encoded = quantizer.encode(DType::Q4_K, &[1.0, -2.0], 2, importance, &mut blocks);
        writeln!(text, "{encoded:?} {blocks:?}").unwrap();
    }
    let repacked = quantizer.repack(DType::Q8_0, DType::Q4_K, &[1], &mut blocks);
    writeln!(text, "{:?} {repacked:?} {blocks:?}", quantizer.repacks()).unwrap();
    let mut facts = TensorFacts::default();
    (facts.name, facts.shape, facts.has_importance) = ("t".to_owned(), vec![1 << 40, 2], true);
    facts.names.push(("d".to_owned(), "n".to_owned()));
    let mut model = ModelFacts::default();
    (model.architecture, model.config, model.has_importance) = (Some("a".to_owned()), "{}".to_owned(), true);
    let assigned =
        quantizer.assign("r", &[facts.clone(), facts], &model, &Options::new().with("pure", "true"));
    writeln!(text, "{assigned:?} {:?} {:?}", quantizer.records("r"), quantizer.records("fails")).unwrap();
    let mut taken = Taken::default();
    for _ in 0..2 {
        writeln!(text, "{:?} {:?}", quantizer.importance(&source(), &mut taken), taken.0).unwrap();
    }
    let sums = quantizer.importance_sums(&source()).unwrap();
    for form in [None, Some("f"), Some("fails")] {
        writeln!(text, "{sums:?} {:?}", quantizer.importance_file(&sums, "a.b", form)).unwrap();
    }
    writeln!(text, "{:#?}", heard()).unwrap();
    text
}

#[test]
fn a_quantizer_hears_and_says_the_same_across_the_wire() {
    let plain = quantize_with(&Toy);
    let loaded = module().quantizer().unwrap();
    assert_eq!(plain, quantize_with(&*loaded));
    assert!(plain.contains("needs_importance: true") && plain.contains("Some([0.5, 0.25])"), "{plain}");
    let panicked = loaded.encode(DType::Q4_K, &[], 1, None, &mut []).unwrap_err();
    assert_eq!(panicked.explicit_code(), Some("E_PLUGIN"));
    assert!(loaded.records("far").unwrap_err().message().contains("must be held"));
    let short = loaded.assign("short", &[TensorFacts::default()], &ModelFacts::default(), &Options::new());
    assert!(short.unwrap_err().message().contains("0 types for 1 tensors"));
}
