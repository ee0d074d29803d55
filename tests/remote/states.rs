//! States of the world: no network, no home, a cache that cannot be written, a disk that is full, files that rot, and others
//! who want the same file.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::models::{safetensors, sharded, single};
use super::program::{Ended, Machine, files_below, for_files, wait};
use super::server::encoding::sha256;
use super::server::hub::{Behaviour, samples};
use super::server::{Content, Hub, Pace};

const MODEL: &str = "hf://apr/model/model.safetensors";

fn model() -> Content {
    safetensors("layer", 3, 5000, 3)
}

fn hub() -> Hub {
    Hub::start(vec![single("apr/model", &model())])
}

fn blob(machine: &Machine) -> PathBuf {
    machine.cache().join("models--apr--model/blobs").join(sha256(&model().whole()))
}

#[test]
fn offline_the_cache_is_read_and_nothing_is_asked() {
    let mut repositories = samples::repositories();
    repositories.extend([single("apr/model", &model()), sharded("apr/sharded", 3, 100)]);
    let hub = Hub::start(repositories);
    let machine = Machine::of(&hub);
    machine.ok(&["pull", "hf://apr/model"]);
    machine.ok(&["pull", "hf://apr/sharded"]);
    machine.ok(&["pull", "hf://apr/small@v1/README.md"]);
    hub.log().clear();
    let machine = machine.with("HF_HUB_OFFLINE", "1");
    machine.ok(&["inspect", MODEL]);
    machine.ok(&["inspect", "hf://apr/model"]);
    machine.ok(&["convert", MODEL, "out.gguf", "--arch", "none"]);
    machine.ok(&["convert", "hf://apr/sharded", "sharded.gguf", "--arch", "none"]);
    // The path of what is there is an answer, too.
    machine.ok(&["pull", "hf://apr/model"]);
    let words = ["HF_HUB_OFFLINE"];
    machine.fails(&["inspect", "hf://apr/xet"], 1, &words);
    machine.fails(&["inspect", "hf://apr/small@v1/model.safetensors"], 3, &words);
    machine.fails(&["pull", "hf://apr/xet"], 1, &words);
    machine.fails(&["inspect", "https://example.org/model.gguf"], 1, &words);
    assert_eq!(hub.log().lines(), [""; 0]);
}

#[test]
fn a_hub_that_is_gone_is_said_although_the_cache_has_the_model() {
    let hub = hub();
    let machine = Machine::of(&hub);
    machine.ok(&["pull", "hf://apr/model"]);
    drop(hub);
    let ended = machine.run(&["inspect", MODEL]);
    assert!(ended.code == 0 || ended.stderr.contains("HF_HUB_OFFLINE"), "{}", ended.stderr);
}

/// Turns over a byte in the middle of the model, and gives the file its times back if asked to.
fn rot(machine: &Machine, keeps_times: bool) {
    let path = blob(machine);
    let times = fs::metadata(&path).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let (mut byte, middle) = ([0], times.len() / 2);
    file.read_exact_at(&mut byte, middle).unwrap();
    file.write_all_at(&[!byte[0]], middle).unwrap();
    if keeps_times {
        let kept =
            FileTimes::new().set_modified(times.modified().unwrap()).set_accessed(times.accessed().unwrap());
        file.set_times(kept).unwrap();
    }
}

#[test]
fn a_byte_that_rots_in_the_cache_is_found_before_anything_is_made_of_it() {
    let hub = hub();
    for keeps_times in [false, true] {
        let machine = Machine::of(&hub);
        machine.ok(&["pull", "hf://apr/model"]);
        machine.ok(&["convert", MODEL, "good.gguf", "--arch", "none"]);
        rot(&machine, keeps_times);
        let offline = Machine::of(&hub);
        drop(offline);
        machine.fails(&["convert", MODEL, "out.gguf", "--arch", "none"], 5, &["damaged", "E004"]);
        assert_eq!(machine.left(), ["good.gguf"]);
        machine.fails(&["tensors", MODEL, "--sha256"], 5, &["damaged"]);
        hub.log().clear();
        let ended = machine.ok(&["pull", "hf://apr/model"]);
        assert!(ended.stderr.contains("damaged"), "{}", ended.stderr);
        assert_eq!(sha256(&fs::read(blob(&machine)).unwrap()), sha256(&model().whole()));
        assert!(hub.log().sent_by(hub.cdn_port()) >= model().len());
        machine.ok(&["convert", MODEL, "out.gguf", "--arch", "none"]);
        assert_eq!(fs::read(machine.at("out.gguf")).unwrap(), fs::read(machine.at("good.gguf")).unwrap());
    }
}

