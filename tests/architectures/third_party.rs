//! A stranger's architecture: one TOML file in a plugin folder, found, checked and used without a line of code.

use crate::models::{goldens, name, opened, payload, sha256};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, program};
use serde_json::{Value as Json, json};
use std::fs;
use std::process::{Command, Output};

/// Acme's models are Llamas of other names, whose feed forward's two inputs lie in one tensor.
const ACME: &str = r#"
id = "acme"
name = "Acme"
base = "llama"
rope = "norm"
sources = ["this test"]
remove = ["model.layers.{layer}.mlp.gate_proj.weight", "model.layers.{layer}.mlp.up_proj.weight"]

[dialect.hf]
detect = [{ model_type = "acme" }]

[[dialect.hf.key]]
key = "architectures"
const = ["AcmeForCausalLM"]

[[dialect.hf.key]]
key = "model_type"
const = "acme"

[dialect.gguf]
arch = "llama"
detect = [{ "general.architecture" = "llama", "acme.version" = "*" }]

[config]
acme_version = "int"

[[dialect.gguf.key]]
key = "acme.version"
type = "u32"
value = "acme_version"

[[tensor]]
role = "feed_forward.gate"
name = "model.layers.{layer}.feed.opens.weight"
shape = ["intermediate_size", "hidden_size"]
gguf = "blk.{layer}.ffn_gate.weight"

[[tensor]]
role = "feed_forward.up"
name = "model.layers.{layer}.feed.lifts.weight"
shape = ["intermediate_size", "hidden_size"]
gguf = "blk.{layer}.ffn_up.weight"
"#;

const MAPPING: &str = r#"
"model.layers.{layer}.mlp.gate_proj.weight" = "model.layers.{layer}.feed.opens.weight"
"model.layers.{layer}.mlp.up_proj.weight" = "model.layers.{layer}.feed.lifts.weight"
"#;

struct User {
    scratch: Scratch,
}

impl User {
    fn new() -> User {
        let user = User { scratch: Scratch::new() };
        fs::create_dir_all(user.scratch.at("data/apr/plugins")).unwrap();
        user
    }

    fn apr(&self, args: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.scratch.at("")).env_clear();
        let (home, data) = (self.scratch.at("home"), self.scratch.at("data"));
        command.env("HOME", home).env("XDG_DATA_HOME", data).output().unwrap()
    }

    fn must(&self, args: &[&str]) -> String {
        let output = self.apr(args);
        assert!(output.status.success(), "apr {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Code and stderr of what must not work.
    fn refused(&self, args: &[&str]) -> (i32, String) {
        let output = self.apr(args);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Acme's folder: the golden Llama under Acme's names.
    fn acme(&self) {
        let golden = goldens().into_iter().find(|path| name(path) == "llama").unwrap();
        let llama = self.scratch.at("llama");
        Checkpoint::golden(&golden).unwrap().write_to(&llama).unwrap();
        let acme = self.scratch.at("acme");
        fs::create_dir_all(&acme).unwrap();
        for entry in fs::read_dir(&llama).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, acme.join(path.file_name().unwrap())).unwrap();
        }
        let mut config: Json = serde_json::from_slice(&fs::read(llama.join("config.json")).unwrap()).unwrap();
        config["model_type"] = "acme".into();
        config["architectures"] = serde_json::json!(["AcmeForCausalLM"]);
        config["acme_version"] = 7.into();
        fs::write(acme.join("config.json"), config.to_string()).unwrap();
        fs::write(self.scratch.at("names.toml"), MAPPING).unwrap();
        let (from, to) = ("llama/model.safetensors", "acme/model.safetensors");
        let args =
            ["convert", from, to, "--bare", "--force", "--arch", "none", "--tensor-mapping", "names.toml"];
        self.must(&args);
    }
}

