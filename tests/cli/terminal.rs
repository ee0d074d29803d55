//! `apr tui` and `apr chat` on a terminal: the program runs in a pseudo-terminal, keys are typed, and the screen is read.

use apr_tests::{Scratch, program};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long the program may take to show something, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program on a terminal of its own.
struct Terminal {
    child: Child,
    keys: File,
    /// Another handle of the program's side, which keeps the terminal alive when the program is gone.
    theirs: File,
    said: Receiver<Vec<u8>>,
    all: Vec<u8>,
    size: (u16, u16),
}

impl Terminal {
    /// Runs `apr` with these arguments on a terminal of this many rows and columns.
    fn run(folder: &Path, args: &[&str], size: (u16, u16)) -> Terminal {
        Terminal::run_as("xterm-256color", folder, args, size)
    }

    /// The same with another value of `TERM`.
    fn run_as(term: &str, folder: &Path, args: &[&str], size: (u16, u16)) -> Terminal {
        let mut command = Command::new(program());
        command.args(args).current_dir(folder).env_clear().env("HOME", folder).env("TERM", term);
        // The processor computes, whatever devices this machine has.
        command.env("CUDA_VISIBLE_DEVICES", "");
        Terminal::start(command, size)
    }

    /// Runs a command on a terminal.
    fn start(mut command: Command, size: (u16, u16)) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        set_size(&theirs, size);
        let stream = || theirs.try_clone().unwrap();
        command.stdin(stream()).stdout(stream()).stderr(stream());
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(|| {
                // Whoever runs the tests may ignore these signals, as `nohup` does, and a program inherits that.
                for signal in [libc::SIGINT, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                // The size is asked of the controlling terminal, which must be this one.
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop(command);
        let keys = File::from(ours);
        let mut out = keys.try_clone().unwrap();
        let (say, said) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n) = out.read(&mut buffer)
                && n > 0
                && say.send(buffer[..n].to_vec()).is_ok()
            {}
        });
        Terminal { child, keys, theirs, said, all: Vec::new(), size }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        self.all.clear();
        set_size(&self.theirs, size);
    }

    /// Waits until all of these stand on the screen, and returns it.
    fn shows(&mut self, wanted: &[&str]) -> String {
        let began = Instant::now();
        loop {
            let screen = screen(&self.all, self.size);
            if wanted.iter().all(|text| screen.contains(text)) {
                return screen;
            }
            match self.said.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
                Ok(bytes) => self.all.extend(bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{wanted:?} is not on the screen:\n{screen}")
                }
            }
        }
    }

    /// Waits until this was written since the last call, and forgets everything up to its end.
    fn says(&mut self, wanted: &str) {
        let began = Instant::now();
        loop {
            let said = String::from_utf8_lossy(&self.all).into_owned();
            if let Some(at) = said.find(wanted) {
                self.all = said[at + wanted.len()..].into();
                return;
            }
            match self.said.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
                Ok(bytes) => self.all.extend(bytes),
                Err(_) => panic!("{wanted:?} was not written: {said:?}"),
            }
        }
    }

    /// Waits for the end: the exit status, and all that was written, by which the terminal was taken and given back.
    fn ends(self) -> (ExitStatus, String) {
        let (status, said) = self.ends_untaken();
        let (taken, given) = (said.rfind("\x1b[?1049h"), said.rfind("\x1b[?1049l"));
        assert!(given.is_some() && taken < given, "the screen was not given back: {said:?}");
        assert!(said.rfind("\x1b[?25l") < said.rfind("\x1b[?25h"), "the cursor was not given back");
        (status, said)
    }

    /// The same for a program that did not take the screen; the terminal's modes must be what they were.
    fn ends_untaken(mut self) -> (ExitStatus, String) {
        let began = Instant::now();
        let status = loop {
            // A program that nobody reads from waits for ever.
            self.all.extend(self.said.try_iter().flatten());
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
            assert!(began.elapsed() < PATIENCE, "the program does not end");
        };
        while let Ok(bytes) = self.said.recv_timeout(Duration::from_millis(300)) {
            self.all.extend(bytes);
        }
        let modes = tcgetattr(&self.theirs).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        (status, String::from_utf8_lossy(&self.all).into_owned())
    }
}

