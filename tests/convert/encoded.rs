//! Encoded payload, with a toy codec: it decodes to what was encoded, the bytes are the same whatever the threads, and a
//! plan says what may come.

use crate::resume::stopping_at;
use apr_engine::open::{Held, Listed};
use apr_engine::planned::quantization::Quantization;
use apr_engine::planned::request::VerifyMode;
use apr_engine::progress::Progress;
use apr_host::convert::{ConvertOptions, convert, plan};
use apr_host::host::Host;
use apr_sdk::{DType, ErrorKind, LogLevel};
use apr_testkit::Checkpoint;
use apr_tests::kinds::{self, Kind, Tensor};
use apr_tests::runs::{self, codec};
use apr_tests::{Scratch, must, options};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// A host with the toy formats.
pub fn host() -> Host {
    let mut host = apr_tests::host();
    apr_host::plugins::add_bundled(&mut host.registry, &kinds::PLUGIN);
    apr_host::plugins::add_bundled(&mut host.registry, &runs::PLUGIN);
    host
}

fn with_threads(threads: usize) -> Host {
    let mut host = host();
    host.set_threads(threads);
    host
}

/// Bytes of which some shrink and others do not.
pub fn mixed(len: usize, seed: u64) -> Vec<u8> {
    let mut random = apr_testkit::Random::new(seed);
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        let bits = random.bits();
        match bits >> 63 {
            0 => out.extend(std::iter::repeat_n(bits.to_le_bytes()[0], 1 + (bits >> 40 & 0xfff) as usize)),
            _ => (0..40).for_each(|_| out.extend(random.bits().to_le_bytes())),
        }
    }
    out.truncate(len);
    out
}

/// A tensor of bytes that lie as `kind` says.
fn bytes(name: &str, kind: Kind, len: usize, seed: u64) -> Tensor {
    Tensor::new(name, kind, DType::U8, &[len as u64], mixed(len, seed))
}

/// Tensors of every kind of payload, of many lengths.
fn model() -> Vec<Tensor> {
    let turned = |name, kind, rows: u64, columns: u64, seed| {
        let mut tensor =
            Tensor::new(name, kind, DType::U16, &[columns, rows], mixed((2 * rows * columns) as usize, seed));
        tensor.strides = vec![1, columns];
        tensor
    };
    let mut large = bytes("large", Kind::Blocks, (6 << 20) + 5, 6);
    large.size = 5 << 20;
    vec![
        bytes("plain", Kind::Plain, (3 << 20) + 17, 1),
        bytes("empty", Kind::Plain, 0, 2),
        bytes("one", Kind::Plain, 1, 3),
        turned("turned", Kind::View, 700, 900, 4),
        bytes("stream", Kind::Stream, (1 << 20) + 3, 5),
        large,
        bytes("blocks", Kind::Blocks, (1 << 20) + 999, 7),
        turned("swapped", Kind::BigView, 300, 500, 8),
        bytes("empty_stream", Kind::Stream, 0, 9),
        bytes("empty_blocks", Kind::Blocks, 0, 10),
        bytes("last", Kind::Plain, 70_000, 11),
    ]
}

/// Sets options of the toy format.
pub fn set(options: &mut ConvertOptions, given: &[(&str, &str)]) {
    let of =
        |(name, value): &(&str, &str)| (Some("runs".to_owned()), (*name).to_owned(), (*value).to_owned());
    options.options.extend(given.iter().map(of));
}

/// Encodes `input` as `given` says, with several widths; gives the bytes, after the way back gave what was there.
fn check(scratch: &Scratch, input: &Path, given: &[(&str, &str)]) -> Vec<u8> {
    must(&host(), &options(input, &scratch.at("plain.kinds")));
    let mut first = None;
    for (threads, verify) in [(1, VerifyMode::Full), (2, VerifyMode::Quick), (7, VerifyMode::Off)] {
        let mut o = options(input, &scratch.at("out.runs"));
        (o.verify, o.force) = (verify, true);
        set(&mut o, given);
        let done = must(&with_threads(threads), &o);
        let made = fs::read(scratch.at("out.runs")).unwrap();
        assert_eq!(done.bytes, made.len() as u64);
        let first = first.get_or_insert_with(|| made.clone());
        assert!(*first == made, "{given:?} with {threads} threads");
        let said = done.verified.join(", ");
        assert_eq!(said.contains("encoded unit"), verify != VerifyMode::Off, "{said}");
    }
    must(&host(), &options(&scratch.at("out.runs"), &scratch.at("back.kinds")));
    let same = fs::read(scratch.at("plain.kinds")).unwrap() == fs::read(scratch.at("back.kinds")).unwrap();
    assert!(same, "{given:?}");
    fs::remove_file(scratch.at("plain.kinds")).unwrap();
    fs::remove_file(scratch.at("back.kinds")).unwrap();
    first.unwrap()
}

