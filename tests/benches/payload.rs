//! Payload that does not lie as it is written (transposed, permuted, in blocks, as a stream) against the plain copy of as
//! many bytes, alternating in one run.
//!
//! `cargo bench -p apr-tests --bench payload [-- --mib 1024 --rounds 3 --only NAME]`
//!
//! The folder is `APR_BENCH_DIR`, or the system's for temporary files; one in memory shows the work without the disk.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use apr_engine::open::{OpenOptions, open};
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_host::convert::convert;
use apr_sdk::DType;
use apr_tests::kinds::{Kind, Tensor, file};
use bench::{argument, median, noise, number, scratch};
use std::path::Path;
use std::time::Instant;

/// The strides of a tensor whose dimensions lie in the file in the order `order`, the first the outermost.
fn strides(shape: &[u64], order: &[usize]) -> Vec<u64> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for &axis in order.iter().rev() {
        strides[axis] = step;
        step *= shape[axis];
    }
    strides
}

fn view(kind: Kind, dtype: DType, shape: &[u64], order: &[usize], bytes: Vec<u8>) -> Vec<Tensor> {
    let mut tensor = Tensor::new("t", kind, dtype, shape, bytes);
    tensor.strides = strides(shape, order);
    vec![tensor]
}

/// Many tensors of 64 MiB that lie in blocks, or come in pieces, of `size`.
fn split(kind: Kind, size: u64, bytes: &[u8]) -> Vec<Tensor> {
    let each = bytes.chunks(64 << 20).enumerate();
    each.map(|(n, bytes)| {
        let mut tensor =
            Tensor::new(&format!("t{n}"), kind, DType::U8, &[bytes.len() as u64], bytes.to_vec());
        tensor.size = size;
        tensor
    })
    .collect()
}

/// Wall time and processor time.
fn timed(work: impl FnOnce()) -> [f64; 2] {
    let (began, cpu) = (Instant::now(), bench::cpu_seconds());
    work();
    [began.elapsed().as_secs_f64(), bench::cpu_seconds() - cpu]
}

fn main() {
    let (mib, rounds) = (number("--mib", 1024), number("--rounds", 3));
    let only = argument("--only").unwrap_or_default();
    let folder = scratch("payload");
    println!("{mib} MiB, {rounds} rounds, {} CPUs, folder {}", bench::cpus(), bench::file_system(&folder));
    let words = noise(0x9e37_79b9_7f4a_7c15).take(usize::try_from((mib << 20) / 8).unwrap());
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let n = (mib << 20) / 4;
    let side = 1u64 << (n.ilog2() / 2);
    let f32_2d = [side, n / side];
    let flat = [4096, n / 4096 * 2];
    let four = [n >> 18, 64, 64, 64];
    type Make<'a> = (&'a str, Box<dyn Fn() -> Vec<Tensor> + 'a>);
    let cases: Vec<Make<'_>> = vec![
        (
            "transposed F32, square",
            Box::new(|| view(Kind::View, DType::F32, &f32_2d, &[1, 0], bytes.clone())),
        ),
        (
            "transposed BF16 [4096, many]",
            Box::new(|| view(Kind::View, DType::BF16, &flat, &[1, 0], bytes.clone())),
        ),
        (
            "transposed BF16 [many, 4096]",
            Box::new(|| view(Kind::View, DType::BF16, &[flat[1], flat[0]], &[1, 0], bytes.clone())),
        ),
        (
            "transposed F32, big-endian",
            Box::new(|| view(Kind::BigView, DType::F32, &f32_2d, &[1, 0], bytes.clone())),
        ),
        ("reversed F32 4-D", Box::new(|| view(Kind::View, DType::F32, &four, &[3, 2, 1, 0], bytes.clone()))),
        (
            "permuted F32 (0, 2, 3, 1)",
            Box::new(|| view(Kind::View, DType::F32, &four, &[0, 2, 3, 1], bytes.clone())),
        ),
        (
            "permuted F32 (2, 1, 0, 3)",
            Box::new(|| view(Kind::View, DType::F32, &four, &[2, 1, 0, 3], bytes.clone())),
        ),
        (
            "expanded F32, stride 0",
            Box::new(|| {
                let mut t = Tensor::new(
                    "t",
                    Kind::View,
                    DType::F32,
                    &f32_2d,
                    bytes[..4 * f32_2d[1] as usize].to_vec(),
                );
                t.strides = vec![0, 1];
                vec![t]
            }),
        ),
        ("blocks of 64 KiB", Box::new(|| split(Kind::Blocks, 64 << 10, &bytes))),
        ("blocks of 300 KiB", Box::new(|| split(Kind::Blocks, 300 << 10, &bytes))),
        ("streams, 64 KiB at once", Box::new(|| split(Kind::Stream, 64 << 10, &bytes))),
    ];
    let host = {
        let mut host = apr_tests::host();
        apr_host::plugins::add_bundled(&mut host.registry, &apr_tests::kinds::PLUGIN);
        host
    };
    let (input, plain, output) =
        (folder.join("in.kinds"), folder.join("plain.kinds"), folder.join("out.kinds"));
    std::fs::write(
        &plain,
        file(vec![Tensor::new("t", Kind::Plain, DType::U8, &[bytes.len() as u64], bytes.clone())]),
    )
    .unwrap();
    let run = |input: &Path| {
        let _ = std::fs::remove_file(&output);
        timed(|| drop(convert(&host, &apr_tests::options(input, &output)).unwrap()))
    };
    let sums = |input: &Path| {
        let opened = open(&host, input, &OpenOptions::default()).unwrap();
        timed(|| drop(tensor_rows(&host, &opened, RowOptions { sha256: true, stats: false }).unwrap()))
    };
    run(&plain);
    for (name, make) in cases.iter().filter(|(name, _)| name.contains(&only)) {
        std::fs::write(&input, file(make())).unwrap();
        let mut rows: [Vec<f64>; 6] = Default::default();
        for _ in 0..rounds {
            let ([copy, copy_cpu], [own, own_cpu]) = (run(&plain), run(&input));
            let values = [own, own_cpu, copy, copy_cpu, own / copy, own_cpu / copy_cpu];
            rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
        }
        let [own, own_cpu, copy, copy_cpu, ratio, cpu_ratio] = rows.map(|mut row| median(&mut row));
        let ([own_sum, _], [plain_sum, _]) = (sums(&input), sums(&plain));
        println!(
            "{name}: {own:.2} s (CPU {own_cpu:.2} s), plain copy {copy:.2} s (CPU {copy_cpu:.2} s), ratio {ratio:.2} (CPU {cpu_ratio:.2}); --sha256 {own_sum:.2} s, of the plain one {plain_sum:.2} s"
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
}
