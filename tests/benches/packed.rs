//! Unpacking to BF16 against a plain cast of as many values from F32 to BF16, in turn in each round; and FP8 to Q4_K_M against
//! the same values in BF16 to Q4_K_M.
//!
//! `cargo build --release && cargo bench -p apr-tests --bench packed [-- --mib 512 --rounds 5 --only NAME]`
//!
//! `--mib` is what is written. Prints each scheme's rate in bytes written, the cast's in the same rounds, their ratio (the median of
//! the rounds'), by the clock and in processor time, and the peak private memory. The folder is the system's for temporary files, or
//! `APR_BENCH_DIR`; one in memory shows the work without the disk.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use bench::{apr, argument, median, noise, number, peak_private, scratch, timed};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

/// The target: at least this much of the plain cast's rate.
const TARGET_RATE: f64 = 0.6;
/// From FP8 to Q4_K_M in one pass takes at most so much of the time from BF16.
const TARGET_BLOCKS: f64 = 1.3;
/// Private memory at most, in MiB.
const TARGET_MIB: f64 = 128.0;
/// Columns of every weight, and rows of one.
const COLUMNS: u64 = 4096;
const ROWS: u64 = 4096;

/// What a tensor's bytes are.
#[derive(Clone)]
enum Fill {
    /// Any bytes; where the mask has no bit, there is none.
    Noise(u64),
    /// The same bytes again and again.
    Again(Vec<u8>),
}

/// A part of a weight: the end of its name, type, shape, bytes.
type Part = (&'static str, &'static str, Vec<u64>, Fill);

/// A way to pack weights: its name, what the configuration says, and a weight's parts.
struct Case {
    name: &'static str,
    config: Json,
    parts: Vec<Part>,
}

fn again(value: f32) -> Fill {
    Fill::Again(value.to_le_bytes().to_vec())
}

/// The sixteen values of NF4, as `bitsandbytes.functional` lists them, to three places.
const NF4: [f32; 16] = [
    -1.0, -0.696, -0.525, -0.395, -0.284, -0.185, -0.091, 0.0, 0.08, 0.161, 0.246, 0.338, 0.441, 0.563,
    0.723, 1.0,
];

fn cases() -> Vec<Case> {
    let all = ROWS * COLUMNS;
    let half = || Fill::Again(0x1c00u16.to_le_bytes().to_vec());
    let state = json!({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [ROWS, COLUMNS]})
        .to_string();
    let table = NF4.iter().flat_map(|value| value.to_le_bytes()).collect();
    let order: Vec<u8> = (0..COLUMNS).flat_map(|column| ((column / 128) as u32).to_le_bytes()).collect();
    vec![
        Case {
            name: "fp8-block",
            config: json!({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}),
            parts: vec![
                // Without the fourth bit, no code is one of those that are no numbers.
                (".weight", "F8_E4M3", vec![ROWS, COLUMNS], Fill::Noise(0xf7f7_f7f7_f7f7_f7f7)),
                (".weight_scale_inv", "F32", vec![ROWS / 128, COLUMNS / 128], again(0.000_123)),
            ],
        },
        Case {
            name: "gptq-4",
            config: json!({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true, "desc_act": false}),
            parts: vec![
                (".qweight", "I32", vec![COLUMNS / 8, ROWS], Fill::Noise(u64::MAX)),
                (".qzeros", "I32", vec![COLUMNS / 128, ROWS / 8], Fill::Again(vec![0x77])),
                (".scales", "F16", vec![COLUMNS / 128, ROWS], half()),
                (".g_idx", "I32", vec![COLUMNS], Fill::Again(order)),
            ],
        },
        Case {
            name: "nf4",
            config: json!({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}),
            parts: vec![
                (".weight", "U8", vec![all / 2, 1], Fill::Noise(u64::MAX)),
                (".weight.absmax", "F32", vec![all / 64], again(0.031)),
                (".weight.quant_map", "F32", vec![16], Fill::Again(table)),
                (
                    ".weight.quant_state.bitsandbytes__nf4",
                    "U8",
                    vec![state.len() as u64],
                    Fill::Again(state.into()),
                ),
            ],
        },
        Case {
            name: "mxfp4",
            config: json!({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {"group_0": {
                "format": "mxfp4-pack-quantized", "targets": ["Linear"], "weights": {"num_bits": 4, "type": "float",
                "strategy": "group", "group_size": 32, "symmetric": true}}}}),
            parts: vec![
                (".weight_packed", "U8", vec![ROWS, COLUMNS / 2], Fill::Noise(u64::MAX)),
                (".weight_scale", "U8", vec![ROWS, COLUMNS / 32], Fill::Again(vec![120])),
            ],
        },
        Case {
            name: "gpt-oss, whose weights are turned",
            config: json!({"quant_method": "mxfp4"}),
            parts: vec![
                ("_blocks", "U8", vec![1, ROWS, COLUMNS / 32, 16], Fill::Noise(u64::MAX)),
                ("_scales", "U8", vec![1, ROWS, COLUMNS / 32], Fill::Again(vec![120])),
            ],
        },
        Case {
            name: "plain",
            config: Json::Null,
            parts: vec![(".weight", "F32", vec![ROWS, COLUMNS], Fill::Noise(CLEAN))],
        },
    ]
}

