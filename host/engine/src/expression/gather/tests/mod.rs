//! Every view must come out as if it were read element by element.

#![allow(clippy::cast_possible_truncation, reason = "a test's numbers are small")]

use super::*;
use apr_sdk::DType;

/// Reads the elements one by one.
fn slowly(file: &[u8], view: &View, info: &DTypeInfo, shape: &[u64]) -> Vec<u8> {
    let width = info.block_bytes as usize;
    let mut out = Vec::new();
    for number in 0..shape.iter().product::<u64>() {
        let mut rest = number;
        let mut at = view.start;
        for (size, stride) in shape.iter().zip(&view.strides).rev() {
            at += rest % size * stride;
            rest /= size;
        }
        out.extend_from_slice(&file[at as usize * width..][..width]);
    }
    if view.endian == Endian::Big {
        swap::reverse_fields(info, &mut out);
    }
    out
}

fn check(dtype: DType, shape: &[u64], strides: &[u64], start: u64, endian: Endian, sizes: Sizes) {
    let info = dtype.info().unwrap();
    let reach = shape.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum::<u64>();
    let len = (start + reach + 1) * u64::from(info.block_bytes);
    let file: Vec<u8> = (0..len).map(|n| (n * 131 % 251) as u8).collect();
    let view = View { strides: strides.to_vec(), start, endian };
    let want = slowly(&file, &view, info, shape);
    let gather = Gather::with_sizes(Extent::new(0, 0, len), &view, info, shape, sizes);
    let read = |e: Extent, out: &mut [u8]| {
        assert!(e.offset + e.len <= len, "{e:?} is outside {len}: {gather:?}");
        out.copy_from_slice(&file[e.offset as usize..][..e.len as usize]);
        Ok(())
    };
    let case = format!("{dtype} {shape:?} {strides:?} {endian:?} {sizes:?}");
    // All boxes together cover each byte exactly once.
    let mut strip = Vec::new();
    let mut all = vec![0; want.len()];
    let mut times = vec![0; want.len()];
    for number in 0..gather.n_parts() {
        let part = gather.part(number);
        let mut dense = vec![0; (part.size.iter().product::<u64>() * gather.element) as usize];
        gather.read_part(&read, &part, &mut dense, &mut strip).unwrap();
        let (run, offsets) = gather.runs_of(&part);
        for (piece, at) in dense.chunks_exact(run as usize).zip(offsets) {
            all[at as usize..][..run as usize].copy_from_slice(piece);
            times[at as usize..][..run as usize].iter_mut().for_each(|n| *n += 1);
        }
    }
    assert!(times.iter().all(|&n| n == 1), "{case}");
    assert_eq!(all, want, "{case}");
    // Any range.
    let elements = shape.iter().product::<u64>();
    for (from, to) in [(0, elements), (0, 1), (elements / 3, elements), (elements / 5, elements / 2 + 1)] {
        let [from, to] = [from, to].map(|number| (number * gather.element) as usize);
        let mut out = vec![0; to - from];
        gather.fill(&read, from as u64, &mut out, &mut strip).unwrap();
        assert_eq!(out, want[from..to], "{case} {from}..{to}");
    }
}

#[test]
fn every_order_of_dimensions_comes_out_row_major_whatever_the_sizes() {
    let orders: [[usize; 4]; 8] = [
        [0, 1, 2, 3],
        [3, 2, 1, 0],
        [0, 2, 3, 1],
        [2, 1, 0, 3],
        [1, 0, 3, 2],
        [0, 3, 1, 2],
        [3, 0, 1, 2],
        [1, 2, 3, 0],
    ];
    for sizes in [
        SIZES,
        Sizes { part: 64, strip: 16, gap: 0, runs: 2, long: 32 },
        Sizes { part: 200, strip: 64, gap: 8, runs: 3, long: 1 << 20 },
        Sizes { part: 1000, strip: 2000, gap: 100, runs: 32, long: 1 << 20 },
        Sizes { part: 1, strip: 1, gap: 0, runs: 1, long: 1 << 20 },
    ] {
        for order in orders {
            for shape in [[2, 3, 4, 5], [7, 1, 3, 2], [1, 17, 1, 19]] {
                for (dtype, endian) in [(DType::U8, Endian::Little), (DType::F32, Endian::Big)] {
                    // Dense, and with gaps between the runs.
                    for room in [0, 1, 5] {
                        let mut strides = vec![0; 4];
                        let mut step = 1;
                        for &axis in order.iter().rev() {
                            strides[axis] = step;
                            step = step * shape[axis] + room;
                        }
                        check(dtype, &shape, &strides, room, endian, sizes);
                    }
                }
            }
        }
    }
}