fn set_size(terminal: &File, (rows, columns): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

/// What stands on the screen after these bytes: text, moves of the cursor and erasing are all that is understood.
fn screen(bytes: &[u8], (rows, columns): (u16, u16)) -> String {
    let (rows, columns) = (usize::from(rows), usize::from(columns));
    let mut cells = vec![vec![' '; columns]; rows];
    let (mut row, mut column) = (0, 0);
    let text = String::from_utf8_lossy(bytes);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.next() == Some('[') => {
                let body: String = chars.as_str().chars().take_while(|c| !c.is_ascii_alphabetic()).collect();
                let end = chars.nth(body.chars().count());
                let mut numbers = body.split(';').map(|n| n.parse::<usize>().unwrap_or(1) - 1);
                match end {
                    Some('H') => {
                        (row, column) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
                    }
                    Some('J') => cells.iter_mut().for_each(|row| row.fill(' ')),
                    _ => {}
                }
            }
            '\x1b' => {}
            '\r' => column = 0,
            '\n' => row += 1,
            c => {
                if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = c;
                }
                column += 1;
            }
        }
    }
    let lines = cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n");
    lines.collect::<String>().trim_end().to_owned() + "\n"
}

/// A scratch folder with two models, one with other values and a tensor more.
fn models() -> Scratch {
    let scratch = Scratch::new();
    let write = |name: &str, bias: f32, extra: bool| {
        let mut header = String::from("{");
        let mut payload: Vec<u8> = Vec::new();
        let mut add = |name: &str, shape: &str, values: &[f32]| {
            let from = payload.len();
            payload.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let comma = if header.len() > 1 { "," } else { "" };
            let to = payload.len();
            header +=
                &format!(r#"{comma}"{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#);
        };
        for layer in 0..3 {
            let ramp: Vec<f32> = (0u8..64).map(|n| f32::from(n) / 64.0 + bias).collect();
            add(&format!("layers.{layer}.up.weight"), "[8,8]", &ramp);
            add(&format!("layers.{layer}.norm.weight"), "[8]", &[1.0; 8]);
        }
        add("odd\\u001b[31m\\u202e.weight", "[2]", &[f32::NAN, 1.0]);
        if extra {
            add("only.here", "[1]", &[0.0]);
        }
        header.push('}');
        let mut file = u64::try_from(header.len()).unwrap().to_le_bytes().to_vec();
        file.extend(header.bytes());
        file.extend(payload);
        std::fs::write(scratch.path().join(name), file).unwrap();
    };
    write("model.safetensors", 0.0, false);
    write("other.safetensors", 0.5, true);
    scratch
}

#[test]
fn a_model_is_explored_with_keys() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = models();
    let args = ["tui", "model.safetensors", "other.safetensors"];
    let mut terminal = Terminal::run(scratch.path(), &args, (24, 80));
    terminal.shows(&["tensors: model.safetensors", "layers.0.up.weight", "[8, 8]", "1 of 7", "\\u{202e}"]);
    terminal.press("/UP\r");
    terminal.shows(&["1 of 3", "names with `UP`"]);
    terminal.press("\r");
    let histogram = terminal.shows(&["histogram", "layers.0.up.weight", "mean 0.49219", "tallest bar: 4"]);
    assert!(histogram.contains('█'), "{histogram}");
    terminal.press("c");
    terminal.shows(&["differs", "0.50000", "only in b", "with other.safetensors"]);
    terminal.press("g");
    terminal.shows(&["layers.0–2", "3 identical"]);
    terminal.resize((6, 40));
    terminal.shows(&["graph: mod", "layers.0–2", "[q]uit"]);
    terminal.resize((24, 80));
    // A key that comes together with a new size, or right behind an escape, may be taken for something else.
    terminal.shows(&["layers.0–2", "3 identical", "[q]uit"]);
    terminal.press("t");
    terminal.shows(&["1 of 3"]);
    terminal.press("\u{1b}");
    terminal.shows(&["1 of 7"]);
    terminal.press("s");
    terminal.shows(&["OK", "BAD", "parameters"]);
    terminal.press("?");
    terminal.shows(&["any key: back"]);
    terminal.press("xq");
    let (status, _) = terminal.ends();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_terminal_is_given_back_whatever_ends_the_program() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = models();
    let mut terminal = Terminal::run(scratch.path(), &["tui", "model.safetensors"], (24, 80));
    terminal.shows(&["1 of 7"]);
    terminal.press("\u{3}");
    let (status, said) = terminal.ends();
    assert_eq!(status.code(), Some(130));
    assert!(said.contains("stopped"), "{said:?}");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut terminal = Terminal::run(scratch.path(), &["tui", "model.safetensors"], (24, 80));
        terminal.shows(&["1 of 7"]);
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        assert_eq!(terminal.ends().0.code(), Some(130), "{signal:?}");
    }
}

