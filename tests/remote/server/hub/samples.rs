//! Repositories of every sort that a hub has, and the same as JSON for a judge to compare with.

use serde_json::{Value, json};

use super::super::content::Content;
use super::{Access, File, Kind, Repository, Storage};

/// A valid token, which may read everything there is to read.
pub const READER: &str = "hf_reader";
/// A token that no repository knows, to be made valid.
pub const STRANGER: &str = "hf_stranger";
/// A valid token of a reader, without the right to gated repositories.
pub const FINE_GRAINED: &str = "hf_fine_grained";

/// One repository of each sort.
pub fn repositories() -> Vec<Repository> {
    let readers = &[READER, FINE_GRAINED];
    let gated = |name: &str, access: Access| {
        let mut repository = Repository::model(name, files(name)).with_access(access, readers);
        repository.fine_grained.push(FINE_GRAINED.to_owned());
        repository
    };
    let mut disabled = Repository::model("apr/disabled", files("disabled"));
    disabled.disabled = true;
    vec![
        Repository::model("apr/small", files("small, before"))
            .with_revision("refs/tags/v1", files("small, v1"))
            .with_revision("refs/pr/1", files("small, proposed"))
            .with_revision("refs/convert/other", files("small, converted"))
            .with_revision("main", files("small"))
            .with_license("apache-2.0")
            .renamed_from("apr/tiny"),
        Repository::model("lonely", files("lonely")),
        Repository::model("apr/pages", (0..1100).map(page_file).collect()),
        Repository::model("apr/data", files("data")).of_kind(Kind::Dataset),
        Repository::model("apr/xet", vec![xet_file()]),
        Repository::model("apr/undigested", vec![undigested_file()]),
        gated("apr/gated-auto", Access::GatedAuto),
        gated("apr/gated-manual", Access::GatedManual),
        Repository::model("apr/private", files("private")).with_access(Access::Private, readers),
        disabled,
    ]
}

/// What a hub should be seen to have: by kind and name, the commit of `main` and its files.
pub fn expected(repositories: &[Repository]) -> Value {
    let mut all = json!({});
    for repository in repositories {
        let head = repository.head();
        let snapshot = repository.snapshot(head).expect("the commit is there");
        let mut files = json!({});
        for file in &snapshot.files {
            files[&file.path] = json!({
                "size": file.content.len(),
                "sha256": file.content.sha256(),
                "blob_id": file.git_id(),
                "etag": file.etag(),
                "lfs": !file.is_in_git(),
            });
        }
        let refs: Vec<_> = repository.refs.iter().map(|(name, commit)| json!([name, commit])).collect();
        all[format!("{}/{}", repository.kind.plural(), repository.name)] = json!({
            "commit": head,
            "license": repository.license,
            "former_names": repository.former_names,
            "refs": refs,
            "files": files,
        });
    }
    all
}

/// Files of every storage, with contents of their own.
fn files(what: &str) -> Vec<File> {
    let seed = what.bytes().map(u64::from).sum();
    vec![
        File::git("config.json", format!("{{\"model_type\": \"llama\", \"of\": \"{what}\"}}\n")),
        File::cached("README.md", format!("# {what}\n")),
        File::git("empty.txt", ""),
        File::cached("vocabulary/a name & more #1 %41 +é.txt", format!("odd {what}\n")),
        File::lfs("model.safetensors", Content::pattern(300_000, seed)),
        File::lfs("weights/part one.bin", Content::pattern(70_001, seed + 1)),
        File::lfs("weights/deep/part.bin", Content::pattern(1, seed + 2)),
    ]
}

fn page_file(n: usize) -> File {
    File::git(&format!("pages/{n:04}.txt"), format!("{n}\n"))
}

fn xet_file() -> File {
    let content = Content::pattern(200_000, 99);
    let hash = content.sha256().expect("it is small");
    File::stored("model.safetensors", content, Storage::Xet(hash))
}

fn undigested_file() -> File {
    File::lfs("model.safetensors", Content::pattern(10_000, 98).declaring(None))
}