#[test]
fn a_toml_file_in_a_plugin_folder_is_an_architecture() {
    let user = User::new();
    user.acme();
    // Without it: the nearest is named, and what begins a table.
    let (code, told) = user.refused(&["convert", "acme", "acme.gguf"]);
    assert_eq!(code, 4, "{told}");
    let same = "names, but names alone do not determine the computation: pass --arch llama only if this \
                model computes the same";
    for wanted in ["model_type \"acme\"", same, "of its 21 names", "apr arch draft", "--arch none"] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    assert_eq!(user.refused(&["import", "acme"]).0, 4);

    let table = user.scratch.at("data/apr/plugins/acme.toml");
    // One that does not load is meant all the same, and says where it is wrong.
    fs::write(&table, format!("{ACME}\n[[tensor]]\nname = \"odd\"\nsize = [1]\n")).unwrap();
    let (code, told) = user.refused(&["convert", "acme", "acme.gguf"]);
    assert!(
        code == 2 && told.contains("architecture table `acme`, line ") && told.contains("`size`"),
        "{told}"
    );
    fs::write(&table, ACME).unwrap();
    assert!(user.must(&["arch", "list"]).contains("Acme"));
    let told = user.must(&["arch", "check", "acme", "acme"]);
    assert!(told.contains("21 tensors in hf, 21 in gguf, and back"), "{told}");
    user.must(&["convert", "acme", "acme.gguf"]);
    user.must(&["convert", "acme.gguf", "back", "--to", "hf"]);
    user.must(&["import", "acme", "-o", "acme.apr"]);
    user.must(&["convert", "acme.apr", "again.gguf"]);

    // The same tensors as the Llama that it was made of, and one key more.
    let golden = goldens().into_iter().find(|path| name(path) == "llama").unwrap();
    let golden: Json = serde_json::from_slice(&fs::read(golden.join("golden.json")).unwrap()).unwrap();
    for file in ["acme.gguf", "again.gguf"] {
        let model = opened(&host(), &user.scratch.at(file));
        assert_eq!(model.stated("acme.version").and_then(|value| value.as_u32()), Some(7), "{file}");
        for tensor in golden["tensors"].as_array().unwrap() {
            let have = model.model.tensors.iter().find(|t| t.name == tensor["name"].as_str().unwrap());
            let have = have.unwrap_or_else(|| panic!("{file} lacks {}", tensor["name"]));
            assert_eq!(sha256(&payload(&model, have)), tensor["sha256"].as_str().unwrap(), "{}", have.name);
        }
    }
    let config: Json =
        serde_json::from_slice(&fs::read(user.scratch.at("back/config.json")).unwrap()).unwrap();
    assert_eq!((&config["model_type"], &config["acme_version"]), (&"acme".into(), &7.into()));
    let told = user.must(&["diff", "acme/model.safetensors", "back", "--bare", "--tolerance", "0", "--json"]);
    let told: Json = serde_json::from_str(&told).unwrap();
    assert_eq!(told["same"], true, "{told}");
}

#[test]
fn a_wrong_table_hides_no_other_and_is_told() {
    let user = User::new();
    user.acme();
    let plugins = user.scratch.at("data/apr/plugins");
    fs::write(plugins.join("acme.toml"), ACME).unwrap();
    let wrong = "id = \"broken\"\nbase = \"llama\"\n[[tensor]]\nname = \"a.{\"\n";
    fs::write(plugins.join("broken.toml"), wrong).unwrap();
    user.must(&["convert", "acme", "acme.gguf"]);
    let (code, told) = user.refused(&["convert", "acme", "other.gguf", "--arch", "broken"]);
    assert!(code == 2 && told.contains("an unclosed"), "{code}: {told}");
    let (code, told) = user.refused(&["arch", "check", "broken"]);
    assert!(code == 2 && told.contains("an unclosed"), "{code}: {told}");
}