#[test]
fn every_payload_comes_back_and_threads_make_no_difference() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.kinds");
    fs::write(&input, kinds::file(model())).unwrap();
    let cases: [&[(&str, &str)]; 6] = [
        &[],
        &[("block", "1000"), ("align", "64"), ("raw", "one,turned,last")],
        &[("block", "1048576"), ("raw", "plain,stream,blocks")],
        &[("block", "3000001"), ("align", "4096"), ("raw", "large")],
        &[("block", "200000000")],
        &[("codec", "9"), ("raw", "swapped")],
    ];
    for given in cases {
        let made = check(&scratch, &input, given);
        let whole = fs::metadata(&input).unwrap().len();
        assert!((made.len() as u64) < whole * 9 / 10, "{} of {whole}", made.len());
    }
    // Small blocks of a small model.
    fs::write(&input, kinds::file(vec![bytes("a", Kind::Plain, 5000, 1), bytes("b", Kind::Stream, 77, 2)]))
        .unwrap();
    for block in ["1", "7", "4999", "5000", "5001"] {
        check(&scratch, &input, &[("block", block)]);
    }
}

#[test]
fn memory_gives_the_bytes_that_files_give() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.kinds");
    fs::write(&input, kinds::file(model())).unwrap();
    let mut o = options(&input, &scratch.at("out.runs"));
    set(&mut o, &[("raw", "last,turned"), ("align", "64")]);
    must(&host(), &o);
    for threads in [1, 3] {
        let mut host = with_threads(threads);
        let held: Arc<dyn apr_engine::place::Backing> = Arc::new(Held(fs::read(&input).unwrap().into()));
        host.places = Arc::new(Listed { files: [("in.kinds".to_owned(), held)].into(), ..Listed::default() });
        let of_memory =
            ConvertOptions { input: "in.kinds".into(), output: Some("out.runs".into()), ..o.clone() };
        let made = apr_tests::in_memory(&host, &of_memory).unwrap();
        assert!(made.files == [("out.runs".to_owned(), fs::read(scratch.at("out.runs")).unwrap())]);
    }
}

#[test]
fn values_that_change_on_their_way_are_encoded_as_they_are_written() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.safetensors");
    let (rows, columns) = (700, 1024);
    let values = crate::quantize::values(rows * columns, 1);
    crate::quantize::write(
        &input,
        &[("a.weight", &[rows, columns], &values), ("b.weight", &[columns], &values[..columns])],
    );
    for recipe in ["Q8_0", "F16"] {
        let quantization = Quantization { recipe: Some(recipe.to_owned()), ..Quantization::default() };
        let of = |output: &str| ConvertOptions {
            quantization: quantization.clone(),
            ..options(&input, &scratch.at(output))
        };
        let plain = must(&host(), &of("plain.kinds"));
        let mut o = of("out.runs");
        set(&mut o, &[("block", "30000"), ("raw", "b.weight")]);
        let done = must(&host(), &o);
        assert_eq!((&done.quantized, &done.changed), (&plain.quantized, &plain.changed));
        must(&host(), &options(&scratch.at("out.runs"), &scratch.at("back.kinds")));
        assert!(fs::read(scratch.at("plain.kinds")).unwrap() == fs::read(scratch.at("back.kinds")).unwrap());
        for name in ["plain.kinds", "out.runs", "back.kinds"] {
            fs::remove_file(scratch.at(name)).unwrap();
        }
    }
}

#[test]
fn a_folder_has_encoded_parts() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.kinds");
    fs::write(&input, kinds::file(model())).unwrap();
    for threads in [1, 4] {
        let mut o = options(&input, &scratch.at("out"));
        (o.to, o.verify, o.force) = (Some("shelf".to_owned()), VerifyMode::Full, true);
        set(&mut o, &[("raw", "last,one"), ("block", "9000")]);
        must(&with_threads(threads), &o);
        let mut back = options(&scratch.at("out"), &scratch.at("back.kinds"));
        back.force = true;
        must(&host(), &back);
        for n in [0, 1] {
            let half =
                model().into_iter().enumerate().filter(|(at, _)| at % 2 == n).map(|(_, tensor)| tensor);
            fs::write(scratch.at("half.kinds"), kinds::file(half.collect())).unwrap();
            must(
                &host(),
                &ConvertOptions {
                    force: true,
                    ..options(&scratch.at("half.kinds"), &scratch.at("half-plain.kinds"))
                },
            );
            let part = ["even", "odd"][n];
            let mut alone = options(&scratch.at(&format!("out/{part}.runs")), &scratch.at("half-back.kinds"));
            alone.force = true;
            must(&host(), &alone);
            assert!(
                fs::read(scratch.at("half-plain.kinds")).unwrap()
                    == fs::read(scratch.at("half-back.kinds")).unwrap()
            );
        }
    }
}

