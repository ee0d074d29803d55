//! Three quantizations of a folder's weights in one run against three runs of their own, alternating, in wall time and
//! processor time; and whether the files are the same.
//!
//! `cargo bench -p apr-tests --bench together [-- --mib 256 --rounds 5 --threads 2 --vocabulary 0]`
//!
//! The model is a Llama of BF16 by its shapes and names, from a seed. `--vocabulary` is the share of its token embedding in
//! percent, which `Q4_K_M` and `Q5_K_M` both make `Q6_K`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use apr_engine::planned::quantization::Quantization;
use apr_host::convert::{ConvertOptions, convert, convert_all};
use apr_tests::{assert_same_file, host, options};
use bench::{argument, median, noise, number, scratch};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

const RECIPES: [&str; 3] = ["Q4_K_M", "Q5_K_M", "Q8_0"];

fn main() {
    let (mib, rounds) = (number("--mib", 256), number("--rounds", 5));
    let vocabulary = number("--vocabulary", 0);
    let recipes = argument("--types").unwrap_or_else(|| RECIPES.join(","));
    let recipes: Vec<&str> = recipes.split(',').collect();
    let folder = scratch("together");
    let input = folder.join("in.safetensors");
    model(&input, mib, vocabulary);
    let mut host = host();
    host.set_threads(usize::try_from(number("--threads", 2)).unwrap());
    let wanted = |name: &str, recipe: &str| {
        let quantization = Quantization { recipe: Some(recipe.to_owned()), ..Quantization::default() };
        let output = folder.join(format!("{name}-{recipe}.gguf"));
        ConvertOptions {
            arch: Some("none".to_owned()),
            quantization,
            force: true,
            ..options(&input, &output)
        }
    };
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let alone = timed(|| {
            for recipe in &recipes {
                convert(&host, &wanted("alone", recipe)).unwrap();
            }
        });
        let all: Vec<_> = recipes.iter().map(|recipe| wanted("together", recipe)).collect();
        let together = timed(|| {
            for done in convert_all(&host, &all).unwrap() {
                done.unwrap();
            }
        });
        println!(
            "alone {:.2} s wall, {:.2} s CPU; together {:.2} s, {:.2} s",
            alone[0], alone[1], together[0], together[1]
        );
        walls.push(together[0] / alone[0]);
        cpus.push(together[1] / alone[1]);
    }
    for recipe in &recipes {
        let file = |name: &str| folder.join(format!("{name}-{recipe}.gguf"));
        assert_same_file(&file("alone"), &file("together"));
    }
    println!(
        "{}: median ratio {:.2} of the wall time, {:.2} of the CPU time",
        recipes.join(","),
        median(&mut walls),
        median(&mut cpus)
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Wall time and processor time.
fn timed(work: impl FnOnce()) -> [f64; 2] {
    let (began, cpu) = (Instant::now(), bench::cpu_seconds());
    work();
    [began.elapsed().as_secs_f64(), bench::cpu_seconds() - cpu]
}

/// A SafeTensors file of about so many MiB.
fn model(path: &Path, mib: u64, vocabulary: u64) {
    const WIDTH: u64 = 1024;
    let weights = (mib << 20) / 2;
    let rows = (weights * vocabulary / 100 / WIDTH).max(512);
    let mut tensors = vec![("token_embd.weight".to_owned(), rows), ("output_norm.weight".to_owned(), 1)];
    let kinds = [
        ("attn_q", 1024),
        ("attn_k", 256),
        ("attn_v", 256),
        ("attn_output", 1024),
        ("ffn_gate", 2816),
        ("ffn_up", 2816),
        ("ffn_down", 2816),
    ];
    let layer: u64 = kinds.iter().map(|(_, rows)| rows * WIDTH).sum();
    for number in 0..(weights.saturating_sub(rows * WIDTH)).div_ceil(layer) {
        tensors.extend(kinds.map(|(kind, rows)| (format!("blk.{number}.{kind}.weight"), rows)));
    }
    let (mut header, mut at) = (serde_json::Map::new(), 0);
    for (name, rows) in &tensors {
        let bytes = rows * WIDTH * 2;
        let shape = match name.contains("ffn_down") {
            true => vec![WIDTH, *rows],
            false if *rows == 1 => vec![WIDTH],
            false => vec![*rows, WIDTH],
        };
        let entry = serde_json::json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, at + bytes]});
        header.insert(name.clone(), entry);
        at += bytes;
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut out = BufWriter::new(File::create(path).unwrap());
    out.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    out.write_all(&header).unwrap();
    // Four 16-bit numbers to a word, whose sum is nearly normal; the exponent of 0.02.
    let value = |word: u64| {
        let sum: f32 = (0..4).map(|n| f32::from((word >> (16 * n)) as u16) / 65536.0 - 0.5).sum();
        (((sum * 0.035).to_bits() >> 16) as u16).to_le_bytes()
    };
    let values: Vec<u8> = noise(7).take(1 << 22).flat_map(value).collect();
    let mut left = usize::try_from(at).unwrap();
    while left > 0 {
        let now = left.min(values.len());
        out.write_all(&values[..now]).unwrap();
        left -= now;
    }
    out.flush().unwrap();
}