#[test]
fn what_is_wrong_with_a_table_is_found_before_a_model_is() {
    let user = User::new();
    user.acme();
    for (from, to, wanted) in [
        ("shape = [\"intermediate_size\"", "shape = [\"intermediate_sice\"", "`intermediate_sice`"),
        ("value = \"acme_version\"", "value = \"acme_verzion\"", "`acme_verzion`"),
        ("ffn_up.weight", "ffn_gate.weight", "names both"),
    ] {
        assert!(ACME.contains(from));
        fs::write(user.scratch.at("mine.toml"), ACME.replace(from, to)).unwrap();
        let output = user.apr(&["arch", "check", "mine.toml"]);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(5), "{told}");
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    // Sound, and of another model.
    fs::write(user.scratch.at("mine.toml"), ACME).unwrap();
    user.must(&["arch", "check", "mine.toml"]);
    let output = user.apr(&["arch", "check", "mine.toml", "llama"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(5) && told.contains("mlp.gate_proj"), "{told}");
}

#[test]
fn two_tensors_of_one_name_are_the_tables_fault_in_a_plan_and_in_a_run() {
    let user = User::new();
    user.acme();
    let table = ACME.replace("ffn_up.weight", "ffn_gate.weight");
    fs::write(user.scratch.at("data/apr/plugins/acme.toml"), table).unwrap();
    let plan = user.refused(&["convert", "acme", "acme.gguf", "--plan"]);
    let (code, told) = user.refused(&["convert", "acme", "acme.gguf"]);
    assert_eq!((code, &told), (4, &plan.1), "the plan says otherwise");
    let wanted =
        ["`acme`", "feed.opens.weight", "feed.lifts.weight", "blk.0.ffn_gate.weight", "apr arch check"];
    for wanted in wanted {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    assert!(!user.scratch.at("acme.gguf").exists());
}

/// A draft of which every guess is right, without the mark.
fn completed(draft: &str) -> String {
    assert!(draft.contains("\ndraft = true\n"), "{draft}");
    draft.replace("\ndraft = true\n", "\n")
}

#[test]
fn a_draft_fits_the_model_it_was_made_of() {
    let (user, mut unfit) = (User::new(), Vec::new());
    // Each takes two runs of the program, which read every table: a fifth of the many that are like others, and the rest.
    let all = goldens().into_iter().enumerate();
    let some = all.filter(|(n, golden)| n % 5 == 0 || golden.join("logits.json").is_file());
    for (_, golden) in some {
        let id = name(&golden);
        Checkpoint::golden(&golden).unwrap().write_to(&user.scratch.at(id)).unwrap();
        let draft = user.must(&["arch", "draft", id]);
        fs::write(user.scratch.at("draft.toml"), &draft).unwrap();
        if draft.contains("# ? This table does not fit yet: ") {
            // The nearest by names computes something else, or has layers of another kind, which names do not show.
            let (code, told) = user.refused(&["arch", "check", "draft.toml", id]);
            assert!(code == 5 && told.contains("the table is invalid"), "{code}: {told}");
            unfit.push(id.to_owned());
            continue;
        }
        let (code, told) = user.refused(&["arch", "check", "draft.toml", id]);
        assert!(code == 5 && told.contains("the table is a draft"), "{code}: {told}");
        fs::write(user.scratch.at("draft.toml"), completed(&draft)).unwrap();
        user.must(&["arch", "check", "draft.toml", id]);
    }
    // Of these the draft says itself that it does not fit yet; `BLESS=1` writes them.
    let listed = serde_json::to_string_pretty(&unfit).unwrap() + "\n";
    let at = apr_tests::root().join("tests/architectures/unfit.json");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&at, &listed).unwrap();
    }
    assert_eq!(listed, fs::read_to_string(&at).unwrap_or_default());
    user.acme();
    let draft = user.must(&["arch", "draft", "acme"]);
    for wanted in
        ["id = \"acme\"", "base = \"llama\"", "acme_version", "model.layers.{layer}.feed.lifts.weight"]
    {
        assert!(draft.contains(wanted), "{wanted}: {draft}");
    }
}

