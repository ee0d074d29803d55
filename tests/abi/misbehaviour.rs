//! A plugin that panics everywhere and gives hostile numbers: each time an error that names it, nothing on stderr, and the
//! process goes on.

use crate::build::ROGUE;
use crate::library::{Library, discover};
use apr_engine::registry::Registry;
use apr_sdk::*;
use std::process::Command;
use std::sync::LazyLock;

/// A registry with the rogue in it.
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let library = Library::copy_of(&ROGUE);
    discover(&library.write().path)
});

fn source() -> MemorySource {
    MemorySource::new("model.rogue", b"ROGUE and more".to_vec())
}

fn mode(mode: &str) -> Options {
    Options::new().with("mode", mode)
}

fn open(how: &str) -> Result<Box<dyn OpenModel>> {
    let reader = REGISTRY.format("rogue").unwrap().reader()?;
    reader.open(&source(), &Limits::default(), &mode(how))
}

fn describe(how: &str) -> Result<Model> {
    let (source, limits) = (source(), Limits { tensors: 1000, ..Limits::default() });
    let file_len = |file| source.len(file);
    let mut builder = ModelBuilder::new("rogue", &limits, &file_len);
    open(how)?.describe(&source, &mut builder)?;
    Ok(builder.finish())
}

/// A panic of the plugin: named, with its message and place.
fn is_panic(error: &Error, doing: &str) {
    assert_eq!((error.kind(), error.explicit_code()), (ErrorKind::Plugin, Some("E_PLUGIN")), "{error:?}");
    let wanted = format!("plugin `rogue` 0.1.0 panicked while {doing}: \"");
    assert!(error.message().starts_with(&wanted), "{error}");
}

#[test]
fn every_entry_point_turns_a_panic_into_an_error_with_the_plugins_name() {
    is_panic(&REGISTRY.format("rogue_new").unwrap().reader().err().unwrap(), "creating its reader");
    is_panic(&REGISTRY.format("rogue_new").unwrap().writer().err().unwrap(), "creating its writer");
    let error = open("open").err().unwrap();
    is_panic(&error, "opening");
    assert!(
        error.message().contains("rogue panics in open at ") && error.message().contains("lib.rs:"),
        "{error}"
    );
    is_panic(&open("open-payload").err().unwrap(), "opening");
    is_panic(&describe("describe").unwrap_err(), "describing a model");
    let mut out = [0; 4];
    let at = BlockAt { tensor: 0, block: 0 };
    is_panic(&open("decode").unwrap().decode(&0.into(), at, b"", &mut out).unwrap_err(), "decoding a block");
    is_panic(&open("stream").unwrap().stream(0).err().unwrap(), "starting a stream");
    let read = |how| open(how).unwrap().stream(0).unwrap().read(&source(), &mut [0; 4]);
    is_panic(&read("read").unwrap_err(), "reading a stream");
    let error = read("count").unwrap_err();
    assert!(error.message().contains("plugin `rogue`") && error.message().contains("of 4"), "{error}");
}

#[test]
fn writers_are_guarded_too() {
    struct Refuses;
    impl PatchSink for Refuses {
        fn fill(&mut self, _: u32, _: &[u8]) -> Result<()> {
            Ok(())
        }
        fn fill_digest(&mut self, _: u32, _: u32, _: u64, _: u64, _: Sum) -> Result<()> {
            Ok(())
        }
        fn append(&mut self, _: u32, _: &[u8]) -> Result<()> {
            Ok(())
        }
    }
    let writer = REGISTRY.format("rogue").unwrap().writer().unwrap();
    let mut written = Written::default();
    writer.finish(&written, &mut Refuses).unwrap();
    written.files.push(WrittenFile::default());
    is_panic(&writer.finish(&written, &mut Refuses).unwrap_err(), "finishing the output");
    let at = BlockAt { tensor: 0, block: 0 };
    is_panic(&writer.encode(&1.into(), at, b"", &mut [0; 4]).unwrap_err(), "encoding a block");
    assert!(writer.encode(&0.into(), at, b"", &mut [0; 4]).is_err());
    let error = writer.dtypes(&[TensorFacts::default()], None).unwrap_err();
    assert_eq!(error.message(), "plugin `rogue` 0.1.0: chose 1000 dtypes for 1 tensors");
    is_panic(&writer.dtypes(&vec![TensorFacts::default(); 3], None).unwrap_err(), "choosing dtypes");
    is_panic(&writer.encoded_bound(&1.into(), 9).unwrap_err(), "bounding a block");
}