#[test]
fn a_terminal_that_goes_ends_the_program_even_if_hang_ups_are_ignored() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = models();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" tui model.safetensors"]).arg(program());
    command.current_dir(scratch.path()).env_clear().env("HOME", scratch.path()).env("TERM", "xterm-256color");
    let mut terminal = Terminal::start(command, (24, 80));
    terminal.shows(&["1 of 7"]);
    let Terminal { mut child, keys, theirs, said, .. } = terminal;
    // What is drawn next finds nobody who reads, and then the last handle is closed.
    drop((keys, said));
    set_size(&theirs, (10, 40));
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the program does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_cannot_be_read_is_said_in_the_view() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = models();
    let path = scratch.path().join("model.safetensors");
    let mut terminal = Terminal::run(scratch.path(), &["tui", "model.safetensors"], (24, 80));
    terminal.shows(&["1 of 7"]);
    // Cut while it is open.
    let len = std::fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(len - 8).unwrap();
    terminal.press("s");
    terminal.shows(&["ERR"]);
    terminal.press("q");
    assert_eq!(terminal.ends().0.code(), Some(0));
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_is_refused() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = models();
    let args = ["tui", "model.safetensors"];
    let (status, said) = Terminal::run_as("dumb", scratch.path(), &args, (24, 80)).ends_untaken();
    assert_eq!(status.code(), Some(2));
    assert!(said.contains("apr inspect model.safetensors") && !said.contains("\x1b[?"), "{said:?}");
}

#[test]
fn a_terminal_of_any_size_is_drawn_or_refused() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = models();
    let args = ["tui", "model.safetensors"];
    let (status, said) = Terminal::run(scratch.path(), &args, (65535, 65535)).ends_untaken();
    assert_eq!(status.code(), Some(4), "{said:?}");
    assert!(said.contains("65535 columns and 65535 rows") && !said.contains("\x1b[?1049h"), "{said:?}");
    // One that becomes so large gives the terminal back.
    let mut terminal = Terminal::run(scratch.path(), &args, (24, 80));
    terminal.shows(&["[q]uit"]);
    set_size(&terminal.theirs, (65535, 65535));
    let (status, said) = terminal.ends();
    assert_eq!(status.code(), Some(4), "{said:?}");
}

/// A chat with the trained model, with more arguments.
fn chat(scratch: &Scratch, more: &[&str]) -> Terminal {
    let model = apr_tests::root().join("tests/model/weights");
    let args = ["chat", model.to_str().unwrap(), "--temperature", "0", "--cache-type", "f32"];
    Terminal::run(scratch.path(), &[&args[..], more].concat(), (24, 80))
}

