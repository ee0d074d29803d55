//! A model of one file with others beside it: all of them appear together, or none does. With a toy format whose payload
//! is in a second file.

use apr_host::convert::{ConvertOptions, convert, plan};
use apr_host::host::Host;
use apr_sdk::{
    CheckedModel, DType, Encoding, ErrorKind, Extent, LayoutRequest, LayoutSink, Limits, Look, ModelSink,
    OpenModel, Options, PartRequest, PluginDecl, Reader, Result, Score, Source, TensorDecl, Writer,
};
use apr_tests::{Scratch, must, options};
use std::fs;

static PAIR: PluginDecl = PluginDecl {
    manifest: "id=pair\nversion=1\nformats=pair\npair.roles=read write\npair.extensions=pair\n\
               pair.option.suffix=write text .data x\n",
    reader: |_| Some(Box::new(Pair)),
    writer: |_| Some(Box::new(Pair)),
    ..PluginDecl::EMPTY
};

/// Suffixes that make a part of the payload, and of which tensors; there is one.
const PARTS: [(&str, &[u64]); 2] = [(".twice", &[0, 0]), (".other", &[1])];

/// `pair` and the name of the file with 8 bytes of payload.
struct Pair;

impl Reader for Pair {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.head_is(b"pair") { Score::MAGIC } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, _: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        let mut name = vec![0; usize::try_from(source.len(0)? - 4).unwrap()];
        source.read_at(0, 4, &mut name)?;
        Ok(Box::new(Open(String::from_utf8(name).unwrap())))
    }
}

struct Open(String);

impl OpenModel for Open {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let file = source.sibling(&self.0)?;
        sink.tensor(TensorDecl::plain("t", DType::U8, &[8], Extent::new(file, 0, 8)))
    }
}

impl Writer for Pair {
    fn layout(&self, _: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let data = format!("{}{}", request.file_name, request.options.get("suffix").unwrap_or_default());
        sink.file(&request.file_name)?;
        sink.inline(format!("pair{data}").as_bytes())?;
        if let Some(tensors) = PARTS.iter().find(|(suffix, _)| data.ends_with(suffix)) {
            let (stem, options) = (request.stem.as_str(), Options::new());
            return sink.part(PartRequest { stem, format: "safetensors", tensors: Some(tensors.1), options });
        }
        sink.file(&data)?;
        sink.payload(0, 1, Encoding::Raw)
    }
}

fn pair_host() -> Host {
    let mut host = apr_tests::host();
    apr_host::plugins::add_bundled(&mut host.registry, &PAIR);
    host
}

fn job(scratch: &Scratch) -> ConvertOptions {
    fs::write(scratch.at("in.pair"), "pairin.data").unwrap();
    fs::write(scratch.at("in.data"), "12345678").unwrap();
    options(&scratch.at("in.pair"), &scratch.at("out.pair"))
}

#[test]
fn a_file_and_its_companion_appear_together() {
    let (scratch, host) = (Scratch::new(), pair_host());
    let job = job(&scratch);
    assert_eq!(plan(&host, &job).unwrap().files.len(), 2);
    let done = must(&host, &job);
    assert_eq!(done.files.len(), 2);
    assert!(done.files[0].path.ends_with("out.pair") && done.files[1].path.ends_with("out.pair.data"));
    assert_eq!(scratch.names(), ["in.data", "in.pair", "out.pair", "out.pair.data"]);
    assert_eq!(fs::read(scratch.at("out.pair.data")).unwrap(), b"12345678");
    // And back into one file of another format.
    must(&host, &options(&scratch.at("out.pair"), &scratch.at("back.apr")));
}

#[test]
fn neither_is_replaced_without_force() {
    let (scratch, host) = (Scratch::new(), pair_host());
    let mut job = job(&scratch);
    for name in ["out.pair", "out.pair.data"] {
        fs::write(scratch.at(name), "mine").unwrap();
        let error = convert(&host, &job).unwrap_err();
        assert_eq!((error.kind(), error.stable_code()), (ErrorKind::Io, Some("E007")), "{error}");
        assert!(error.file().is_some_and(|file| file.ends_with(name)), "{error}");
        assert_eq!(scratch.names(), ["in.data", "in.pair", name]);
        fs::remove_file(scratch.at(name)).unwrap();
    }
    fs::write(scratch.at("out.pair.data"), "mine").unwrap();
    job.force = true;
    must(&host, &job);
    assert_eq!(fs::read(scratch.at("out.pair.data")).unwrap(), b"12345678");
}

#[test]
fn a_part_has_tensors_of_the_model_each_once() {
    let (scratch, host) = (Scratch::new(), pair_host());
    for (suffix, said) in [
        (".twice", "the writer put tensor 0 into a part twice"),
        (".other", "the writer put tensor 1 into a part"),
    ] {
        let mut job = job(&scratch);
        job.options.push((None, "suffix".to_owned(), suffix.to_owned()));
        let error = convert(&host, &job).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plugin);
        assert!(error.message().contains(said), "{error}");
    }
}

#[test]
fn a_companion_must_be_named_after_its_file() {
    let (scratch, host) = (Scratch::new(), pair_host());
    for suffix in ["x", "/x", "./x", "-data"] {
        let mut job = job(&scratch);
        job.options.push((None, "suffix".to_owned(), suffix.to_owned()));
        let error = convert(&host, &job).unwrap_err();
        let refused = [ErrorKind::InvalidArgument, ErrorKind::Unsupported];
        assert!(refused.contains(&error.kind()), "{suffix}: {error}");
        assert_eq!(scratch.names(), ["in.data", "in.pair"]);
    }
}

#[test]
fn a_companion_that_is_an_input_is_refused() {
    let (scratch, host) = (Scratch::new(), pair_host());
    let mut job = job(&scratch);
    fs::hard_link(scratch.at("in.data"), scratch.at("out.pair.data")).unwrap();
    job.force = true;
    assert_eq!(convert(&host, &job).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(fs::read(scratch.at("in.data")).unwrap(), b"12345678");
}
