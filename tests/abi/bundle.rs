//! The plugins of the house: the bundled list is the folder, and a plugin does the same linked in and loaded.

use crate::build::root;
use apr_engine::registry::Registry;
use apr_host::plugins::DiscoverOptions;
use apr_sdk::{
    Bytes, CheckedModel, Encoding, LayoutRequest, LayoutSink, Limits, MemorySource, Model, ModelBuilder,
    Options, PartRequest, Result, Source, Sum,
};
use std::fs;

/// The folders of `plugins/`.
pub fn folders() -> Vec<String> {
    let entries = fs::read_dir(root().join("plugins")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_bundled_list_is_the_plugins_folder() {
    let source = fs::read_to_string(root().join("host/src/bundled_plugins.rs")).unwrap();
    let manifest = fs::read_to_string(root().join("host/Cargo.toml")).unwrap();
    let linked: Vec<_> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("extern crate apr_plugin_")?.strip_suffix(" as _;"))
        .collect();
    let wanted: Vec<_> = folders().iter().map(|name| name.replace('-', "_")).collect();
    assert_eq!(linked, wanted);
    for (name, id) in folders().iter().zip(&wanted) {
        assert!(source.contains(&format!("&apr_plugin_{id}::PLUGIN")), "{name}: not in the list for wasm");
        assert!(manifest.contains(&format!("\"dep:apr-plugin-{name}\"")), "{name}: not in feature `bundled`");
    }
}

/// The plugins as they were built with this test, beside it.
fn loaded() -> Registry {
    let executable = std::env::current_exe().ok();
    let mut registry =
        apr_host::plugins::discover(&DiscoverOptions { executable, ..DiscoverOptions::default() });
    registry.load_all();
    registry
}

#[test]
fn every_plugin_of_the_house_is_found_beside_the_test_and_loads() {
    let registry = loaded();
    for plugin in registry.plugins() {
        assert!(plugin.state.is_ok(), "{:?}: {:?}", plugin.path, plugin.state.as_ref().err());
    }
    let mut ids: Vec<_> =
        registry.plugins().iter().filter_map(|p| p.manifest.as_ref().map(|m| m.id.clone())).collect();
    ids.sort();
    assert_eq!(ids, folders().iter().map(|name| name.replace('-', "_")).collect::<Vec<_>>());
}

/// What a reader makes of a file, in words.
fn told(registry: &Registry, format: &str, source: &MemorySource) -> String {
    let read = || -> Result<Model> {
        let (limits, file_len) = (Limits::default(), |file| source.len(file));
        let reader = registry.format(format)?.reader()?;
        let model = reader.open(source, &limits, &Options::new().with(Options::PART, "true"))?;
        let mut builder = ModelBuilder::new(format, &limits, &file_len);
        model.describe(source, &mut builder)?;
        Ok(builder.finish())
    };
    format!("{:?} {:?}", read(), source.logged())
}

/// What a writer makes of a model, in words.
fn laid_out(registry: &Registry, format: &str, model: &Model) -> String {
    let written = registry.format(format).and_then(|format| {
        let (writer, mut sink) = (format.writer()?, Pushes(Vec::new(), 0));
        let model = CheckedModel::new(model.clone(), &format.manifest.carries);
        let model = model.map_err(|refusal| refusal.error(&format.manifest.name))?;
        writer.layout(&model, &LayoutRequest::file("m.bin"), &mut sink).map(|()| sink.0)
    });
    format!("{written:?}")
}

/// Writes down what a writer pushes.
struct Pushes(Vec<String>, u64);

impl Pushes {
    fn push(&mut self, what: String, len: u64) -> Result<()> {
        self.1 += len;
        self.0.push(what);
        Ok(())
    }
}

impl LayoutSink for Pushes {
    fn file(&mut self, name: &str) -> Result<()> {
        self.1 = 0;
        self.push(format!("file {name}"), 0)
    }
    fn entry(&mut self) -> Result<()> {
        self.push("entry".into(), 0)
    }
    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        self.push(format!("inline {bytes:?}"), bytes.len() as u64)
    }
    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        self.push(format!("copy {bytes:?}"), bytes.len())
    }
    fn payload(&mut self, tensor: u64, align: u64, encoding: Encoding) -> Result<()> {
        self.1 = self.1.next_multiple_of(align.max(1));
        self.push(format!("payload {tensor} {align} {encoding:?}"), 64)
    }
    fn pad_to(&mut self, n: u64) -> Result<()> {
        self.1 = self.1.next_multiple_of(n.max(1));
        self.push(format!("pad {n}"), 0)
    }
    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        self.push(format!("hole {id} {len}"), len)
    }
    fn part(&mut self, part: PartRequest<'_>) -> Result<()> {
        self.push(format!("{part:?}"), 0)
    }
    fn digest(&mut self, sum: Sum) -> Result<()> {
        self.push(format!("{sum:?}"), 0)
    }
    fn position(&self) -> Option<u64> {
        Some(self.1)
    }
    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        let zeros = vec![0; usize::try_from(bytes.len()).unwrap()];
        Ok(bytes.inline().map_or(Bytes::from(zeros), Bytes::from))
    }
    fn note(&mut self, note: &str) {
        self.0.push(note.into());
    }
}

#[test]
fn a_plugin_says_the_same_linked_in_and_loaded() {
    let loaded = loaded();
    let mut linked = Registry::new();
    for decl in [
        &apr_plugin_apr::PLUGIN,
        &apr_plugin_gguf::PLUGIN,
        &apr_plugin_numpy::PLUGIN,
        &apr_plugin_safetensors::PLUGIN,
    ] {
        apr_host::plugins::add_bundled(&mut linked, decl);
    }
    let (mut good, mut bad) = (0, 0);
    for folder in folders() {
        let Ok(files) = fs::read_dir(root().join("plugins").join(folder).join("tests/data")) else {
            continue;
        };
        for path in files.flatten().map(|file| file.path()).filter(|path| path.is_file()) {
            let source = || MemorySource::new("model", fs::read(&path).unwrap());
            for format in linked.formats().iter().filter(|format| format.manifest.reads) {
                let told_linked = told(&linked, format.id(), &source());
                assert_eq!(told_linked, told(&loaded, format.id(), &source()), "{}", path.display());
                if told_linked.starts_with("Ok") { good += 1 } else { bad += 1 }
            }
            let source = source();
            let (limits, file_len) = (Limits::default(), |file| source.len(file));
            for format in linked.formats() {
                let opened = format.reader().and_then(|r| r.open(&source, &limits, &Options::new()));
                let Ok(opened) = opened else { continue };
                let mut builder = ModelBuilder::new(format.id(), &limits, &file_len);
                if opened.describe(&source, &mut builder).is_err() {
                    continue;
                }
                let model = builder.finish();
                for target in linked.formats().iter().filter(|format| format.manifest.writes) {
                    let (one, other) =
                        (laid_out(&linked, target.id(), &model), laid_out(&loaded, target.id(), &model));
                    assert_eq!(one, other, "{} to {}", path.display(), target.id());
                }
            }
        }
    }
    assert!(good > 10 && bad > 10, "{good} files were read, {bad} refused: too few to say anything");
}
