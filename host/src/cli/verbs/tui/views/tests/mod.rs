//! Frames, as they stand on the screen: each in a file of `frames/`; `BLESS=1` writes them anew.

use super::{Theme, draw};
use crate::cli::verbs::tui::contents::Contents;
use crate::cli::verbs::tui::keys::Key;
use crate::cli::verbs::tui::state::{App, View};
use crate::cli::verbs::tui::worker::{Measured, News, Task};
use apr_engine::architecture::{Expected, Figure};
use apr_engine::contract::{Finding, RANGE, Severity};
use apr_engine::diff::{Counts, Diff, Status, TensorDiff, TensorSide, Values};
use apr_engine::verify::histogram::{Bin, Histogram};
use apr_engine::verify::stats::{End, Stats, TensorRow};
use apr_sdk::Error;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use std::fmt::Write;
use std::path::Path;

fn row(name: &str, dtype: &str, shape: &[u64], bytes: u64) -> TensorRow {
    TensorRow {
        name: name.to_owned(),
        dtype: dtype.to_owned(),
        shape: shape.to_vec(),
        bytes,
        file: None,
        offset: None,
        compressed: None,
        packed: None,
        sha256: None,
        stats: None,
        stats_missing: None,
        histogram: None,
    }
}

/// A model with one layer, whose names try to do more than they may.
fn contents() -> Contents {
    let mut rows = vec![row("token_embd.weight", "Q4_K", &[32000, 4096], 73_728_000)];
    rows.extend(
        ["attn_norm", "attn_q", "ffn_down", "ffn_norm"]
            .map(|name| row(&format!("blk.0.{name}.weight"), "F32", &[4096], 16384)),
    );
    rows.push(row("odd\u{1b}[31m\u{202e}名.a_very_long_name_that_does_not_fit.weight", "I8", &[], 1));
    Contents {
        path: "folder/model.x".to_owned(),
        other: None,
        format: "x".to_owned(),
        rows,
        summary: [("tensors", "6 tensors, 73.8 MB"), ("architecture", "llama"), ("warning", "odd\u{7}")]
            .map(|(label, text)| (label.to_owned(), text.to_owned()))
            .into(),
    }
}

fn measured(mean: f64) -> Measured {
    let stats = Stats {
        count: 4096,
        min: Some(End::new(mean - 1.0, 0.0)),
        max: Some(End::new(mean + 1.0, 0.0)),
        mean: Some(mean),
        std: Some(0.25),
        zeros: 3,
        nans: 0,
        infs: 0,
    };
    let from = |at: u32| mean - 1.0 + f64::from(at) / 10.0;
    let count = |at: u32| u64::from(100u32.saturating_sub((at.abs_diff(10)).pow(2)));
    let bins = (0..20).map(|at| Bin { from: from(at), to: from(at + 1), count: count(at) }).collect();
    let histogram = Some(Histogram { bins, nans: 0, infs: 0 });
    Measured { stats: Some(stats), histogram, is_whole: true, ..Measured::default() }
}

/// One tensor as expected, one outside of its range, one that cannot be read.
fn with_measurements(app: &mut App) {
    let ranges = vec![(Figure::Mean, [0.5, 3.0])];
    let expected = Some(Expected { ranges, must: false, source: "a table".to_owned() });
    let good = Measured { expected: expected.clone(), ..measured(1.0) };
    let finding = Finding {
        tensor: "blk.0.attn_q.weight".to_owned(),
        role: None,
        code: RANGE,
        severity: Severity::Warning,
        message: "its mean is 11.0983, outside the range 0.5 to 3 (a table)".to_owned(),
    };
    let bad = Measured { expected, findings: vec![finding], ..measured(11.0983) };
    let error = Some("model.x: at offset 40: the file is shorter".to_owned());
    let unread = Measured { error, is_whole: true, ..Measured::default() };
    let unexamined = Some("I8 contains no floats".to_owned());
    let other = Measured { unexamined, ..measured(0.0) };
    for (number, one) in [(1, good), (2, bad), (3, unread), (5, other)] {
        app.hear(News::Measured(number, Box::new(one)));
    }
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let key = match key {
            '\n' => Key::Enter,
            '\u{1b}' => Key::Esc,
            '\u{8}' => Key::Backspace,
            other => Key::Char(other),
        };
        assert_eq!(app.press(key), None);
    }
}

fn drawn(app: &mut App, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app, Theme { color: false })).unwrap();
    terminal
}

fn frame(app: &mut App, width: u16, height: u16) -> String {
    drawn(app, width, height).backend().to_string()
}

/// The frame of both sizes is as in the file.
fn check(name: &str, app: &mut App) {
    let mut have = String::new();
    for (width, height) in [(80, 24), (30, 8)] {
        writeln!(have, "{width} x {height}\n{}", frame(app, width, height)).unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/verbs/tui/views/tests/frames").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &have).unwrap();
    }
    let want = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(have, want, "BLESS=1 accepts {name}");
    for (width, height) in [(20, 5), (0, 0), (1, 1), (2, 2), (5, 3), (200, 2), (3, 60)] {
        drawn(app, width, height);
    }
}