#[test]
fn a_chat_answers_and_remembers_what_was_typed() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let mut terminal = chat(&scratch, &["--max-tokens", "8"]);
    terminal.says(">>> ");
    terminal.press("What did Moses say?\r");
    terminal.says("And the LORD said unto Moses");
    terminal.says(">>> ");
    terminal.press("\"\"\"two\r");
    terminal.says("... ");
    terminal.press("lines\"\"\"\r");
    terminal.says(">>> ");
    // Three lines up is the first.
    terminal.press("\u{1b}[A\u{1b}[A\u{1b}[A\r");
    terminal.says("What did Moses say?");
    terminal.says(">>> ");
    terminal.press("/exit\r");
    assert_eq!(terminal.ends_untaken().0.code(), Some(0));
    let history = std::fs::read_to_string(scratch.path().join(".local/state/apr/chat-history")).unwrap();
    assert_eq!(history.matches("What did Moses say?").count(), 2, "{history}");
    let mut terminal = chat(&scratch, &["--no-history"]);
    terminal.says(">>> ");
    terminal.press("/bye\r");
    assert_eq!(terminal.ends_untaken().0.code(), Some(0));
    assert_eq!(
        std::fs::read_to_string(scratch.path().join(".local/state/apr/chat-history")).unwrap(),
        history
    );
}

#[test]
fn an_interrupt_ends_the_answer_and_two_at_the_prompt_the_chat() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    // Beyond the positions that it was trained for, the model does not come to an end.
    let mut terminal = chat(&scratch, &["--context", "16384", "--stop", "no such text"]);
    for _ in 0..2 {
        terminal.says(">>> ");
        terminal.press("What did Moses say?\r");
        terminal.says("And the LORD");
        terminal.press("\u{3}");
    }
    terminal.says(">>> ");
    terminal.press("/help\r");
    terminal.says("forget the conversation");
    terminal.says(">>> ");
    terminal.press("\u{3}");
    terminal.says("press Ctrl-C again");
    terminal.says(">>> ");
    terminal.press("\u{3}");
    assert_eq!(terminal.ends_untaken().0.code(), Some(130));
}

#[test]
fn a_kill_at_the_prompt_gives_the_terminal_back() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let mut terminal = chat(&scratch, &[]);
    terminal.says(">>> ");
    kill_process(Pid::from_child(&terminal.child), Signal::TERM).unwrap();
    assert_eq!(terminal.ends_untaken().0.code(), Some(130));
}

#[test]
fn a_trace_is_stepped_through_with_keys() {
    let _quiet = crate::QUIET.read().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let model = apr_tests::root().join("tests/model/weights");
    let model = model.to_str().unwrap();
    let args = ["trace", model, "--raw", "Woe unto", "--no-gpu", "--interactive"];
    let mut terminal = Terminal::run(scratch.path(), &args, (24, 110));
    terminal.shows(&["5 tokens, operation 1 of 49", "hidden (embed)", "5x256", "rms by token", "[q]uit"]);
    terminal.press("\x1b[C");
    terminal.shows(&["operation 2 of 49", "layer.0.attention.norm (norm)"]);
    // To the next layer, and back to the first of this one and of the one before.
    terminal.press("\x1b[B");
    terminal.shows(&["operation 13 of 49", "layer.1.attention.norm (norm)"]);
    terminal.press("\x1b[A");
    terminal.shows(&["operation 2 of 49"]);
    terminal.press("\r");
    terminal.shows(&["position", "<|begin_of_text|>"]);
    terminal.press("q");
    let (status, _) = terminal.ends();
    assert!(status.success());
    let args = ["trace", model, "--ids", "1,5", "--no-gpu", "--interactive", "--json"];
    let (status, said) = Terminal::run(scratch.path(), &args, (24, 80)).ends_untaken();
    assert_eq!(status.code(), Some(2), "{said}");
}
