//! What a format declares beyond reading and writing: reports of files that need not load, and restrictions that hold
//! for every input.

use apr_engine::open::reports::report;
use apr_engine::open::{OpenOptions, open};
use apr_host::host::Host;
use apr_sdk::{
    Error, ErrorKind, Limits, Look, ModelSink, OpenModel, Options, PartDecl, PluginDecl, Reader, Report,
    Result, Score, Source,
};
use apr_tests::{Scratch, fixtures_with};
use std::fs;

static TOLD: PluginDecl = PluginDecl {
    manifest: "id=told\nversion=1\nformats=told outer\ntold.name=Told\ntold.roles=read\ntold.extensions=told\n\
               told.report.scan=What it asks for\ntold.report.odd=What is odd\n\
               told.option.safe=read refuse - Refuse what asks for things\nouter.roles=read\n",
    reader: |id| Some(if id == "told" { Box::new(Told) } else { Box::new(Outer) }),
    ..PluginDecl::EMPTY
};

struct Told;

impl Reader for Told {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.head_is(b"told") { Score::MAGIC } else { Score::NO }
    }

    fn open(&self, _: &dyn Source, _: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        Ok(Box::new(Empty))
    }

    fn report(&self, id: &str, source: &dyn Source, _: &Limits, options: &Options) -> Result<Report> {
        let json = if id == "odd" { "[]" } else { "{\"schema\":\"told.scan/1\",\"n\":1}" };
        assert!(!options.flag("safe"));
        Ok(Report {
            text: format!("{} bytes", source.len(0)?),
            json: json.to_owned(),
            passed: source.len(0)? < 9,
        })
    }
}

struct Empty;

impl OpenModel for Empty {
    fn describe(&self, _: &dyn Source, _: &mut dyn ModelSink) -> Result<()> {
        Ok(())
    }
}

/// A format whose one part is a `told` file.
struct Outer;

impl Reader for Outer {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.head_is(b"outer") { Score::MAGIC } else { Score::NO }
    }

    fn open(&self, _: &dyn Source, _: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        Ok(Box::new(Outer))
    }
}

impl OpenModel for Outer {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let file = source.sibling("in.told")?;
        sink.part(PartDecl { file, range: None, format: "told", options: Options::new() })
    }
}

fn told_host() -> Host {
    let mut host = apr_tests::host();
    apr_host::plugins::add_bundled(&mut host.registry, &TOLD);
    host
}

fn files(scratch: &Scratch) {
    for (name, bytes) in
        [("in.told", "told"), ("long.told", "told to ask"), ("x.outer", "outer"), ("x.txt", "a\n")]
    {
        fs::write(scratch.at(name), bytes).unwrap();
    }
}

fn with(name: &str, value: &str) -> OpenOptions {
    OpenOptions { options: vec![(None, name.to_owned(), value.to_owned())], ..OpenOptions::default() }
}

fn wrong<T>(result: Result<T>) -> Error {
    result.err().unwrap()
}

#[test]
fn a_declared_report_is_made_with_a_verdict() {
    let (scratch, host) = (Scratch::new(), told_host());
    files(&scratch);
    let made = |name: &str, id: &str| report(&host, &scratch.at(name), id, &OpenOptions::default());
    let good = made("in.told", "scan").unwrap();
    assert_eq!((good.text.as_str(), good.passed, good.format.as_str()), ("4 bytes", true, "told"));
    assert_eq!(good.json["schema"], "told.scan/1");
    assert!(!made("long.told", "scan").unwrap().passed);
    assert_eq!(wrong(made("in.told", "odd")).kind(), ErrorKind::Plugin);
    let none = wrong(made("in.told", "none"));
    assert_eq!((none.kind(), none.hint_text()), (ErrorKind::Unsupported, Some("use one of scan, odd")));
    assert_eq!(wrong(made("nowhere", "scan")).kind(), ErrorKind::NotFound);
}

#[test]
fn a_file_that_no_format_knows_goes_to_the_one_that_has_the_report() {
    let (scratch, mut host) = (Scratch::new(), apr_tests::host());
    files(&scratch);
    let path = scratch.at("x.txt");
    let unknown = wrong(report(&host, &path, "odd", &OpenOptions::default()));
    assert_eq!(unknown.explicit_code(), Some("E001"), "{unknown}");
    apr_host::plugins::add_bundled(&mut host.registry, &TOLD);
    assert_eq!(wrong(report(&host, &path, "odd", &OpenOptions::default())).kind(), ErrorKind::Plugin);
}

#[test]
fn a_restriction_is_accepted_for_every_input_and_refuses_its_own_format() {
    let (scratch, host) = (Scratch::new(), told_host());
    files(&scratch);
    for name in ["in.told", "x.outer"] {
        let path = scratch.at(name);
        assert!(open(&host, &path, &OpenOptions::default()).is_ok());
        assert!(open(&host, &path, &with("safe", "false")).is_ok());
        let error = wrong(open(&host, &path, &with("safe", "true")));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("Told, which --safe refuses"), "{error}");
    }
    assert_eq!(
        wrong(report(&host, &scratch.at("in.told"), "scan", &with("safe", "true"))).kind(),
        ErrorKind::Unsupported
    );
    let other = fixtures_with("gguf", "gguf").remove(0);
    assert!(open(&host, &other, &with("safe", "true")).is_ok());
    let mut job = apr_tests::options(&other, &scratch.at("out.apr"));
    job.options = with("safe", "true").options;
    apr_tests::must(&host, &job);
    job.options = with("sane", "true").options;
    assert_eq!(wrong(apr_host::convert::convert(&host, &job)).kind(), ErrorKind::InvalidArgument);
}
