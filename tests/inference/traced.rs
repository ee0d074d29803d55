//! Traces: they change no result, their figures are those of the values, and their documents have the shape that programs expect.

use crate::loading::{exact, loaded, trained};
use apr_host::running::{LoadOptions, Loaded};
use apr_inference::generation::Model;
use apr_inference::trace::{Figures, Recordings, Subject, Tracer};
use apr_tests::Scratch;
use serde_json::Value as Json;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// Tokens without a pattern.
fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|n| 3 + n * 37 % 1500).collect()
}

/// What is recorded of a prompt and three tokens after it, and the logits of all.
fn traced(loaded: &mut Loaded, ids: &[u32]) -> (Recordings, Vec<f32>) {
    let subject = Subject {
        runner: &mut loaded.runner,
        built: &loaded.built,
        specs: &loaded.specs,
        probes: &loaded.probes,
    };
    let mut tracer = Tracer::new(subject, &|| Duration::ZERO);
    let mut logits = tracer.feed(ids).unwrap().to_vec();
    for id in [5, 6, 7] {
        logits.extend_from_slice(tracer.feed(&[id]).unwrap());
    }
    (tracer.finish(), logits)
}

/// The options without a trace, with measures, and with values of their own.
fn ways(options: &LoadOptions) -> [LoadOptions; 3] {
    [
        options.clone(),
        LoadOptions { measures: true, ..options.clone() },
        LoadOptions { taps: true, ..options.clone() },
    ]
}

#[test]
fn a_trace_changes_no_bit_of_the_logits() {
    let ids = ids(90);
    for options in [exact(), LoadOptions { threads: 3, quantize: Some("Q8_0".to_owned()), ..exact() }] {
        let [plain, measured, tapped] = ways(&options).map(|options| {
            let mut loaded = loaded(&trained(), &options);
            let (_, logits) = traced(&mut loaded, &ids);
            logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        });
        // What a runner gives that nobody watches.
        let mut loaded = loaded(&trained(), &options);
        let mut logits = loaded.runner.feed(&ids).unwrap().to_vec();
        for id in [5, 6, 7] {
            logits.extend_from_slice(loaded.runner.feed(&[id]).unwrap());
        }
        let alone: Vec<u32> = logits.iter().map(|x| x.to_bits()).collect();
        assert!(alone == plain && alone == measured && alone == tapped);
    }
}

fn close(have: f64, want: f64, scale: f64) -> bool {
    (have - want).abs() <= 3e-6 * scale
}

fn assert_same(have: &Figures, want: &Figures, name: &str) {
    assert_eq!((have.least, have.greatest), (want.least, want.greatest), "{name}");
    let counts = |figures: &Figures| [figures.elements, figures.zeros, figures.not_finite];
    assert_eq!(counts(have), counts(want), "{name}");
    // A sum of F32 values may cancel.
    let scale = (want.squares * want.elements as f64).sqrt();
    assert!(close(have.sum, want.sum, scale), "{name}: {} {}", have.sum, want.sum);
    assert!(close(have.squares, want.squares, want.squares), "{name}: {} {}", have.squares, want.squares);
}

#[test]
fn figures_that_are_measured_are_those_of_the_values() {
    let [_, measured, tapped] = ways(&LoadOptions { threads: 2, ..exact() }).map(|options| {
        let mut loaded = loaded(&trained(), &options);
        traced(&mut loaded, &ids(150)).0
    });
    let pairs = [
        (&measured.prompt, &tapped.prompt),
        (measured.answer.as_ref().unwrap(), tapped.answer.as_ref().unwrap()),
    ];
    for (have, want) in pairs {
        assert_eq!((have.operations.len(), have.ids.len()), (want.operations.len(), want.ids.len()));
        for (have, want) in have.operations.iter().zip(&want.operations) {
            assert_eq!((&have.name, have.results.len()), (&want.name, want.results.len()));
            for (have, want) in have.results.iter().zip(&want.results) {
                assert_eq!((&have.name, have.rows.len()), (&want.name, want.rows.len()));
                assert_same(&have.figures, &want.figures, &want.name);
                for (have, want) in have.rows.iter().zip(&want.rows) {
                    assert_eq!(have.position, want.position);
                    assert_same(&have.figures, &want.figures, &format!("{want:?}"));
                }
            }
        }
    }
    // The logits are those of the last token alone.
    let logits = measured.prompt.operations.iter().find(|one| one.name == "logits").unwrap();
    assert_eq!(logits.results[0].rows.iter().map(|row| row.position).collect::<Vec<_>>(), [149]);
}

fn apr(folder: &Path, words: &[&str]) -> Output {
    let model = trained();
    let words = words.iter().map(|word| if *word == "MODEL" { model.to_str().unwrap() } else { word });
    Command::new(apr_tests::program()).args(words).current_dir(folder).output().unwrap()
}