/// The bits of two floats whose size is about one: neither infinite nor tiny.
const CLEAN: u64 = 0xbfff_ffff_bfff_ffff;

/// A folder with `n` weights packed in one way.
fn write(folder: &Path, case: &Case, n: u64) {
    std::fs::create_dir_all(folder).unwrap();
    let mut config = json!({"model_type": "none", "torch_dtype": "bfloat16"});
    if !case.config.is_null() {
        config["quantization_config"] = case.config.clone();
    }
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let (mut header, mut at) = (serde_json::Map::new(), 0);
    for weight in 0..n {
        for (end, dtype, shape, _) in &case.parts {
            let width = match *dtype {
                "F32" | "I32" => 4,
                "F16" => 2,
                _ => 1,
            };
            let len = shape.iter().product::<u64>() * width;
            let name = format!("model.layers.{weight}.mlp.experts.up_proj{end}");
            header.insert(name, json!({"dtype": dtype, "shape": shape, "data_offsets": [at, at + len]}));
            at += len;
        }
    }
    let header = Json::Object(header).to_string();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(folder.join("model.safetensors")).unwrap());
    out.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    out.write_all(header.as_bytes()).unwrap();
    let mut words = noise(0x9e37_79b9_7f4a_7c15);
    for part in (0..n).flat_map(|_| &case.parts) {
        let (_, dtype, shape, fill) = part;
        let width = match *dtype {
            "F32" | "I32" => 4,
            "F16" => 2,
            _ => 1,
        };
        let len = (shape.iter().product::<u64>() * width) as usize;
        match fill {
            Fill::Noise(mask) => {
                let bytes: Vec<u8> = words
                    .by_ref()
                    .take(len.div_ceil(8))
                    .flat_map(|word| (word & mask).to_le_bytes())
                    .collect();
                out.write_all(&bytes[..len]).unwrap();
            }
            Fill::Again(bytes) => {
                let bytes: Vec<u8> = bytes.iter().copied().cycle().take(len).collect();
                out.write_all(&bytes).unwrap();
            }
        }
    }
    out.flush().unwrap();
}

/// What two commands took in the same rounds.
struct Rounds {
    /// Medians of their times in seconds.
    seconds: (f64, f64),
    /// The medians of the second one's time over the first's, by the clock and of the processor.
    ratios: (f64, f64),
}