#[test]
fn a_plan_says_what_is_a_bound() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.kinds");
    let tensors = vec![
        bytes("first", Kind::Plain, 100, 1),
        bytes("second", Kind::Plain, 100_000, 2),
        bytes("third", Kind::Plain, 10, 3),
    ];
    fs::write(&input, kinds::file(tensors)).unwrap();
    let mut o = options(&input, &scratch.at("out.runs"));
    set(&mut o, &[("raw", "first,third"), ("block", "50000")]);
    let planned = plan(&host(), &o).unwrap();
    let of: Vec<_> = planned.tensors.iter().map(|tensor| (tensor.is_bound, tensor.bytes)).collect();
    assert_eq!(of, [(false, 100), (true, 100_002), (true, 10)]);
    assert!(planned.is_bound && planned.files[0].is_bound);
    let text = planned.to_string();
    assert!(text.contains(&format!("at most {} bytes to write", planned.bytes)), "{text}");
    let done = must(&host(), &o);
    // The lengths of two blocks are appended.
    assert!(done.bytes <= planned.bytes + 8, "{} {}", done.bytes, planned.bytes);
    let json = serde_json::to_value(&planned).unwrap();
    assert_eq!(json["tensors"][0].get("is_bound"), None);
    assert_eq!((&json["tensors"][1]["is_bound"], &json["is_bound"]), (&true.into(), &true.into()));
    let mut raw = options(&input, &scratch.at("plain.kinds"));
    raw.verify = VerifyMode::Off;
    assert!(!plan(&host(), &raw).unwrap().to_string().contains("at most"));
}

#[test]
fn a_codec_that_breaks_the_contract_leaves_nothing() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.kinds");
    let small = vec![
        bytes("plain", Kind::Plain, (3 << 20) + 17, 1),
        bytes("empty", Kind::Plain, 0, 2),
        bytes("stream", Kind::Stream, 70_000, 3),
    ];
    fs::write(&input, kinds::file(small)).unwrap();
    let names = scratch.names();
    let cases = [
        (codec::TOO_LONG, ErrorKind::Plugin, "claims to have written"),
        (codec::NOTHING, ErrorKind::Plugin, "to 0 bytes"),
        (codec::FAILS, ErrorKind::Failed, "no such run"),
        (codec::PANICS, ErrorKind::Plugin, "on purpose"),
        (codec::OTHER, ErrorKind::Failed, "does not decode to the original bytes"),
        (codec::NO_BOUND, ErrorKind::Unsupported, "who knows"),
        (codec::HUGE_BOUND, ErrorKind::Plugin, "gives a bound of"),
        (codec::WRONG_LENGTHS, ErrorKind::Failed, "the reader found it elsewhere"),
    ];
    for (number, kind, message) in cases {
        for threads in [1, 4] {
            for at in ["0", "40"] {
                let mut o = options(&input, &scratch.at("out.runs"));
                o.verify = VerifyMode::Full;
                set(&mut o, &[("codec", &number.to_string()), ("at", at)]);
                let error = convert(&with_threads(threads), &o).map(drop).unwrap_err();
                assert_eq!(error.kind(), kind, "{number} {threads} {at}: {error}");
                assert!(error.message().contains(message), "{number} {threads} {at}: {error}");
                assert_eq!(scratch.names(), names, "{number}");
            }
        }
    }
    // What is not read back stays unnoticed, and only that.
    let mut o = options(&input, &scratch.at("out.runs"));
    set(&mut o, &[("codec", "6"), ("at", "0")]);
    assert!(convert(&host(), &o).is_err(), "the first unit of a file is always read back");
    o.verify = VerifyMode::Off;
    must(&host(), &o);
}

#[test]
fn blocks_of_no_size_are_refused() {
    let scratch = Scratch::in_memory();
    fs::write(scratch.at("in.kinds"), kinds::file(vec![bytes("a", Kind::Plain, 10, 1)])).unwrap();
    for block in ["0", "268435457", "18446744073709551615"] {
        let mut o = options(&scratch.at("in.kinds"), &scratch.at("out.runs"));
        set(&mut o, &[("block", block)]);
        let error = convert(&host(), &o).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Plugin, Some("a")), "{error}");
    }
}

/// Panics once some bytes are written.
struct PanicAt(u64);

