//! The hub that cases with `hf://` ask: repositories made of models that are checked in.

use serde_json::Value as Json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

/// What the hub has: each model by its name, and the folder of its files.
const MODELS: [(&str, &str); 2] =
    [("example/bible", "tests/model/weights"), ("example/small", "plugins/gguf/tests/data")];

/// Files of the folders above that belong to no model.
const LEFT_OUT: fn(&str, &str) -> bool = |model, file| model == "example/small" && file != "small.gguf";

/// The hub, which ends when this process does and its standard input is closed.
static HUB: LazyLock<(Child, String)> = LazyLock::new(start);

/// The address of the hub.
pub fn endpoint() -> &'static str {
    &HUB.1
}

fn start() -> (Child, String) {
    let folder = std::env::temp_dir().join(format!("apr-cli-{}-hub", std::process::id()));
    for (model, from) in MODELS {
        let to = folder.join(model);
        std::fs::create_dir_all(&to).unwrap();
        for name in apr_tests::names_in(&apr_tests::root().join(from)) {
            let path = apr_tests::root().join(from).join(&name);
            if path.is_file() && !LEFT_OUT(model, &name) {
                std::fs::copy(path, to.join(&name)).unwrap();
            }
        }
    }
    let mut hub = serve(&folder);
    let mut line = String::new();
    BufReader::new(hub.stdout.take().unwrap()).read_line(&mut line).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said: Json = serde_json::from_str(&line).unwrap();
    (hub, said["endpoint"].as_str().unwrap().to_owned())
}

fn serve(folder: &Path) -> Child {
    let mut command = Command::new(apr_tests::hub_program());
    command.arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}
