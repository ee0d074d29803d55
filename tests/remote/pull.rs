//! Downloads: what comes into the cache or a folder, once, and no more than was asked for.

use super::models::{safetensors, single};
use super::program::{Machine, files_below, for_files};
use super::server::encoding::{git_id, sha256};
use super::server::hub::{File, Repository, samples};
use super::server::{Content, FileServer, Hub};

/// A repository with three types of the same weights, one of them in parts.
fn quantized() -> Repository {
    let file = |name: &str, seed| File::lfs(name, Content::pattern(5000 + seed, seed));
    let files = vec![
        File::git("README.md", "# Quantized\n"),
        file("m-Q4_K_M.gguf", 1),
        file("m-Q4_K_S.gguf", 2),
        file("big/m-Q8_0-00001-of-00002.gguf", 3),
        file("big/m-Q8_0-00002-of-00002.gguf", 4),
        file("mmproj-F16.gguf", 5),
    ];
    Repository::model("apr/quantized", files)
}

/// The names of the files that `-o` brought.
fn names(machine: &Machine, folder: &str) -> Vec<String> {
    files_below(&machine.at(folder)).into_keys().collect()
}

#[test]
fn what_is_in_the_cache_is_not_fetched_again() {
    let hub = Hub::start(samples::repositories());
    let machine = Machine::of(&hub);
    let first = machine.ok(&["pull", "hf://apr/small", "--json"]).json();
    let repository = &samples::repositories()[0];
    let snapshot = repository.snapshot(repository.head()).unwrap();
    let at = machine.cache().join("models--apr--small");
    let below = at.join("snapshots").join(&snapshot.commit);
    assert_eq!(first["path"], below.display().to_string());
    for file in &snapshot.files {
        let bytes = std::fs::read(below.join(&file.path)).unwrap();
        assert!(bytes == file.content.whole(), "{}", file.path);
        let name = if file.is_in_git() { git_id(&bytes) } else { sha256(&bytes) };
        assert!(at.join("blobs").join(&name).is_file(), "{}: {name}", file.path);
        assert!(below.join(&file.path).is_symlink(), "{}", file.path);
    }
    assert_eq!(std::fs::read_to_string(at.join("refs/main")).unwrap(), snapshot.commit);
    // What each file was found to be is said, and nothing else is left.
    assert!(first["files"].as_array().unwrap().iter().all(|file| file["verified"].is_string()), "{first}");
    assert!(machine.cached().keys().all(|name| !name.contains(".apr.")), "{:#?}", machine.cached());
    let (before, asked) = (machine.cached(), hub.log().requests().len());
    let again = machine.ok(&["pull", "hf://apr/small", "--json"]).json();
    let seen = &hub.log().requests()[asked..];
    assert_eq!(for_files(seen), [""; 0]);
    assert_eq!(seen.len(), 1);
    assert!(again["files"].as_array().unwrap().iter().all(|file| file["fetched"] == 0), "{again}");
    assert_eq!(machine.cached(), before);
}

#[test]
fn every_file_costs_at_most_two_requests() {
    let hub = Hub::start(samples::repositories());
    Machine::of(&hub).ok(&["pull", "hf://apr/small"]);
    let lines = hub.log().lines();
    // One that git sends takes one, those behind a redirect two, and what is longer than the first bytes one more.
    assert!(lines.len() <= 1 + 2 * 7, "{lines:#?}");
    assert!(lines.iter().all(|line| !line.starts_with("HEAD")), "{lines:#?}");
}

#[test]
fn a_folder_gets_the_files_and_nothing_else() {
    let hub = Hub::start(samples::repositories());
    let machine = Machine::of(&hub);
    machine.ok(&["pull", "hf://apr/small", "-o", "folder"]);
    let head = samples::repositories()[0].head().to_owned();
    let repository = &samples::repositories()[0];
    let mut paths: Vec<_> =
        repository.snapshot(&head).unwrap().files.iter().map(|file| file.path.clone()).collect();
    paths.sort();
    assert_eq!(names(&machine, "folder"), paths);
    assert!(machine.cached().is_empty());
    let asked = hub.log().requests().len();
    machine.ok(&["pull", "hf://apr/small", "-o", "folder"]);
    assert_eq!(for_files(&hub.log().requests()[asked..]), [""; 0]);
    machine.write("folder/config.json", "mine");
    machine.fails(&["pull", "hf://apr/small", "-o", "folder"], 1, &["folder/config.json", "--force"]);
    assert_eq!(std::fs::read(machine.at("folder/config.json")).unwrap(), b"mine");
    machine.ok(&["pull", "hf://apr/small", "-o", "folder", "--force"]);
    assert_ne!(std::fs::read(machine.at("folder/config.json")).unwrap(), b"mine");
}

