//! What `judges` of the tables says is what the models of `tests/golden` are compared with.

use crate::models::{goldens, name, opened};
use apr_engine::architecture::called;
use apr_sdk::escape;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, is_of_library, root};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;

/// In the order in which they are asked: the converter about the file, llama.cpp about computing with it, transformers about the
/// folder that comes back. `tests/interop/whole_cases.py` asks the last two.
const JUDGES: [&str; 3] = ["converter", "llama.cpp", "transformers"];

#[test]
fn tables_name_their_judges() {
    let (host, not) = (host(), fs::read(root().join("tests/golden/not_judged.json")).unwrap());
    let not: Json = serde_json::from_slice(&not).unwrap();
    let mut judged: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for path in goldens() {
        let model = Checkpoint::golden(&path).unwrap();
        let scratch = Scratch::new();
        let folder = scratch.at(&model.name);
        model.write_to(&folder).unwrap();
        let table = called(&host, &opened(&host, &folder).model).unwrap();
        let asked = |judge: &&&str| {
            let all = **judge != "transformers" || is_of_library(name(&path));
            all && not[**judge].get(name(&path)).is_none()
        };
        judged.entry(table).or_default().extend(JUDGES.iter().filter(asked));
    }
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for table in host.tables().all() {
        let judges = judged.get(&table.id).map(Vec::as_slice).unwrap_or_default();
        let judges: Vec<&str> = JUDGES.into_iter().filter(|judge| judges.contains(judge)).collect();
        if table.judges == judges {
            continue;
        }
        wrong.push(format!("{}: {:?}, not {judges:?}", escape(&table.id, 80), table.judges));
        let path = root().join(format!("plugins/architectures/tables/{}.toml", table.id));
        if bless {
            let text = fs::read_to_string(&path).unwrap();
            let kept = text.lines().filter(|line| !line.starts_with("judges = "));
            let named = |line: &str| match line.starts_with("rope = ") || line.starts_with("base = ") {
                true if judges.is_empty() => format!("{line}\n"),
                true => format!("{line}\njudges = {judges:?}\n"),
                false => format!("{line}\n"),
            };
            let mut done = false;
            let lines = kept.map(|line| {
                let here = !done && (line.starts_with("rope = ") || line.starts_with("base = "));
                done |= here;
                if here { named(line) } else { format!("{line}\n") }
            });
            fs::write(&path, lines.collect::<String>()).unwrap();
        }
    }
    assert!(bless || wrong.is_empty(), "BLESS=1 writes them:\n{}", wrong.join("\n"));
}
