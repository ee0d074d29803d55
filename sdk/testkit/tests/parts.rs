//! A model of parts is opened, renumbered and merged.

use apr_sdk::{
    Bytes, DType, Extent, Fact, Limits, Look, MemorySource, ModelSink, OpenModel, Options, PartDecl, Reader,
    Result, Score, Source, TensorDecl, Value,
};
use apr_testkit::read_with_parts;

/// An index that lists `FILE OFFSET LEN NAME` a line; a part is one tensor of all its bytes, named by its first.
struct Sharded;
struct Index(String);
struct Shard(u64);

impl Reader for Sharded {
    fn probe(&self, _: &Look<'_>) -> Score {
        Score::NO
    }

    fn open(&self, source: &dyn Source, _: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        let len = source.len(0)?;
        let text = source.view(Extent::new(0, 0, len))?;
        Ok(if options.is_part() {
            Box::new(Shard(len))
        } else {
            Box::new(Index(String::from_utf8_lossy(text).into_owned()))
        })
    }
}

impl OpenModel for Index {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        sink.foreign_file("sharded", "index", 0)?;
        sink.fact(Fact::Dialect("hf"))?;
        for (number, line) in (0..).zip(self.0.lines()) {
            let words: Vec<_> = line.split(' ').collect();
            let range = (words[1] != "-").then(|| (words[1].parse().unwrap(), words[2].parse().unwrap()));
            let file = source.sibling(words[0])?;
            sink.part(PartDecl { file, range, format: "sharded", options: Options::new() })?;
            if words[3] != "-" {
                sink.mapped(number, words[3])?;
            }
        }
        Ok(())
    }
}

impl OpenModel for Shard {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let name = String::from_utf8_lossy(source.view(Extent::new(0, 0, 1))?).into_owned();
        sink.foreign_file("sharded", "", 1)?;
        sink.foreign(
            "self",
            Value { kind: apr_sdk::ValueType::U8, bytes: Bytes::from(Extent::new(0, 1, 1)) },
        )?;
        // A sibling's bytes keep their file's number in the whole model.
        let other = source.sibling("extra")?;
        sink.asset(&format!("{name}.txt"), Bytes::from(Extent::new(other, 0, 2)))?;
        sink.tensor(TensorDecl::plain(&name, DType::U8, &[self.0], Extent::new(0, 0, self.0)))
    }
}

fn open(index: &str) -> Result<(apr_testkit::Opened, MemorySource)> {
    let source =
        MemorySource::new("index", index).with("one", "a123").with("two", "xxb4yy").with("extra", "hi");
    Ok((read_with_parts(&Sharded, "sharded", &source, &Options::new())?, source))
}

#[test]
fn merges_tensors_files_and_extents() {
    let (opened, source) = open("one - - a\ntwo 2 2 b").unwrap();
    let model = &opened.model;
    assert_eq!(model.tensors.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        [opened.payload(0, &source).unwrap(), opened.payload(1, &source).unwrap()],
        [b"a123".to_vec(), b"b4".to_vec()]
    );
    assert_eq!(opened.stored(&source).unwrap(), [(1, 0, 4), (2, 2, 4)]);
    let files: Vec<_> = model.foreign[0].files.iter().map(|f| (f.name.as_str(), f.n_tensors)).collect();
    assert_eq!(files, [("index", 0), ("one", 1), ("two", 1)]);
    assert_eq!(model.foreign[0].files[2].typed[0].1.bytes, Bytes::Extent(Extent::new(2, 3, 1)));
    assert_eq!(model.assets[1].bytes, Bytes::Extent(Extent::new(3, 0, 2)));
    assert_eq!(model.dialect, "hf");
    assert!(opened.payload(2, &source).is_err());
}

#[test]
fn rejects_names_that_are_twice_missing_or_unmapped() {
    let message = |index: &str| open(index).map(|_| ()).unwrap_err().message().to_owned();
    assert!(message("one - - a\none - - -").contains("does not map"));
    assert!(message("one - - -\none - - -").contains("duplicate tensor name"));
    assert!(message("one - - q\ntwo 2 2 b").contains("does not contain it"));
    assert!(message("gone - - a").contains("does not exist"));
}

#[test]
fn a_fixture_has_the_siblings_that_opening_asks_for() {
    let folder = std::env::temp_dir().join(format!("apr-testkit-parts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("all.index", "one - - a"), ("extra", "hi"), ("one", "a123"), ("unasked", "zzz")] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let text = "id=s\nversion=1\nformats=sharded\nsharded.extensions=index";
    let manifest = apr_sdk::Manifest::parse(text).unwrap().formats.remove(0);
    let found = apr_testkit::Fixture::load(&folder, &manifest, &Sharded).unwrap();
    let names: Vec<_> = found[0].files.iter().map(|f| f.0.as_str()).collect();
    assert_eq!((found.len(), names), (1, vec!["all.index", "extra", "one"]));
    std::fs::remove_dir_all(folder).unwrap();
}