#[test]
fn a_cached_blob_is_hashed_once() {
    let hub = hub();
    let machine = Machine::of(&hub);
    machine.ok(&["pull", "hf://apr/model"]);
    machine.ok(&["convert", MODEL, "one.gguf", "--arch", "none"]);
    let remembered = files_below(&machine.home(".local/state"));
    assert!(!remembered.is_empty());
    machine.ok(&["convert", MODEL, "two.gguf", "--arch", "none"]);
    assert_eq!(files_below(&machine.home(".local/state")), remembered);
}

#[test]
fn a_blob_of_another_length_is_none() {
    let hub = hub();
    let machine = Machine::of(&hub);
    machine.ok(&["pull", "hf://apr/model"]);
    for len in [0, 1000, model().len() + 1] {
        File::options().write(true).open(blob(&machine)).unwrap().set_len(len).unwrap();
        machine.ok(&["pull", "hf://apr/model"]);
        assert_eq!(sha256(&fs::read(blob(&machine)).unwrap()), sha256(&model().whole()), "{len}");
    }
}

#[test]
fn broken_links_in_the_cache_are_mended() {
    let hub = hub();
    let machine = Machine::of(&hub);
    machine.ok(&["pull", "hf://apr/model"]);
    fs::remove_file(blob(&machine)).unwrap();
    machine.ok(&["inspect", MODEL]);
    machine.ok(&["pull", "hf://apr/model"]);
    assert_eq!(sha256(&fs::read(blob(&machine)).unwrap()), sha256(&model().whole()));
}

#[test]
fn without_a_home_models_are_read_and_nothing_is_kept() {
    let hub = hub();
    let machine = Machine::of(&hub).without("HOME");
    machine.ok(&["inspect", MODEL]);
    machine.ok(&["convert", MODEL, "out.gguf", "--arch", "none"]);
    machine.fails(&["pull", "hf://apr/model"], 1, &["cache", "HF_HOME", "-o"]);
    machine.ok(&["pull", "hf://apr/model", "-o", "folder"]);
    assert!(machine.cached().is_empty());
    let cache = machine.at("own").display().to_string();
    let machine = machine.with("APR_CACHE", cache);
    machine.ok(&["pull", "hf://apr/model"]);
    assert!(machine.at("own/hub/models--apr--model").is_dir());
}

#[test]
fn a_cache_that_is_no_folder_serves_nobody_and_hinders_nobody() {
    let hub = hub();
    let machine = Machine::of(&hub);
    let file = machine.write("file", "x").display().to_string();
    let machine = machine.with("HF_HUB_CACHE", &file);
    machine.ok(&["inspect", MODEL]);
    machine.fails(&["pull", "hf://apr/model"], 1, &[&file]);
    machine.ok(&["convert", MODEL, "out.gguf", "--arch", "none", "--no-cache"]);
}