#[test]
fn repeated_and_overlapping_elements_are_read_where_they_are() {
    for sizes in [SIZES, Sizes { part: 40, strip: 12, gap: 4, runs: 2, long: 32 }] {
        for (shape, strides) in [
            (vec![5, 7], vec![0, 1]),
            (vec![5, 7], vec![1, 0]),
            (vec![5, 7], vec![0, 0]),
            (vec![5, 7], vec![1, 1]),
            (vec![4, 3, 5], vec![1, 0, 4]),
            (vec![4, 3, 5], vec![0, 5, 1]),
            (vec![9], vec![3]),
            (vec![1, 1], vec![9, 9]),
            (vec![6, 4], vec![2, 12]),
            (vec![6, 4], vec![100, 1]),
            (vec![6, 4], vec![1, 1000]),
        ] {
            check(DType::U16, &shape, &strides, 1, Endian::Big, sizes);
            check(DType::C128, &shape, &strides, 0, Endian::Little, sizes);
        }
    }
}

#[test]
fn boxes_are_long_both_ways_and_bounded() {
    let info = DType::F32.info().unwrap();
    for (shape, strides) in [
        (vec![16384, 16384], vec![1, 16384]),
        (vec![1024, 1 << 20], vec![1, 1024]),
        (vec![1 << 20, 1024], vec![1, 1 << 20]),
        (vec![64, 64, 64, 1024], vec![1, 64, 4096, 1 << 18]),
        (vec![3, 1 << 28], vec![1, 3]),
    ] {
        let view = View { strides: strides.clone(), start: 0, endian: Endian::Little };
        let gather = Gather::new(Extent::new(0, 0, 1 << 32), &view, info, &shape);
        let part = gather.part(0);
        assert!(part.size.iter().product::<u64>() * 4 <= SIZES.part, "{part:?}");
        let (run, _) = gather.runs_of(&part);
        assert!(run >= 2048, "{shape:?}: the output is written {run} bytes at a time");
        let mut fewest = u64::MAX;
        for &d in &gather.by_stride {
            let longest = part.size[d] * strides[d] * 4;
            fewest = fewest.min(if part.size[d] < shape[d] { longest } else { u64::MAX });
            if part.size[d] < shape[d] {
                break;
            }
        }
        assert!(fewest >= 2048, "{shape:?}: the file is read {fewest} bytes at a time");
    }
}

fn gather(shape: &[u64], strides: &[u64]) -> Gather {
    let view = View { strides: strides.to_vec(), start: 0, endian: Endian::Little };
    Gather::new(Extent::new(0, 0, 1 << 40), &view, DType::F32.info().unwrap(), shape)
}

/// Bytes of the first box, and of its runs in the output.
fn first_box(gather: &Gather) -> (u64, u64) {
    let part = gather.part(0);
    (part.size.iter().product::<u64>() * 4, gather.runs_of(&part).0)
}

#[test]
fn boxes_are_small_where_both_runs_are_long_and_favour_the_output() {
    // Permuted rows: half a MiB is read at once, and the whole box is one run in the output.
    let permuted = gather(&[32, 64, 2, 4096], &[1 << 19, 4096, 1 << 18, 1]);
    assert_eq!(first_box(&permuted), (1 << 20, 1 << 20));
    // A transpose.
    assert_eq!(first_box(&gather(&[4096, 4096], &[1, 4096])), (8 << 20, 8 << 20));
    assert_eq!(first_box(&gather(&[16384, 16384], &[1, 16384])), (8 << 20, 16 << 10));
}

#[test]
fn long_runs_and_small_views_can_be_had_tile_by_tile() {
    // Reordered rows; a transpose; rows of 4000 bytes; a transpose the size of a tile.
    assert!(gather(&[32, 64, 2, 4096], &[128 * 4096, 4096, 64 * 4096, 1]).is_ascending());
    assert!(!gather(&[4096, 4096], &[1, 4096]).is_ascending());
    assert!(!gather(&[1000, 1000], &[2000, 1]).is_ascending());
    assert!(gather(&[512, 512], &[1, 512]).is_ascending());
}