fn json(output: &Output) -> Json {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn slices_of_a_chrome_trace_nest() {
    let scratch = Scratch::new();
    let words = ["trace", "MODEL", "--ids", "1,15,29,300", "-n", "2", "--format", "chrome", "--no-gpu"];
    let trace = json(&apr(scratch.path(), &words));
    let events = trace["traceEvents"].as_array().unwrap();
    let slices: Vec<&Json> = events.iter().filter(|event| event["ph"] == "X").collect();
    let count = |cat: &str| slices.iter().filter(|slice| slice["cat"] == cat).count();
    assert_eq!((count("step"), count("layer")), (3, 12));
    assert!(events.iter().any(|event| event["ph"] == "M" && event["name"] == "process_name"));
    // Those that are open: each slice lies within the last of them that has not ended.
    let mut open: Vec<(f64, f64)> = Vec::new();
    for slice in slices {
        let from = slice["ts"].as_f64().unwrap();
        let to = from + slice["dur"].as_f64().unwrap();
        assert!(slice["pid"] == 1 && slice["tid"] == 1 && to >= from);
        open.retain(|(_, end)| *end > from + 1e-6);
        if let Some((begin, end)) = open.last() {
            assert!(from >= begin - 1e-6 && to <= end + 1e-6, "{slice}");
        }
        open.push((from, to));
    }
}

/// Checks the history of an execution; returns its states by their names, each with its input and output.
fn states(history: &Json) -> Vec<(String, Json, Json)> {
    let mut states = Vec::new();
    let mut entered: Option<(String, Json)> = None;
    let events = history["events"].as_array().unwrap();
    let parsed = |text: &Json| -> Json { serde_json::from_str(text.as_str().unwrap()).unwrap() };
    let mut last = String::new();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["id"], number + 1);
        assert_eq!(event["previousEventId"], number);
        let at = event["timestamp"].as_str().unwrap();
        assert!(at.len() == 32 && at.ends_with("+00:00") && at.as_bytes()[10] == b'T', "{at}");
        assert!(at >= last.as_str(), "{at} comes after {last}");
        last = at.to_owned();
        let kind = event["type"].as_str().unwrap();
        match kind {
            "ExecutionStarted" => assert_eq!(number, 0),
            "TaskStateEntered" => {
                let details = &event["stateEnteredEventDetails"];
                assert!(details["inputDetails"]["truncated"].is_boolean());
                let name = details["name"].as_str().unwrap().to_owned();
                assert!(entered.replace((name, parsed(&details["input"]))).is_none());
            }
            "TaskStateExited" => {
                let details = &event["stateExitedEventDetails"];
                assert!(details["outputDetails"]["truncated"].is_boolean());
                let (name, input) = entered.take().unwrap();
                assert_eq!(details["name"], name.as_str());
                states.push((name, input, parsed(&details["output"])));
            }
            "ExecutionSucceeded" => {
                assert_eq!(number + 1, events.len());
                parsed(&event["executionSucceededEventDetails"]["output"]);
            }
            other => panic!("{other}"),
        }
    }
    assert!(entered.is_none());
    states
}

#[test]
fn a_history_has_numbered_and_linked_events_with_figures() {
    let scratch = Scratch::new();
    let words = ["run", "MODEL", "--raw", "Woe unto", "--temperature", "0", "-n", "4", "--no-gpu"];
    let plain = apr(scratch.path(), &words);
    let history = json(&apr(scratch.path(), &[&words[..], &["--trace"]].concat()));
    assert_eq!(history["schema"], "apr.trace.step-functions/1");
    assert_eq!(history["model"]["architecture"], "llama");
    assert_eq!(history["config"]["sampling"]["temperature"], 0.0);
    let all = states(&history);
    let names: Vec<&str> = all.iter().map(|(name, ..)| name.as_str()).collect();
    let wanted = ["TOKENIZE", "EMBED", "LAYER_0", "LAYER_1", "LAYER_2", "LAYER_3", "OUTPUT", "GENERATE"];
    assert_eq!(names, wanted);
    assert_eq!(all[0].1, "Woe unto");
    assert_eq!(all[0].2, all[1].1);
    let result = &all[2].2["operations"][0]["results"][0];
    assert_eq!(result["name"], "layer.0.attention.norm");
    assert!(["min", "max", "mean", "rms"].iter().all(|key| result[key].is_number()), "{result}");
    assert_eq!((&result["has_nan"], &result["nan"]), (&Json::Bool(false), &Json::from(0)));
    assert!(result["values"].is_null());
    let last = history["events"].as_array().unwrap().last().unwrap();
    let answer: Json =
        serde_json::from_str(last["executionSucceededEventDetails"]["output"].as_str().unwrap()).unwrap();
    assert_eq!(format!("{}\n", answer["text"].as_str().unwrap()), String::from_utf8_lossy(&plain.stdout));
    // With a file, stdout has the answer as without a trace.
    let with_file = [&words[..], &["--trace-output", "trace.json", "--trace-verbose"]].concat();
    assert_eq!(apr(scratch.path(), &with_file).stdout, plain.stdout);
    let written = std::fs::read_to_string(scratch.at("trace.json")).unwrap();
    let all = states(&serde_json::from_str(&written).unwrap());
    let values = &all[2].2["operations"][0]["results"][0]["values"];
    assert_eq!(values.as_array().unwrap().len(), 6);
}

#[test]
fn long_lists_are_cut_and_said_to_be() {
    let scratch = Scratch::new();
    let list: Vec<String> = ids(400).iter().map(u32::to_string).collect();
    let list = list.join(",");
    let words = ["trace", "MODEL", "--ids", &list, "--format", "step-functions", "--no-gpu"];
    let history = json(&apr(scratch.path(), &words));
    states(&history);
    let started = &history["events"][0]["executionStartedEventDetails"];
    assert_eq!(started["inputDetails"]["truncated"], true);
    let ids: Vec<u32> = serde_json::from_str(started["input"].as_str().unwrap()).unwrap();
    assert_eq!(ids.len(), 256);
}