/// Runs a script in which `%` is `apr` and mounts are its own; nothing, said aloud, where that is not possible.
fn apart(machine: &Machine, script: &str) -> Option<Ended> {
    let can = Command::new("unshare").args(["-r", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !can.is_ok_and(|out| out.status.success()) {
        apr_tests::skipped(
            "tests/remote: no mount of one's own is possible here, so no disk is full or read-only",
        );
        return None;
    }
    let apr = machine.command(&[]);
    let mut command = Command::new("unshare");
    let script = script.replace('%', &apr.get_program().to_string_lossy());
    command.args(["-r", "-m", "sh", "-ec", &script]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.envs(apr.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(machine.at("")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(wait(command.spawn().unwrap()))
}

#[test]
fn a_cache_on_a_full_disk_takes_no_download_and_hinders_no_conversion() {
    let hub = hub();
    let machine = Machine::of(&hub);
    fs::create_dir_all(machine.cache()).unwrap();
    let cache = machine.cache().display().to_string();
    let script = format!(
        "mount -t tmpfs -o size=2m none {cache}
         % pull hf://apr/model && exit 90 || echo $?
         % convert {MODEL} out.gguf --arch none
         % convert {MODEL} other.gguf --arch none --no-cache
         find {cache} -size +500k"
    );
    let Some(ended) = apart(&machine, &script) else { return };
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.text().starts_with("1\n") && !ended.text().contains("blobs"), "{}", ended.text());
    for word in ["MB", "free some space", cache.as_str(), "is not kept"] {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
    assert_eq!(fs::read(machine.at("out.gguf")).unwrap(), fs::read(machine.at("other.gguf")).unwrap());
    assert_eq!(hub.log().requests().iter().filter(|seen| seen.status >= 400).count(), 0);
}

#[test]
fn a_read_only_cache_serves_what_it_has() {
    let hub = hub();
    let machine = Machine::of(&hub);
    machine.ok(&["pull", "hf://apr/model"]);
    let cache = machine.cache().display().to_string();
    // What is remembered of it is elsewhere, and may be read-only, too.
    let home = machine.home("").display().to_string();
    let before = machine.cached();
    hub.log().clear();
    let script = format!(
        "mount --bind {home} {home} && mount -o remount,bind,ro {home}
         test ! -w {cache} || ! touch {cache}/x
         % inspect {MODEL}
         % convert {MODEL} out.gguf --arch none
         % pull hf://apr/model"
    );
    let Some(ended) = apart(&machine, &script) else { return };
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    // To see that it is the same, one look at it: the first bytes, and no others.
    let large = hub.log().requests_to(hub.cdn_port());
    assert!(large.len() <= 2, "{:#?}", hub.log().lines());
    assert!(large.iter().all(|seen| seen.range.as_deref() == Some("bytes=0-1048575")), "{large:#?}");
    assert_eq!(machine.cached(), before);
}

#[test]
fn a_read_only_cache_without_the_model_is_an_error_with_a_way_out() {
    let hub = hub();
    let machine = Machine::of(&hub);
    fs::create_dir_all(machine.cache()).unwrap();
    let cache = machine.cache().display().to_string();
    let script = format!(
        "mount -t tmpfs -o ro none {cache}
         % inspect {MODEL}
         % pull hf://apr/model && exit 90 || echo $?
         % convert {MODEL} out.gguf --arch none"
    );
    let Some(ended) = apart(&machine, &script) else { return };
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("is not kept"), "{}", ended.stderr);
    assert!(ended.stderr.contains(&cache) && ended.stderr.contains("ead-only"), "{}", ended.stderr);
    assert!(ended.stderr.contains("help:"), "{}", ended.stderr);
}

#[test]
fn two_processes_fetch_a_file_once() {
    // Slow enough that both are at work at one time.
    let cdn_pace = Pace { per_connection: Some(4_000_000), ..Pace::default() };
    let content = model();
    let behaviour = Behaviour { cdn_pace, ..Behaviour::default() };
    let hub = Hub::behaving(behaviour, vec![single("apr/model", &content)]);
    let machine = Machine::of(&hub);
    let children: Vec<_> =
        ["pull hf://apr/model", "pull hf://apr/model", &format!("convert {MODEL} out.gguf --arch none")]
            .map(|line| machine.command(&line.split(' ').collect::<Vec<_>>()).spawn().unwrap())
            .into_iter()
            .collect();
    for child in children {
        let ended = wait(child);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    assert_eq!(sha256(&fs::read(blob(&machine)).unwrap()), sha256(&content.whole()));
    let ranges: Vec<_> = hub.log().requests_to(hub.cdn_port());
    // Looking takes the first bytes; the payload itself comes once.
    let payload: u64 = ranges.iter().map(|seen| seen.sent).sum();
    assert!(payload <= content.len() + 3 * (1 << 20), "{payload} bytes: {:#?}", hub.log().lines());
    assert!(machine.cached().keys().all(|name| !name.contains(".apr.")), "{:#?}", machine.cached());
}

#[test]
fn whoever_waits_for_another_process_is_told_and_may_stop() {
    let hub = hub();
    let machine = Machine::of(&hub);
    let lock =
        machine.cache().join(".locks/models--apr--model").join(format!("{}.lock", sha256(&model().whole())));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let held = File::create(&lock).unwrap();
    held.lock().unwrap();
    let child = machine.command(&["pull", "hf://apr/model"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let ended = wait(child);
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert!(for_files(&hub.log().requests()).iter().all(|line| !line.contains("model.safetensors")));
    assert!(Path::new(&lock).exists());
}