#[test]
fn tensors() {
    let mut app = App::new(contents(), View::Tensors);
    check("tensors", &mut app);
    press(&mut app, "/NORM");
    check("filter", &mut app);
    press(&mut app, "zz");
    check("filter_without_a_hit", &mut app);
    check("no_tensors", &mut App::new(Contents::default(), View::Tensors));
}

#[test]
fn stats() {
    let mut app = App::new(contents(), View::Stats);
    with_measurements(&mut app);
    app.running = Some(Task::All);
    press(&mut app, "jj");
    check("stats", &mut app);
    app.hear(News::Ended(Ok(())));
    press(&mut app, "k");
    check("stats_as_expected", &mut app);
    check("stats_of_nothing", &mut App::new(Contents::default(), View::Stats));
}

#[test]
fn histogram() {
    let mut app = App::new(contents(), View::Histogram);
    app.running = Some(Task::Tensor(0));
    check("histogram_measuring", &mut app);
    with_measurements(&mut app);
    press(&mut app, "jj");
    check("histogram", &mut app);
    press(&mut app, "j");
    check("histogram_unreadable", &mut app);
    check("histogram_of_nothing", &mut App::new(Contents::default(), View::Histogram));
}

#[test]
fn graph() {
    let mut app = App::new(contents(), View::Graph);
    check("graph_waiting", &mut app);
    let lines = [("token_embd.weight", "Q4_K [32000, 4096]"), ("blk.0–31", "8 F32, 32 identical, each:")];
    let lines = lines.map(|(name, what)| crate::cli::verbs::tensors::tree::Line {
        name: name.to_owned(),
        parameters: 131_072_000,
        bytes: 73_728_000,
        what: what.to_owned(),
    });
    app.hear(News::Graph(lines.into()));
    check("graph", &mut app);
}

#[test]
fn compare() {
    let side = |name: &str, dtype: &str| {
        Some(TensorSide { name: name.to_owned(), dtype: dtype.to_owned(), shape: vec![4096] })
    };
    let pair = |status, a, b, max_abs: Option<f64>| {
        let values = max_abs.map(|max_abs| Values {
            count: 4096,
            differing: 7,
            mismatched: 0,
            finite: 4096,
            max_abs,
            max_at: vec![3],
            mean_abs: max_abs / 10.0,
            l2: 1.0,
            sums: apr_engine::diff::Sums::default(),
            relative: max_abs / 100.0,
            cosine: Some(0.99),
            max_ulp: None,
            nans: [0; 2],
            infs: [0; 2],
        });
        let (rounded_to, values_missing) = (None, None);
        TensorDiff { status, matters: true, a, b, values, rounded_to, values_missing }
    };
    let tensors = vec![
        pair(Status::OnlyInA, side("extra\u{202e}.weight", "F32"), None, None),
        pair(Status::Different, side("a.weight", "F32"), side("a.weight", "F16"), Some(10.0462)),
        pair(Status::Different, side("b.weight", "F32"), side("b.weight", "F32"), Some(0.0002)),
    ];
    let counts = Counts { identical: 164, different: 2, only_in_a: 1, ..Counts::default() };
    let found = Diff { same: false, counts, tensors, facts: Vec::new(), notes: Vec::new() };
    let mut app = App::new(contents(), View::Compare);
    check("compare_without_other", &mut app);
    app.contents.other = Some("folder/other.x".to_owned());
    (app.running, app.progress) = (Some(Task::Compare), Some((1, 3)));
    check("compare_waiting", &mut app);
    app.hear(News::Compared(Box::new(found)));
    app.hear(News::Ended(Ok(())));
    check("compare", &mut app);
    app.running = Some(Task::Compare);
    app.hear(News::Ended(Err(Error::malformed("the other is cut short").at(7))));
    check("compare_failed", &mut app);
}

#[test]
fn help() {
    let mut app = App::new(contents(), View::Tensors);
    press(&mut app, "?");
    check("help", &mut app);
    press(&mut app, "x");
    assert!(!app.help && app.view == View::Tensors);
}

#[test]
fn colors_are_used_only_where_they_are_wanted() {
    for color in [false, true] {
        let mut app = App::new(contents(), View::Stats);
        with_measurements(&mut app);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &mut app, Theme { color })).unwrap();
        let colored = terminal.backend().buffer().content.iter().any(|cell| cell.fg != Color::Reset);
        assert_eq!(colored, color);
    }
}

#[test]
fn a_hundred_thousand_tensors_stay_smooth() {
    let rows: Vec<TensorRow> =
        (0..100_000).map(|n| row(&format!("blk.{n}.weight"), "F32", &[8], 32)).collect();
    let mut app = App::new(Contents { rows, ..contents() }, View::Tensors);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let began = std::time::Instant::now();
    terminal.draw(|frame| draw(frame, &mut app, Theme { color: true })).unwrap();
    for _ in 0..500 {
        app.press(Key::PageDown);
        terminal.draw(|frame| draw(frame, &mut app, Theme { color: true })).unwrap();
    }
    // A hundred frames a second would do; if each looked at every tensor, this would take minutes.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    assert_eq!(app.list.at, 500 * 21);
}