/// Runs two commands in turn, each first in every second round; once before, which does not count.
fn in_turn(rounds: u64, own: &dyn Fn() -> Command, other: &dyn Fn() -> Command) -> Rounds {
    let once = |command: &dyn Fn() -> Command| {
        let mut command = command();
        let began = bench::cpu_seconds_of_commands();
        (timed(&mut command), bench::cpu_seconds_of_commands() - began)
    };
    once(own);
    once(other);
    let (mut owns, mut others, mut ratios, mut of_cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (a, b) = match round % 2 {
            0 => (once(own), once(other)),
            _ => {
                let b = once(other);
                (once(own), b)
            }
        };
        owns.push(a.0);
        others.push(b.0);
        ratios.push(b.0 / a.0);
        of_cpu.push(b.1 / a.1);
    }
    Rounds {
        seconds: (median(&mut owns), median(&mut others)),
        ratios: (median(&mut ratios), median(&mut of_cpu)),
    }
}

/// Says how much private memory a command takes.
fn say_private(name: &str, command: &mut Command) {
    let private = peak_private(command) / f64::from(1 << 20);
    let verdict = bench::verdict(private <= TARGET_MIB);
    println!("{name}: {private:.1} MiB private (at most {TARGET_MIB}): {verdict}");
}

fn main() {
    let (mib, rounds) = (number("--mib", 512), number("--rounds", 5));
    let only = argument("--only").unwrap_or_default();
    let folder = scratch("packed");
    let n = ((mib << 20) / (2 * ROWS * COLUMNS)).max(1);
    let written = (n * 2 * ROWS * COLUMNS) as f64 / 1e9;
    println!(
        "{written:.2} GB of BF16 written, {rounds} rounds, {} CPUs, folder {}",
        bench::cpus(),
        bench::file_system(&folder)
    );
    let inputs = folder.join("in");
    let command = |case: &str, as_what: [&str; 2], output: &str| {
        let output = folder.join(output);
        let _ = std::fs::remove_file(&output);
        let mut command = Command::new(apr());
        command
            .args(["convert", "--force", "-q", "--arch", "none"])
            .args(as_what)
            .arg(inputs.join(case).join("model.safetensors"))
            .arg(&output);
        command
    };
    let mut cases = cases();
    let plain = cases.pop().unwrap();
    write(&inputs.join(plain.name), &plain, n);
    let cast = || command(plain.name, ["--precision", "bf16"], "out.safetensors");
    for case in cases.iter().filter(|case| case.name.contains(&only)) {
        write(&inputs.join(case.name), case, n);
        let unpacked = || command(case.name, ["--dequantize", "bf16"], "out.safetensors");
        let Rounds { seconds, ratios } = in_turn(rounds, &unpacked, &cast);
        println!(
            "{}: {:.2} GB/s, plain cast {:.2} GB/s, ratio {:.2} (at least {TARGET_RATE}): {}; of processor time {:.2}",
            case.name,
            written / seconds.0,
            written / seconds.1,
            ratios.0,
            bench::verdict(ratios.0 >= TARGET_RATE),
            ratios.1
        );
        say_private(case.name, &mut unpacked());
        std::fs::remove_dir_all(inputs.join(case.name)).unwrap();
    }
    // From codes to blocks in one pass, and from BF16.
    let name = "fp8-block to Q4_K_M";
    if name.contains(&only) {
        let case = cases.iter().find(|case| case.name == "fp8-block").unwrap();
        write(&inputs.join(case.name), case, n);
        // The same values: how long blocks take depends on them.
        std::fs::create_dir_all(inputs.join("bf16")).unwrap();
        timed(&mut command(case.name, ["--dequantize", "bf16"], "in/bf16/model.safetensors"));
        let blocks = |case: &str| command(case, ["--quantize", "Q4_K_M"], "out.gguf");
        let Rounds { seconds, ratios } = in_turn(rounds, &|| blocks(case.name), &|| blocks("bf16"));
        let share = 1.0 / ratios.0;
        println!(
            "{name}: {:.2} s, from BF16 {:.2} s: {share:.2} of it (at most {TARGET_BLOCKS}): {}; of processor time {:.2}",
            seconds.0,
            seconds.1,
            bench::verdict(share <= TARGET_BLOCKS),
            1.0 / ratios.1
        );
        say_private(name, &mut blocks(case.name));
    }
    let _ = std::fs::remove_dir_all(&folder);
}
