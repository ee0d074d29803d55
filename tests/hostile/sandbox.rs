//! A model's chat template and tokenizer are somebody else's program and rules: whatever they do, every verb that uses them
//! ends in a clear error, soon, and takes little memory; the process they run in sees nothing of the user's.

use crate::command::{Ended, apr, run, says, send, wait};
use apr_inference::generation::Decoder;
use apr_inference::template::Conversation;
use apr_inference::tokens::Encoding;
use apr_sandbox::{Program, Tokens, Watch};
use apr_sdk::ErrorKind;
use apr_sdk::tokenizer::{Kind, Parts, Spelling, TokenType, Tokenizer, byte_of};
use apr_tests::{Scratch, program, root};
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time that a verb may take, on a busy machine, where a worker may take 5 s of a processor.
const SOON: Duration = Duration::from_secs(40);
/// KiB that any process may hold: the worker's limit, and what the program itself takes.
const HELD: u64 = 700 << 10;

/// Templates without end, by what they do.
fn endless() -> Vec<(&'static str, String)> {
    let twice = |last: &str| {
        let set = "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}";
        format!(
            "{{% set ns = namespace(x=[1], y=[1]) %}}{{% for i in range(60) %}}{set}{{% endfor %}}{{{{ {last} }}}}"
        )
    };
    vec![
        ("a value in itself", "{% set n = namespace() %}{% set n.a = n %}{{ n }}".to_owned()),
        ("signs", format!("{{{{ {}1 }}}}", "-".repeat(100_000))),
        ("a sum", format!("{{{{ 1{} }}}}", "+1".repeat(200_000))),
        ("lists printed", twice("ns.x")),
        ("lists compared", twice("ns.x == ns.y")),
        ("a wide field", "{{ \"{:>1000000000}\".format(1) }}".to_owned()),
    ]
}

/// A model with this template, as a folder or as the one file that was made of it.
fn model(scratch: &Scratch, template: &str, is_folder: bool) -> &'static str {
    let folder = scratch.at("model");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(root().join("tests/model/weights")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let config = folder.join("tokenizer_config.json");
    let mut settings: serde_json::Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    settings.as_object_mut().unwrap().remove("chat_template");
    fs::write(&config, settings.to_string()).unwrap();
    fs::write(folder.join("chat_template.jinja"), template).unwrap();
    if is_folder {
        return "model";
    }
    let args = ["convert", "model", "m.gguf", "--force", "--quiet"];
    let ended = run(&scratch.at(""), &args);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    "m.gguf"
}

/// KiB that a process and those it started held at most.
fn held(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let own = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let own = own.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    children(pid).into_iter().map(held).fold(own, u64::max)
}

/// The processes that a process started.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// A verb with a text on stdin, and the KiB that were held at most.
fn watched(folder: &Path, args: &[&str], input: &str) -> (Ended, u64) {
    let mut command = apr(folder, args);
    let began = Instant::now();
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let pid = child.id();
    let watcher = std::thread::spawn(move || {
        let mut most = 0;
        while fs::exists(format!("/proc/{pid}/stat")).is_ok_and(|is_there| is_there) {
            most = held(pid).max(most);
            std::thread::sleep(Duration::from_millis(10));
        }
        most
    });
    let ended = wait(child, began);
    (ended, watcher.join().unwrap())
}

#[test]
fn templates_without_end_are_errors_of_every_verb() {
    let scratch = Scratch::new();
    for (what, template) in endless() {
        // Where the limit of time is what ends it, one form of the model is enough.
        let is_slow = what.starts_with("lists");
        for is_folder in [true, false].into_iter().filter(|is_folder| !(is_slow && *is_folder)) {
            let name = model(&scratch, &template, is_folder);
            for args in [
                &["tokenizer", name, "--chat", "Hi"][..],
                &["run", name, "Hi", "--max-tokens", "1"],
                &["chat", name],
            ] {
                let (ended, held) = watched(&scratch.at(""), args, "Hi\n");
                println!("{what}: {args:?}: {:?}, {} MiB", ended.took, held >> 10);
                says(args, &ended, 4, &["E008", "help:"]);
                assert!(ended.took < SOON, "{what}, {args:?}: {:?}", ended.took);
                assert!(held < HELD, "{what}, {args:?}: {held} KiB");
            }
        }
    }
}

