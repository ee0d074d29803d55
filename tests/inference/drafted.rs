//! Models of an architecture that no table has, computed by its draft: names and shapes fit, and a guess is wrong.

use crate::golden::{Case, cases};
use apr_tests::{Scratch, program};
use serde_json::{Map, Value as Json};
use std::fs;
use std::process::Command;

/// A golden model whose configuration states something in words that no table knows.
struct Unknown {
    scratch: Scratch,
    case: Case,
}

impl Unknown {
    /// The folder `acme`: `model` as another architecture, with keys of its configuration under other names.
    fn new(model: &str, renamed: &[(&str, &str)]) -> Unknown {
        let (scratch, case) = (Scratch::new(), cases(model).remove(0));
        assert!(case.name == "plain" && !case.hidden);
        let folder = scratch.at("acme");
        case.write_to(&folder);
        let path = folder.join("config.json");
        let mut config: Map<String, Json> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config.insert("model_type".to_owned(), "acme".into());
        config.insert("architectures".to_owned(), vec!["AcmeForCausalLM"].into());
        for (from, to) in renamed {
            let value = config.remove(*from).unwrap();
            config.insert((*to).to_owned(), value);
        }
        fs::write(&path, Json::Object(config).to_string()).unwrap();
        let unknown = Unknown { scratch, case };
        unknown.write_logits();
        fs::write(unknown.scratch.at("mine.toml"), unknown.apr(&["arch", "draft", "acme"]).1).unwrap();
        unknown
    }

    /// The logits after the last two tokens as NumPy saves them, and the tokens as a list of Python.
    fn write_logits(&self) {
        let (Case { want, width, ids, .. }, count) = (&self.case, self.case.positions.len());
        assert_eq!(self.case.positions[count - 2..], [ids.len() - 2, ids.len() - 1]);
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, {width}), }}");
        let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        file.extend(format!("{header:117}\n").bytes());
        file.extend(want[(count - 2) * width..].iter().flat_map(|logit| logit.to_le_bytes()));
        fs::write(self.scratch.at("logits.npy"), file).unwrap();
        fs::write(self.scratch.at("ids.txt"), format!("{ids:?}\n")).unwrap();
    }

    fn apr(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.scratch.at("")).env_clear().env("CUDA_VISIBLE_DEVICES", "");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// `apr arch check mine.toml acme`, with the logits.
    fn check(&self, more: &[&str]) -> (i32, String, String) {
        let args = ["arch", "check", "mine.toml", "acme", "--logits", "logits.npy", "--tokens", "ids.txt"];
        self.apr(&[&args, more].concat())
    }

    /// The author completes the draft: `from` becomes `to`, and all marks go.
    fn complete(&self, from: &str, to: &str) {
        let path = self.scratch.at("mine.toml");
        let draft = fs::read_to_string(&path).unwrap();
        assert!(draft.contains(from), "{from}: {draft}");
        let lines = draft.replace(from, to);
        let kept = lines.lines().filter(|line| !line.starts_with("# ?") && *line != "draft = true");
        fs::write(&path, kept.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
}

/// The figure `relative` of a comparison.
fn relative(stdout: &str) -> f64 {
    let json: Json = serde_json::from_str(stdout).unwrap();
    json["logits"]["relative"].as_f64().unwrap()
}

#[test]
fn a_wrong_guess_that_fits_every_name_is_found_by_logits() {
    // Each guess is one that names and shapes do not show, with what its author makes of it.
    let theta = ("[config]\n", "[config]\nrope_theta = { type = \"float\", hf = [\"acme_base\"] }\n");
    let window = ("[config]\n", "[config]\nsliding_window = { type = \"int\", hf = [\"acme_window\"] }\n");
    for (model, renamed, (from, to)) in [
        ("llama3", [("rope_theta", "acme_base")], theta),
        ("starcoder2", [("sliding_window", "acme_window")], window),
    ] {
        let acme = Unknown::new(model, &renamed);
        // Without logits nothing but the mark shows it.
        let (code, told, error) = acme.apr(&["arch", "check", "mine.toml", "acme"]);
        assert!(code == 5 && error.contains("the table is a draft"), "{model}: {told}{error}");
        let (code, told, error) = acme.check(&[]);
        assert!(code == 5 && error.contains("does not compute the same logits"), "{model}: {told}{error}");
        let apart = relative(&acme.check(&["--json"]).1);
        println!("{model}, guessed: {apart:.1e}");
        assert!(apart > 0.01, "{model}: {apart}");
        // Marks alone may go: the table is wrong all the same.
        acme.complete("[config]\n", "[config]\n");
        let (code, told, error) = acme.check(&[]);
        assert!(code == 5 && error.contains("does not compute the same logits"), "{model}: {told}{error}");
        acme.complete(from, to);
        let (code, told, error) = acme.check(&[]);
        assert!(code == 0 && told.ends_with("sound\n"), "{model}: {told}{error}");
        let apart = relative(&acme.check(&["--json"]).1);
        println!("{model}: {apart:.1e}");
        assert!(apart < 1e-4, "{model}: {apart}");
    }
}