#[test]
fn panics_in_drops_and_probes_are_told_with_the_plugins_name() {
    let library = Library::copy_of(&ROGUE);
    let registry = discover(&library.write().path);
    let reader = registry.format("rogue").unwrap().reader().unwrap();
    drop(reader.open(&source(), &Limits::default(), &mode("drop")).unwrap());
    drop(reader.open(&source(), &Limits::default(), &mode("drop-payload")).unwrap());
    let look = Look { name: "panics.rogue", len: 0, head: b"", tail: b"", is_folder: false, entries: &[] };
    assert_eq!(reader.probe(&look), Score::NO);
    let faults = registry.faults();
    assert_eq!(faults.len(), 3, "{faults:?}");
    faults[..2].iter().for_each(|fault| is_panic(fault, "dropping an open model"));
    is_panic(&faults[2], "probing");
    assert!(registry.faults().is_empty(), "they are told once");
}

#[test]
fn hostile_numbers_end_in_the_hosts_own_errors() {
    for (how, kind) in [
        ("past-end", ErrorKind::Malformed),
        ("overflow", ErrorKind::Malformed),
        ("dtype", ErrorKind::Unsupported),
        ("file", ErrorKind::InvalidArgument),
        ("mapped", ErrorKind::Plugin),
        ("foreign", ErrorKind::Plugin),
        ("many", ErrorKind::LimitExceeded),
    ] {
        let error = describe(how).unwrap_err();
        assert_eq!(error.kind(), kind, "{how}: {error}");
        assert!(
            kind != ErrorKind::Plugin || error.message().starts_with("plugin `rogue` 0.1.0: "),
            "{error}"
        );
    }
    assert_eq!(open("charge").err().unwrap().kind(), ErrorKind::LimitExceeded);
    assert_eq!(describe("").unwrap().tensors.len(), 1);
}

#[test]
fn a_panic_of_the_host_is_not_blamed_on_the_plugin() {
    struct Panics;
    impl Source for Panics {
        fn name(&self, _: FileId) -> String {
            panic!("name")
        }
        fn len(&self, _: FileId) -> Result<u64> {
            panic!("len")
        }
        fn read_at(&self, _: FileId, _: u64, _: &mut [u8]) -> Result<()> {
            panic!("the host's read")
        }
        fn view(&self, _: Extent) -> Result<&[u8]> {
            panic!("view")
        }
        fn sibling(&self, _: &str) -> Result<FileId> {
            panic!("sibling")
        }
        fn entries(&self) -> Result<Vec<String>> {
            panic!("entries")
        }
        fn log(&self, _: LogLevel, _: &str) {
            panic!("log")
        }
    }
    let reader = REGISTRY.format("rogue").unwrap().reader().unwrap();
    let error = reader.open(&Panics, &Limits::default(), &mode("source")).err().unwrap();
    assert_eq!(error.explicit_code(), Some("E_HOST"));
    assert!(error.message().contains("the host's read at "), "{error}");
    // A panic while a message is taken is lost with the message.
    assert!(reader.open(&Panics, &Limits::default(), &mode("log")).is_ok());
}

#[test]
fn eight_threads_panic_and_decode_in_one_object() {
    let model = open("").unwrap();
    let bad = open("decode").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (model, bad) = (&model, &bad);
            scope.spawn(move || {
                for block in 0..200 {
                    let (at, mut out) = (BlockAt { tensor: thread, block }, [0; 8]);
                    model.decode(&0.into(), at, b"x", &mut out).unwrap();
                    assert_eq!(out, [block as u8; 8]);
                    is_panic(&bad.decode(&0.into(), at, b"x", &mut out).unwrap_err(), "decoding a block");
                }
            });
        }
    });
}

#[test]
fn the_process_ends_well_and_stderr_is_clean() {
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "misbehaviour::all_of_it_in_a_process_of_its_own", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
#[ignore = "run by the_process_ends_well_and_stderr_is_clean"]
fn all_of_it_in_a_process_of_its_own() {
    for how in ["open", "open-payload", "drop", "drop-payload", "print", "log"] {
        let _ = open(how);
    }
    let _ = describe("describe");
    assert!(!REGISTRY.faults().is_empty());
}