impl Progress for PanicAt {
    fn bytes(&self, done: u64, _total: u64, _what: &str) {
        assert!(done < self.0, "on purpose");
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}

#[test]
fn a_panic_or_a_stop_wakes_those_who_wait() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.kinds");
    fs::write(&input, kinds::file(model())).unwrap();
    let names = scratch.names();
    for mib in [1, 4, 9] {
        for threads in [1, 2, 16] {
            let mut host = with_threads(threads);
            host.progress = Arc::new(PanicAt(mib << 20));
            let mut o = options(&input, &scratch.at("out.runs"));
            set(&mut o, &[("codec", "9"), ("block", "300000")]);
            let error = convert(&host, &o).map(drop).unwrap_err();
            assert!(error.message().contains("panicked"), "{error}");
            let (host, _) = stopping_at(with_threads(threads), mib << 20);
            let error = convert(&host, &o).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            fs::remove_file(scratch.at(".out.runs.apr-part")).unwrap();
            fs::remove_file(scratch.at(".out.runs.apr-journal")).unwrap();
            assert_eq!(scratch.names(), names);
        }
    }
}

#[test]
fn blocks_that_only_one_thread_at_a_time_holds_do_not_block_each_other() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.kinds");
    let tensor = |n: u64| Tensor { size: 5 << 20, ..bytes(&format!("t{n}"), Kind::Blocks, (6 << 20) + 1, n) };
    fs::write(&input, kinds::file((0..3).map(tensor).collect())).unwrap();
    must(&host(), &options(&input, &scratch.at("plain.kinds")));
    for round in 0..3 {
        let mut o = options(&input, &scratch.at("out.runs"));
        o.force = true;
        set(&mut o, &[("raw", "t1"), ("codec", if round == 0 { "9" } else { "1" })]);
        must(&with_threads(8), &o);
    }
    must(&host(), &options(&scratch.at("out.runs"), &scratch.at("back.kinds")));
    assert!(fs::read(scratch.at("plain.kinds")).unwrap() == fs::read(scratch.at("back.kinds")).unwrap());
}

#[test]
fn what_is_gathered_across_the_order_of_the_output_is_spooled() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.kinds");
    let side = 3000;
    let mut turned = Tensor::new("t", Kind::View, DType::U8, &[side, side], mixed((side * side) as usize, 1));
    turned.strides = vec![1, side];
    let plain = bytes("u", Kind::Plain, 5000, 2);
    fs::write(&input, kinds::file(vec![turned, plain])).unwrap();
    must(&host(), &options(&input, &scratch.at("plain.kinds")));
    for raw in ["", "t"] {
        let mut o = options(&input, &scratch.at("out.runs"));
        o.force = true;
        set(&mut o, &[("raw", raw)]);
        let planned = plan(&host(), &o).unwrap();
        let is_spooled =
            planned.notes.iter().any(|note| note.starts_with("9000000 bytes are spooled next to the output"));
        // In front of the first that is encoded, it is written where it goes.
        assert_eq!(is_spooled, raw.is_empty(), "{:?}", planned.notes);
        must(&with_threads(3), &o);
        must(
            &host(),
            &ConvertOptions { force: true, ..options(&scratch.at("out.runs"), &scratch.at("back.kinds")) },
        );
        assert!(fs::read(scratch.at("plain.kinds")).unwrap() == fs::read(scratch.at("back.kinds")).unwrap());
    }
}

#[test]
fn experts_that_are_stacked_are_encoded_as_one() {
    let scratch = Scratch::in_memory();
    let model = Checkpoint::golden(&apr_tests::root().join("tests/golden/mixtral")).unwrap();
    model.write_to(&scratch.at("in")).unwrap();
    let of = |output: &str, given: &[(&str, &str)]| {
        let mut o = ConvertOptions { arch: None, ..options(&scratch.at("in"), &scratch.at(output)) };
        (o.to, o.verify, o.force) = (Some("runs_gguf".to_owned()), VerifyMode::Full, true);
        let given = given
            .iter()
            .map(|(name, value)| (Some("runs_gguf".to_owned()), (*name).to_owned(), (*value).to_owned()));
        o.options.extend(given);
        o
    };
    let names: Vec<_> =
        plan(&host(), &of("raw.runs", &[])).unwrap().tensors.into_iter().map(|tensor| tensor.name).collect();
    assert!(names.iter().any(|name| name.ends_with("ffn_down_exps.weight")), "{names:?}");
    must(&host(), &of("raw.runs", &[("raw", &names.join(","))]));
    must(&host(), &options(&scratch.at("raw.runs"), &scratch.at("raw.kinds")));
    for (threads, block) in [(1, "100"), (3, "1000"), (2, "77777")] {
        must(&with_threads(threads), &of("out.runs", &[("block", block)]));
        must(
            &host(),
            &ConvertOptions { force: true, ..options(&scratch.at("out.runs"), &scratch.at("back.kinds")) },
        );
        assert!(
            fs::read(scratch.at("raw.kinds")).unwrap() == fs::read(scratch.at("back.kinds")).unwrap(),
            "{block}"
        );
    }
}
