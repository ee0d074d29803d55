//! The models that are converted: every fixture of a plugin that opens, the seeded model of every golden manifest, GGUF files
//! of these, other files made of them, a Whisper, a packed Llama, and the larger models of `large.rs` with their GGUF files.

use crate::{large, packed};
use apr_engine::open::{OpenOptions, open};
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::ConvertOptions;
use apr_host::host::Host;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, fixtures, must, names_in, root, whisper};
use std::fs;
use std::path::{Path, PathBuf};

/// Models that are made of a golden one, so that there are quantized, canonical and pickled ones whose architecture is
/// known: the golden model, the name that says the format, and the recipe.
const MADE: &[(&str, &str, Option<&str>)] = &[
    ("llama", "llama.apr", None),
    ("llama", "llama.pt", None),
    ("llama", "llama-Q4_K_M.gguf", Some("Q4_K_M")),
    ("llama", "llama-Q8_0.gguf", Some("Q8_0")),
    ("llama", "llama-Q4_K_M.apr", Some("Q4_K_M")),
    ("llama", "llama-int8.apr", Some("int8")),
    ("llama", "llama-int4.apr", Some("int4")),
    ("gpt2", "gpt2.apr", None),
    ("gpt2", "gpt2-Q8_0.gguf", Some("Q8_0")),
    ("mixtral", "mixtral-Q8_0.gguf", Some("Q8_0")),
    ("deepseek2", "deepseek2.apr", None),
    ("bert", "bert.apr", None),
];

/// A model that is converted.
pub struct Input {
    /// Its name in the list.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Whether it has tensors of several tiles.
    pub is_large: bool,
    /// Whether it is a fixture or of a golden model: there are many.
    pub is_one_of_many: bool,
    /// The name of its first tensor; empty if it has none.
    pub first: String,
    /// Bytes of all its tensors.
    pub payload: u64,
}

/// Every model that is converted.
pub struct Inputs {
    /// By kind, then by name.
    pub all: Vec<Input>,
    /// Where those lie that are not checked in.
    pub scratch: Scratch,
}

impl Inputs {
    /// Finds and makes all of them.
    pub fn find(host: &Host) -> Inputs {
        let mut inputs = Inputs { all: Vec::new(), scratch: Scratch::in_memory() };
        for plugin in names_in(&root().join("plugins")) {
            let folder = fixtures(&plugin);
            if folder.is_dir() {
                inputs.walk(host, &plugin, &folder);
            }
        }
        assert!(inputs.all.len() > 100, "the walk found {} fixtures", inputs.all.len());
        let goldens = root().join("tests/golden");
        for golden in names_in(&goldens) {
            let (folder, name) = (goldens.join(&golden), format!("golden/{golden}"));
            if folder.join("golden.json").is_file() && !apr_tests::is_of_families(&golden) {
                inputs.seed(host, &name, &Checkpoint::golden(&folder).unwrap());
                inputs.make(host, &name, &format!("{name}.gguf"), None);
            }
        }
        for (golden, name, recipe) in MADE {
            inputs.make(host, &format!("golden/{golden}"), &format!("made/{name}"), *recipe);
        }
        // There is no GGUF file of these.
        inputs.seed(host, "seeded/whisper", &whisper::checkpoint("model."));
        inputs.seed(host, "seeded/gptq", &packed::gptq());
        for (name, model) in large::models() {
            let name = format!("large/{name}");
            inputs.seed(host, &name, &model);
            inputs.make(host, &name, &format!("{name}.gguf"), None);
        }
        inputs
    }

    /// Takes the model that lies at `path`, if one does, else those in the folder that it is.
    fn walk(&mut self, host: &Host, name: &str, path: &Path) {
        if !self.add(host, name, path) && path.is_dir() {
            for entry in names_in(path) {
                self.walk(host, &format!("{name}/{entry}"), &path.join(&entry));
            }
        }
    }

    /// Writes a seeded model.
    fn seed(&mut self, host: &Host, name: &str, model: &Checkpoint) {
        // Converters take the model's name from the folder's.
        let folder = self.scratch.at(name).join(&model.name);
        model.write_to(&folder).unwrap();
        assert!(self.add(host, name, &folder), "{name} does not open");
    }

    /// Makes a model of another.
    fn make(&mut self, host: &Host, from: &str, name: &str, recipe: Option<&str>) {
        let input = self.all.iter().find(|input| input.name == from).unwrap().path.clone();
        let output = self.scratch.at(name);
        fs::create_dir_all(output.parent().unwrap()).unwrap();
        let quantization = Quantization { recipe: recipe.map(str::to_owned), ..Quantization::default() };
        let options =
            ConvertOptions { input, output: Some(output.clone()), quantization, ..ConvertOptions::default() };
        must(host, &options);
        assert!(self.add(host, name, &output), "{name} does not open");
    }

    /// Adds what lies there, if it is a model.
    fn add(&mut self, host: &Host, name: &str, path: &Path) -> bool {
        let Ok(opened) = open(host, path, &OpenOptions::default()) else { return false };
        assert!(!name.contains([' ', '=']), "{name}: the list has no place for such a name");
        let tensors = &opened.model.tensors;
        self.all.push(Input {
            name: name.to_owned(),
            path: path.to_owned(),
            is_large: name.starts_with("large/"),
            is_one_of_many: ["made/", "seeded/"].iter().all(|kind| !name.starts_with(kind)),
            first: tensors.first().map_or(String::new(), |tensor| tensor.name.clone()),
            payload: tensors.iter().map(|tensor| tensor.payload_len().unwrap()).sum(),
        });
        true
    }
}