#[test]
fn a_line_without_end_is_an_error() {
    let scratch = Scratch::new();
    let name = model(&scratch, "{{ messages[0].content }}", true);
    let mut command = apr(&scratch.at(""), &["chat", name]);
    command.stdin(fs::File::open("/dev/zero").unwrap());
    // The program may have had to be built first.
    let began = Instant::now();
    let ended = wait(command.spawn().unwrap(), began);
    says(&["chat"], &ended, 4, &["an input line is longer than the limit", "help:"]);
}

/// The worker of a process, once there is one.
fn worker_of(pid: u32) -> u32 {
    let began = Instant::now();
    loop {
        if let [worker] = children(pid)[..]
            && fs::read_to_string(format!("/proc/{worker}/cmdline"))
                .is_ok_and(|text| text.contains("sandbox"))
        {
            return worker;
        }
        assert!(began.elapsed() < SOON, "there is no worker");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_worker_inherits_nothing() {
    let scratch = Scratch::new();
    let name = model(&scratch, "{{ messages[0].content }}", true);
    // Whoever starts apr may leave a file open in it.
    let mut command = Command::new("sh");
    command.args(["-c", "exec 9</dev/zero; exec \"$0\" chat \"$1\""]).arg(program()).arg(name);
    command.current_dir(scratch.at("")).env_clear().env("HF_TOKEN", "secret").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let worker = worker_of(child.id());
    let of = |file: &str| fs::read_to_string(format!("/proc/{worker}/{file}")).unwrap();
    // It confines itself before its first answer.
    let began = Instant::now();
    while !of("status").contains("Seccomp:\t2") {
        assert!(began.elapsed() < SOON, "{}", of("status"));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(of("environ"), "");
    let mut open: Vec<String> = fs::read_dir(format!("/proc/{worker}/fd"))
        .unwrap()
        .map(|entry| fs::read_link(entry.unwrap().path()).unwrap().to_string_lossy().into_owned())
        .map(|target| target.split(':').next().unwrap().to_owned())
        .collect();
    open.sort();
    assert_eq!(open, ["/dev/null", "pipe", "pipe"]);
    drop(child.stdin.take());
    let ended = wait(child, Instant::now());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!fs::exists(format!("/proc/{worker}/stat")).unwrap());
}

#[test]
fn the_first_ctrl_c_is_heard_while_a_template_is_rendered() {
    let scratch = Scratch::new();
    let (_, template) = endless().into_iter().find(|(what, _)| *what == "lists compared").unwrap();
    let name = model(&scratch, &template, true);
    for args in [&["tokenizer", name, "--chat", "Hi"][..], &["run", name, "Hi", "--max-tokens", "1"]] {
        let child = apr(&scratch.at(""), args).spawn().unwrap();
        let began = Instant::now();
        while children(child.id()).is_empty() && began.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        send(&child, Signal::INT);
        let ended = wait(child, began);
        assert_eq!(ended.code, 130, "{args:?}: {}", ended.stderr);
        assert!(ended.took < Duration::from_secs(3), "{args:?}: {:?}", ended.took);
    }
}

/// A tokenizer whose ids are bytes, with templates of these names.
fn tokenizer(templates: &[(&str, &str)]) -> Vec<u8> {
    let mut of_bytes: Vec<(u8, char)> =
        (0..0x144).filter_map(char::from_u32).filter_map(|c| Some((byte_of(c)?, c))).collect();
    of_bytes.sort_unstable();
    let template = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    let level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let parts = Parts {
        kind: Kind::Bpe,
        spelling: Spelling::Bytes,
        tokens: of_bytes.iter().map(|(_, c)| Some(c.to_string())).collect(),
        types: vec![TokenType::Normal; 256],
        pre_tokenizer: Some(level.clone()),
        decoder: Some(level),
        chat_templates: templates.iter().map(template).collect(),
        ..Parts::default()
    };
    Tokenizer::new(parts).unwrap().to_json()
}

fn tokens(templates: &[(&str, &str)]) -> Tokens {
    Tokens::new(Program::at(program()), tokenizer(templates), Watch::default()).unwrap()
}

#[test]
fn a_worker_that_was_stopped_is_replaced() {
    let tokens = tokens(&[
        // More than a worker may hold.
        ("bad", "{{ \"{:>1000000000}\".format(1) }}"),
        ("good", "{{ messages[0].content }}"),
    ]);
    let conversation =
        Conversation { messages: vec![json!({"role": "user", "content": "Hi"})], ..Conversation::default() };
    let ids = tokens.encode("Hello", Encoding::default()).unwrap();
    for _ in 0..2 {
        let error = tokens.render(Some("bad"), &conversation).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert_eq!(tokens.render(Some("good"), &conversation).unwrap(), "Hi");
        assert_eq!(tokens.encode("Hello", Encoding::default()).unwrap(), ids);
        assert_eq!(tokens.decode(&ids, false).unwrap(), "Hello");
    }
    let error = tokens.render(Some("none"), &conversation).unwrap_err();
    assert!(error.hint_text().unwrap().contains("`bad`"), "{error:?}");
    assert_eq!(tokens.decode(&[9_999_999], false).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn work_that_is_cancelled_ends_at_once() {
    let watch = Watch::default();
    let template = &endless().into_iter().find(|(what, _)| *what == "lists compared").unwrap().1;
    let tokens =
        Tokens::new(Program::at(program()), tokenizer(&[("slow", template)]), watch.clone()).unwrap();
    let began = Instant::now();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        watch.cancel.store(true, Ordering::Relaxed);
        watch
    });
    let error = tokens.render(Some("slow"), &Conversation::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    canceller.join().unwrap().cancel.store(false, Ordering::Relaxed);
    assert_eq!(tokens.count("abc", Encoding::default()).unwrap(), 3);
}

#[test]
fn what_was_begun_answers_nothing_else() {
    let mut tokens = tokens(&[]);
    tokens.prepare();
    assert_eq!(tokens.encode("ab", Encoding::default()).unwrap(), [97, 98]);
    assert_eq!(tokens.decode(&[98], false).unwrap(), "b");
}

#[test]
fn a_program_that_is_no_worker_is_said_to_be_none() {
    for program in ["/bin/true", "/no/such/program"] {
        let error = Tokens::new(Program::at(program), tokenizer(&[]), Watch::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
        assert!(error.message().contains("cannot start the worker process"), "{error:?}");
    }
}

/// As on a kernel without it: the program inherits a filter that denies the system call.
#[cfg(target_os = "linux")]
#[test]
fn a_kernel_that_does_not_confine_the_worker_is_told_of() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
    let scratch = Scratch::new();
    model(&scratch, "{{ messages[0].content }}", true);
    let folder = scratch.at("");
    // The filter holds for the thread that asked for it, and what it starts.
    let without = std::thread::spawn(move || {
        let rules = std::iter::once((libc::SYS_seccomp, Vec::new())).collect();
        let denied = SeccompAction::Errno(u32::try_from(libc::ENOSYS).unwrap());
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch).unwrap();
        apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        let args = ["tokenizer", "model", "--chat", "Hello"];
        (run(&folder, &args), run(&folder, &[&args[..], &["-v"]].concat()))
    });
    let (plain, verbose) = without.join().unwrap();
    let remark = "the tokenizer's worker process may open files: the kernel cannot restrict its system calls";
    assert_eq!((plain.code, verbose.code), (0, 0), "{}{}", plain.stderr, verbose.stderr);
    assert!(!plain.stderr.contains(remark) && verbose.stderr.contains(remark), "{}", verbose.stderr);
    let args = ["tokenizer", "model", "--chat", "Hello", "-v"];
    let with = run(&scratch.at(""), &args);
    assert!(with.code == 0 && !with.stderr.contains(remark), "{}", with.stderr);
}