#[test]
fn patterns_words_files_and_folders_choose() {
    let hub = Hub::start(vec![quantized()]);
    let parts = ["big/m-Q8_0-00001-of-00002.gguf", "big/m-Q8_0-00002-of-00002.gguf"];
    let cases: [(&str, &[&str], &[&str]); 8] = [
        ("hf://apr/quantized:Q4_K_M", &[], &["m-Q4_K_M.gguf"]),
        ("hf://apr/quantized:q4_k_m", &[], &["m-Q4_K_M.gguf"]),
        ("hf://apr/quantized:Q8_0", &[], &parts),
        ("hf://apr/quantized", &["--include", "*Q4*", "--exclude", "*_S*"], &["m-Q4_K_M.gguf"]),
        ("hf://apr/quantized", &["--include", "big/*"], &parts),
        ("hf://apr/quantized/big", &[], &parts),
        ("hf://apr/quantized/README.md", &[], &["README.md"]),
        ("hf://apr/quantized@main/m-Q4_K_S.gguf", &[], &["m-Q4_K_S.gguf"]),
    ];
    let machine = Machine::of(&hub);
    for (n, (address, flags, expected)) in cases.into_iter().enumerate() {
        let folder = format!("folder{n}");
        machine.ok(&[&["pull", address, "-o", &folder], flags].concat());
        assert_eq!(names(&machine, &folder), expected, "{address} {flags:?}");
    }
    let asked = hub.log().requests().len();
    let refused: [(&str, i32, &[&str]); 3] = [
        (
            "hf://apr/quantized:Q2_K",
            3,
            &["Q2_K", "m-Q4_K_M.gguf (5.00 kB)", "m-Q8_0-00001-of-00002.gguf (10.0 kB)"],
        ),
        ("hf://apr/quantized/nothing", 3, &["no such file"]),
        ("hf://apr/quantized:Q4_K", 3, &["m-Q4_K_S.gguf"]),
    ];
    for (address, code, words) in refused {
        machine.fails(&["pull", address, "-o", "none"], code, words);
    }
    assert_eq!(for_files(&hub.log().requests()[asked..]), [""; 0]);
}

