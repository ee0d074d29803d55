//! Tensors made of others (rows permuted, stacked, transposed, cast) against the plain copy of the same file, alternating
//! in one run; and each cast in memory against copying what it writes.
//!
//! `cargo bench -p apr-tests --bench making [-- --mib 1024 --rounds 3 --only NAME]`
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

use apr_engine::convert::Translated;
use apr_engine::expression::{Expression, PlannedTensor, concat};
use apr_engine::open::OpenedModel;
use apr_engine::values::cast::CastKernel;
use apr_host::convert::convert_with;
use apr_sdk::{DType, Payload, Result, Tensor as Planned};
use apr_tests::kinds::{Kind, Tensor, file};
use bench::{argument, median, noise, number, scratch};
use std::hint::black_box;
use std::time::Instant;

/// The tensors of the file: all of one size, together as long as was asked for.
const TENSORS: u64 = 16;

/// What is made of each: its dtype before and after, and the box of it, given its rows and columns.
type Case = (&'static str, DType, DType, fn(u64, u64) -> Vec<(u64, u64)>);

const CASES: [Case; 5] = [
    ("rows permuted", DType::F32, DType::F32, |rows, columns| {
        vec![(32, rows / 32 * columns), (rows / 64, columns), (2, rows / 64 * columns), (columns, 1)]
    }),
    ("transposed", DType::F32, DType::F32, |rows, columns| vec![(columns, 1), (rows, columns)]),
    ("stacked", DType::F32, DType::F32, |rows, columns| vec![(rows, columns), (columns, 1)]),
    ("F32 to BF16", DType::F32, DType::BF16, |rows, columns| vec![(rows * columns, 1)]),
    ("F32 to F16", DType::F32, DType::F16, |rows, columns| vec![(rows * columns, 1)]),
];

fn main() {
    let (mib, rounds) = (number("--mib", 1024), number("--rounds", 3));
    let only = argument("--only").unwrap_or_default();
    let folder = scratch("making");
    println!("{mib} MiB, {rounds} rounds, {} CPUs, folder {}", bench::cpus(), bench::file_system(&folder));
    let columns = 4096;
    let rows = (mib << 20) / (4 * columns * TENSORS);
    let words = noise(0x9e37_79b9_7f4a_7c15).take(usize::try_from((mib << 20) / 8 / TENSORS).unwrap());
    // Numbers near 1: what is not finite is not the common case.
    let bytes: Vec<u8> =
        words.flat_map(|word| (word & 0x007f_ffff_007f_ffff | 0x3f80_0000_3f80_0000).to_le_bytes()).collect();
    in_memory(&bytes, rounds);
    let tensor = |n| Tensor::new(&format!("t{n}"), Kind::Plain, DType::F32, &[rows, columns], bytes.clone());
    let (input, output) = (folder.join("in.kinds"), folder.join("out.kinds"));
    std::fs::write(&input, file((0..TENSORS).map(tensor).collect())).unwrap();
    let mut host = apr_tests::host();
    apr_host::plugins::add_bundled(&mut host.registry, &apr_tests::kinds::PLUGIN);
    let run = |case: Option<&Case>| {
        let _ = std::fs::remove_file(&output);
        let (began, cpu) = (Instant::now(), bench::cpu_seconds());
        let options = apr_tests::options(&input, &output);
        let make = |opened: &OpenedModel| -> Result<Vec<PlannedTensor>> {
            let tensors = opened.model.tensors.iter().enumerate();
            let Some((name, _, to, dims)) = case else {
                return tensors
                    .map(|(n, t)| Ok(PlannedTensor::new(t.clone(), Expression::of(n, t)?)))
                    .collect();
            };
            let parts = tensors.map(|(n, t)| Expression::boxed(n, t, 0, &dims(rows, columns)));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            if *name == "stacked" {
                let (name, shape) = ("all".to_owned(), vec![TENSORS, rows, columns]);
                let tensor = Planned { name, dtype: *to, shape, payload: Payload::Sequential };
                return Ok(vec![PlannedTensor::new(tensor, concat(parts))]);
            }
            let planned = |(part, tensor): (Expression, &Planned)| {
                let mut one = PlannedTensor::new(tensor.clone(), part);
                one.retype(*to, &host.registry);
                one
            };
            Ok(parts.into_iter().zip(&opened.model.tensors).map(planned).collect())
        };
        convert_with(&host, &options, &|selected| Translated::made_of(selected, &make)).unwrap();
        [began.elapsed().as_secs_f64(), bench::cpu_seconds() - cpu]
    };
    run(None);
    for case in CASES.iter().filter(|case| case.0.contains(&only)) {
        let mut rows: [Vec<f64>; 6] = Default::default();
        for _ in 0..rounds {
            let ([copy, copy_cpu], [own, own_cpu]) = (run(None), run(Some(case)));
            let values = [own, own_cpu, copy, copy_cpu, own / copy, own_cpu / copy_cpu];
            rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
        }
        let [own, own_cpu, copy, copy_cpu, ratio, cpu_ratio] = rows.map(|mut row| median(&mut row));
        println!(
            "{}: {own:.2} s (CPU {own_cpu:.2} s), plain copy {copy:.2} s (CPU {copy_cpu:.2} s), ratio {ratio:.2} (CPU {cpu_ratio:.2})",
            case.0
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Each cast over a MiB that stays in the cache, in processor time.
fn in_memory(bytes: &[u8], rounds: u64) {
    let floats = [DType::F64, DType::F32, DType::F16, DType::BF16];
    for from in floats {
        for to in floats.into_iter().filter(|to| *to != from) {
            let cast = CastKernel::new(from, to, None).unwrap().unwrap();
            let source = &bytes[..1 << 20];
            let mut out = vec![0; usize::try_from(cast.after(1 << 20)).unwrap()];
            let mut seconds = |work: &mut dyn FnMut(&mut [u8])| {
                let cpu = bench::cpu_seconds();
                (0..rounds * 300).for_each(|_| work(black_box(&mut out)));
                bench::cpu_seconds() - cpu
            };
            let casting = seconds(&mut |out| {
                black_box(cast.apply(black_box(source), out));
            });
            let other = bytes[..4 << 20].to_vec();
            let copying = seconds(&mut |out| out.copy_from_slice(black_box(&other[..out.len()])));
            let rate = (rounds * 300) as f64 / 1024.0 / casting;
            println!(
                "{from} -> {to}: {rate:.1} GiB/s read, {:.1} times copying",
                casting / copying.max(0.01)
            );
        }
    }
}