#[test]
fn a_draft_that_leaves_a_multiplier_unused_is_told_and_gives_no_model() {
    let user = User::new();
    let granite = user.scratch.at("granite");
    Checkpoint::tiny().write_to(&granite).unwrap();
    for (key, value) in [
        ("model_type", Json::from("granite")),
        ("architectures", json!(["GraniteForCausalLM"])),
        ("embedding_multiplier", 12.0.into()),
        ("logits_scaling", 8.0.into()),
        ("a_new_multiplier", 0.5.into()),
        ("a_new_key", 3.into()),
    ] {
        crate::altered::configure(&granite, key, value);
    }
    let draft = user.must(&["arch", "draft", "granite"]);
    for wanted in [
        "# ? This table does not fit yet: the table of architecture `",
        "`embedding_multiplier` 12",
        "# ? scales activations: each dialect needs a key for it\n\"logits_scaling\" =",
        "# ? may scale or limit activations: each dialect needs a key for it\n\"a_new_multiplier\" =",
    ] {
        assert!(draft.contains(wanted), "{wanted}: {draft}");
    }
    let plugins = user.scratch.at("data/apr/plugins");
    fs::create_dir_all(&plugins).unwrap();
    fs::write(plugins.join("granite.toml"), &draft).unwrap();
    let (code, told) = user.refused(&["arch", "check", "granite", "granite"]);
    assert!(code == 5 && told.contains("the table is invalid"), "{code}: {told}");
    let (code, told) = user.refused(&["convert", "granite", "out.gguf"]);
    assert!(code == 4 && told.contains("`embedding_multiplier` 12"), "{code}: {told}");
    // With keys that say it, it is a model of its own.
    let key = |name: &str| {
        format!("[[dialect.gguf.key]]\nkey = \"{{arch}}.{name}\"\ntype = \"f32\"\nvalue = \"{name}\"\n\n")
    };
    let keys = ["embedding_multiplier", "logits_scaling", "a_new_multiplier"].map(key).concat();
    let whole = draft.replace(
        "# ? which of these the architecture needs",
        &format!("{keys}# which of these the architecture needs"),
    );
    fs::write(plugins.join("granite.toml"), completed(&whole)).unwrap();
    user.must(&["arch", "check", "granite", "granite"]);
    user.must(&["convert", "granite", "out.gguf"]);
}

#[test]
fn a_role_that_says_nothing_is_refused() {
    let user = User::new();
    user.acme();
    let empty = format!("{ACME}\n[[tensor]]\nname = \"a.b\"\noptional = true\nrole = \"\"\n");
    fs::write(user.scratch.at("mine.toml"), empty).unwrap();
    let (code, told) = user.refused(&["arch", "check", "mine.toml"]);
    assert!(code == 2 && told.contains("its `role` is empty"), "{code}: {told}");
}

/// A table whose models compute with a number that GGUF has no key for.
const COOLED: &str = "id = \"cooled\"\nbase = \"llama\"\n[dialect.hf]\ndetect = [{ model_type = \"cooled\" }]\n\
    [dialect.gguf]\ndetect = []\n[config]\ncoolness = { type = \"float\", default = 1.0 }\nrevision = \"int\"\n\
    [decoder.attention]\nscale = \"coolness / sqrt(head_dim)\"\n";

#[test]
fn what_decides_what_is_computed_is_not_left_out_though_a_table_does_not_say_so() {
    let user = User::new();
    let golden = goldens().into_iter().find(|path| name(path) == "llama").unwrap();
    let folder = user.scratch.at("cooled");
    Checkpoint::golden(&golden).unwrap().write_to(&folder).unwrap();
    fs::write(user.scratch.at("data/apr/plugins/cooled.toml"), COOLED).unwrap();
    let whole = fs::read(folder.join("config.json")).unwrap();
    let say = |coolness: f64| {
        let mut config: Json = serde_json::from_slice(&whole).unwrap();
        config["model_type"] = "cooled".into();
        config["architectures"] = serde_json::json!(["CooledForCausalLM"]);
        config["revision"] = 3.into();
        config["coolness"] = coolness.into();
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
    };
    say(1.0);
    user.must(&["convert", "cooled", "cooled.gguf"]);
    say(0.5);
    let (code, told) = user.refused(&["convert", "cooled", "half.gguf"]);
    assert_eq!(code, 4, "{told}");
    assert!(told.contains("`coolness` 0.5") && !told.contains("revision"), "{told}");
}