#[test]
fn revisions_are_branches_tags_requests_and_commits() {
    let hub = Hub::start(samples::repositories());
    let machine = Machine::of(&hub);
    let repository = &samples::repositories()[0];
    let commit = &repository.snapshots[0].commit;
    let cases = [
        ("hf://apr/small", "small"),
        ("hf://apr/small@v1", "small, v1"),
        ("hf://apr/small@refs/pr/1", "small, proposed"),
        ("hf://apr/small@refs%2Fpr%2F1", "small, proposed"),
        ("hf://apr/small@refs/convert/other", "small, converted"),
        (&format!("hf://apr/small@{commit}"), "small, before"),
    ];
    for (address, what) in cases {
        let ended = machine.ok(&["pull", &format!("{address}/README.md"), "--json"]).json();
        let bytes = std::fs::read(std::path::Path::new(ended["path"].as_str().unwrap()).join("README.md"));
        assert_eq!(String::from_utf8(bytes.unwrap()).unwrap(), format!("# {what}\n"), "{address}");
    }
    let ended = machine.ok(&["pull", "hf://apr/small/README.md", "--revision", "v1", "-o", "tagged"]);
    assert_eq!(std::fs::read(machine.at("tagged/README.md")).unwrap(), b"# small, v1\n", "{}", ended.stderr);
    // A commit that is all there is not even asked about.
    machine.ok(&["pull", &format!("hf://apr/small@{commit}")]);
    let asked = hub.log().requests().len();
    machine.fails(&["inspect", &format!("hf://apr/small@{commit}/model.safetensors")], 4, &[]);
    assert_eq!(hub.log().requests()[asked..].iter().map(|seen| seen.line()).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_renamed_model_is_found_by_its_old_name() {
    let hub = Hub::start(samples::repositories());
    let machine = Machine::of(&hub);
    machine.ok(&["pull", "hf://apr/tiny", "-o", "folder"]);
    assert_eq!(std::fs::read(machine.at("folder/README.md")).unwrap(), b"# small\n");
    machine.ok(&["pull", "hf://apr/tiny"]);
}

#[test]
fn a_plan_downloads_nothing() {
    let hub = Hub::start(samples::repositories());
    let machine = Machine::of(&hub);
    let ended = machine.ok(&["pull", "hf://apr/small", "-n"]);
    assert!(ended.text().contains("model.safetensors"), "{}", ended.text());
    assert_eq!(for_files(&hub.log().requests()), [""; 0]);
    assert!(machine.cached().is_empty() && machine.left().is_empty());
}

#[test]
fn licences_and_warnings_of_the_hub_are_said_once() {
    let content = safetensors("layer", 1, 10, 3);
    let hub = Hub::start(vec![single("apr/model", &content).with_license("cc-by-nc-4.0")]);
    hub.set_header("X-HF-Warning", Some("token; it is old"));
    let machine = Machine::of(&hub);
    let ended = machine.ok(&["pull", "hf://apr/model"]);
    assert_eq!(ended.stderr.matches("cc-by-nc-4.0").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("warning"), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("it is old").count(), 1, "{}", ended.stderr);
    let ended = machine.ok(&["convert", "hf://apr/model", "out.gguf", "--arch", "none"]);
    assert_eq!(ended.stderr.matches("cc-by-nc-4.0").count(), 1, "{}", ended.stderr);
}

#[test]
fn a_file_above_50_gb_is_named_with_the_command_that_gets_it() {
    let content = Content::zeros(60_000_000_000).declaring(Some(&"7".repeat(64)));
    let hub = Hub::start(vec![Repository::model("apr/huge", vec![File::lfs("huge.gguf", content)])]);
    let machine = Machine::of(&hub);
    machine.fails(&["pull", "hf://apr/huge"], 4, &["huge.gguf", "60.0 GB", "hf download apr/huge"]);
    assert_eq!(for_files(&hub.log().requests()), [""; 0]);
}

#[test]
fn a_file_behind_https_is_pulled_to_where_it_is_told() {
    let content = Content::pattern(3_000_000, 5);
    let server = FileServer::honest(content.clone());
    let machine = Machine::new();
    let url = format!("{}?signature=secret", server.url_of("model.gguf"));
    std::fs::create_dir(machine.at("folder")).unwrap();
    for (flags, path) in [
        (&[][..], "model.gguf"),
        (&["-o", "other.gguf"], "other.gguf"),
        (&["-o", "folder"], "folder/model.gguf"),
    ] {
        let ended = machine.ok(&[&["pull", &url], flags].concat());
        assert!(std::fs::read(machine.at(path)).unwrap() == content.whole(), "{flags:?}");
        assert!(ended.stderr.contains("not verified"), "{}", ended.stderr);
        assert!(!format!("{}{}", ended.stderr, ended.text()).contains("secret"), "{}", ended.stderr);
        machine.fails(&[&["pull", &url], flags].concat(), 1, &["already exists", "--force"]);
    }
    assert_eq!(machine.left(), ["folder/model.gguf", "model.gguf", "other.gguf"]);
}

#[test]
fn a_snapshot_is_whole_although_the_cache_had_some_of_its_files() {
    let hub = Hub::start(samples::repositories());
    let machine = Machine::of(&hub);
    // `empty.txt` is the same in both.
    let snapshots = ["main", "v1"].map(|revision| {
        let ended = machine.ok(&["pull", &format!("hf://apr/small@{revision}"), "--json"]).json();
        std::path::PathBuf::from(ended["path"].as_str().unwrap())
    });
    assert_ne!(snapshots[0], snapshots[1]);
    for snapshot in &snapshots {
        assert_eq!(files_below(snapshot).len(), 7, "{:#?}", files_below(snapshot));
    }
    // A name that was lost is given again.
    std::fs::remove_file(snapshots[1].join("config.json")).unwrap();
    let asked = hub.log().requests().len();
    machine.ok(&["pull", "hf://apr/small@v1"]);
    assert!(snapshots[1].join("config.json").exists());
    assert_eq!(for_files(&hub.log().requests()[asked..]), [""; 0]);
}
