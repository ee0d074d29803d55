//! A plugin that ends its process or never comes back: it is named, and the signal does what signals do.

use crate::build::ROGUE;
use crate::library::Library;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

/// `apr` with these arguments, in the folder of a library.
fn command(library: &Library, args: &[&str]) -> Command {
    let home = library.path.parent().unwrap();
    std::fs::write(home.join("a.rogue"), "ROGUE").unwrap();
    let mut command = Command::new(apr_tests::program());
    command.env_clear().env("HOME", home).current_dir(home).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn apr(library: &Library, args: &[&str]) -> Output {
    command(library, args).output().unwrap()
}

/// A library whose checks meet this crash.
fn with_token(token: &[u8; 20]) -> Library {
    let mut library = Library::copy_of(&ROGUE);
    let own = library.token().to_owned();
    library.replace(own.as_bytes(), token).write();
    library
}

#[test]
fn the_plugin_that_a_signal_found_is_named() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let library = Library::copy_of(&ROGUE);
    library.write();
    let path = library.path.to_str().unwrap();
    const SEGV: i32 = 11;
    const ABRT: i32 = 6;
    for (how, named, signal, doing) in [
        ("segv", "SIGSEGV", SEGV, "opening"),
        ("abort", "SIGABRT", ABRT, "opening"),
        // The standard library makes an abort of it.
        ("sink", "SIGSEGV", ABRT, "opening"),
    ] {
        let output = apr(&library, &["--plugin", path, "inspect", "a.rogue", "-O", &format!("mode={how}")]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal), "{how}: {said}");
        let line = format!("apr: plugin `rogue` 0.1.0 crashed ({named}) while {doing}");
        assert_eq!(said.lines().filter(|found| *found == line).count(), 1, "{how}: {said}");
        assert_eq!(said.matches("crashed").count(), 1, "{how}: {said}");
    }
    // Nothing is said of plugins where none was running.
    let output = apr(&library, &["--plugin", path, "inspect", "a.rogue"]);
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("crashed"), "{output:?}");
}

#[test]
fn a_signal_from_outside_ends_the_process_as_ever() {
    let library = Library::copy_of(&ROGUE);
    library.write();
    for (signal, number) in [("SEGV", 11), ("ABRT", 6), ("BUS", 7), ("FPE", 8), ("ILL", 4)] {
        let (child, said) = looping(&library);
        kill(&child, signal);
        let (status, said) = end(child, said);
        if cfg!(target_os = "linux") {
            assert_eq!(status.signal(), Some(number), "{signal}: {said}");
        }
        let line = format!("apr: plugin `rogue` 0.1.0 crashed (SIG{signal}) while opening\n");
        assert_eq!(said, line, "{signal}");
    }
}

#[test]
fn a_second_signal_ends_a_plugin_that_never_comes_back() {
    let library = Library::copy_of(&ROGUE);
    library.write();
    for signals in [["TERM", "TERM"], ["INT", "TERM"], ["INT", "INT"]] {
        let (mut child, said) = looping(&library);
        kill(&child, signals[0]);
        // What comes within half a second of it is no second one.
        std::thread::sleep(Duration::from_millis(700));
        assert!(child.try_wait().unwrap().is_none(), "the first signal only asks");
        kill(&child, signals[1]);
        let (status, said) = end(child, said);
        assert_eq!(status.code(), Some(130), "{signals:?}: {said}");
    }
}

/// Starts `apr` and waits until the plugin says that it loops; gives what is left to read of stderr.
fn looping(library: &Library) -> (Child, BufReader<ChildStderr>) {
    let path = library.path.to_str().unwrap();
    let args = ["--plugin", path, "inspect", "a.rogue", "-O", "mode=loop"];
    let mut child = command(library, &args).spawn().unwrap();
    let (mut said, mut line) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    while !line.contains("the rogue loops") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended: {:?}", child.wait());
    }
    (child, said)
}

/// How the child ended, and what else it said.
fn end(mut child: Child, mut said: BufReader<ChildStderr>) -> (ExitStatus, String) {
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    (child.wait().unwrap(), text)
}

fn kill(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

#[test]
fn a_plugin_that_ends_or_stops_its_check_fails_it_by_name() {
    if !cfg!(target_os = "linux") {
        return;
    }
    for (token, word) in [
        (b"rogue-token-loop0000", "the plugin did not finish within 10 s"),
        (b"rogue-token-abort000", "the plugin terminated the process: signal: 6"),
        (b"rogue-token-segv0000", "the plugin terminated the process: signal: 11"),
        (b"rogue-token-sink0000", "the plugin terminated the process: signal: 6"),
    ] {
        let library = with_token(token);
        let path = library.path.to_str().unwrap();
        let output = apr(&library, &["plugins", "check", path, "--timeout", "10"]);
        let said = String::from_utf8_lossy(&output.stderr);
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(5), "{told}{said}");
        assert!(told.contains(word), "{told}{said}");
        assert!(said.contains("plugin `rogue` fails"), "{told}{said}");
    }
}
