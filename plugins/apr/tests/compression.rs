//! Compressed files: what is written comes back, whole and in slices, and what was damaged is refused.

use crate::setup::{Fixture, METADATA, Raw, fixture, made, open, raw, reader, with, writer};
use apr_sdk::{
    BlockSink, DType, Error, ErrorKind, Extent, LayoutRequest, Limits, MemorySource, Options, Payload,
    Result, Source,
};

/// Tensors of every kind: long and short, floats and blocks, empty, with and without repetition.
fn model() -> Fixture {
    fixture(
        &[
            ("weight", DType::BF16, &[300, 256]),
            ("wide", DType::F32, &[40_000]),
            ("double", DType::F64, &[1000]),
            ("eighth", DType::F8_E4M3, &[70_000]),
            ("blocks", DType::Q8_0, &[64, 2048]),
            ("ids", DType::I64, &[9]),
            ("empty", DType::F32, &[0, 4]),
            ("scalar", DType::F32, &[]),
        ],
        &[],
        &|_, _| {},
    )
}

fn compressed(method: &str) -> LayoutRequest {
    with(|request| request.options.set("compress", method))
}

fn written(fixture: &Fixture, method: &str) -> Vec<u8> {
    fixture.write(&compressed(method)).unwrap().remove(0).1
}

/// The payloads of all tensors, by way of their blocks.
fn payloads(bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let source = MemorySource::new("m.apr", bytes);
    let model = apr_testkit::read(reader().as_ref(), "apr", &source, &Options::new())?;
    let opened = reader().open(&source, &Limits::default(), &Options::new())?;
    (0..model.tensors.len()).map(|n| apr_testkit::payload(opened.as_ref(), &model, n, &source)).collect()
}

const METHODS: [&str; 5] = ["lz4", "zstd", "zstd:1", "zstd:19", "auto"];

#[test]
fn every_method_gives_back_every_byte() {
    let made = model();
    let want = payloads(made.file()).unwrap();
    for method in METHODS {
        let bytes = written(&made, method);
        assert_eq!(bytes[8] & 1, 1, "{method}");
        assert!(bytes.len() < made.file().len(), "{method}");
        assert!(payloads(bytes).unwrap() == want, "{method}");
    }
    assert_eq!(written(&made, "none"), made.file());
}

#[test]
fn floats_are_cut_into_planes_where_that_is_smaller() {
    // Weights of random sign and mantissa: only their exponents shrink.
    let mut state = 3u64;
    let noise: Vec<u8> = (0..100_000)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let [low, high] = ((state >> 48) as u16).to_le_bytes();
            [low, high & 0x81 | 0x3c]
        })
        .collect();
    let made = of_bytes(DType::BF16, &noise);
    let file = written(&made, "zstd");
    let opened = open(file.clone()).unwrap();
    let Payload::Blocks { codec } = &opened.model.tensors[0].payload else { panic!() };
    assert_eq!(codec.method(), Some("zstd, planes"));
    assert!(codec.stored_len().unwrap() < 130_000, "{:?}", codec.stored_len());
    assert!(payloads(file).unwrap() == [noise.clone()]);
    // The same bytes as integers, and values that repeat.
    for (dtype, bytes) in [(DType::I16, noise), (DType::BF16, [0x12, 0x34, 0x56, 0x78].repeat(50_000))] {
        let opened = open(written(&of_bytes(dtype, &bytes), "zstd")).unwrap();
        let Payload::Blocks { codec } = &opened.model.tensors[0].payload else { panic!() };
        assert_eq!(codec.method(), Some("zstd"), "{dtype}");
    }
}

fn of_bytes(dtype: DType, bytes: &[u8]) -> Fixture {
    let elements = bytes.len() as u64 / u64::from(dtype.info().unwrap().block_bytes);
    let mut made = fixture(&[("t", dtype, &[elements])], &[], &|_, _| {});
    made.source = MemorySource::new("made", bytes);
    made
}

#[test]
fn auto_leaves_alone_what_does_not_shrink() {
    let mut state = 3u64;
    let noise: Vec<u8> = (0..200_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let made = of_bytes(DType::U8, &noise);
    assert_eq!(written(&made, "auto"), made.file());
    // Told to, it is compressed nevertheless: the blocks are stored as they are.
    let file = written(&made, "lz4");
    // A length for each block, twice, an entry in the index, and padding.
    assert!(file.len() - made.file().len() < 2 * 4 * 4 + 64 + 2 * 64);
    assert!(payloads(file).unwrap() == [noise]);
}

#[test]
fn shards_are_compressed_one_by_one() {
    let made = model();
    let mut request = LayoutRequest::folder("m");
    request.max_shard_size = Some(150_000);
    request.options.set("compress", "zstd");
    let files = made.write(&request).unwrap();
    assert!(files.len() > 3);
    let sizes: Vec<usize> = files.iter().skip(1).map(|(_, bytes)| bytes.len()).collect();
    let manifest: serde_json::Value = serde_json::from_slice(&files[0].1).unwrap();
    let stated: Vec<u64> =
        manifest["shards"].as_array().unwrap().iter().map(|shard| shard["size"].as_u64().unwrap()).collect();
    assert_eq!(stated, sizes.iter().map(|size| *size as u64).collect::<Vec<_>>());
    let (name, bytes) = &files[0];
    let source =
        files.iter().skip(1).fold(MemorySource::new(name.as_str(), bytes.clone()), |source, file| {
            source.with(&file.0, file.1.clone())
        });
    let opened = apr_testkit::read_with_parts(reader().as_ref(), "apr", &source, &Options::new()).unwrap();
    assert_eq!(opened.model.tensors.len(), made.model.tensors.len());
}

/// Counts the bytes that are read.
struct Counted(MemorySource, std::sync::atomic::AtomicU64);

impl Source for Counted {
    fn name(&self, file: u32) -> String {
        self.0.name(file)
    }

    fn len(&self, file: u32) -> Result<u64> {
        self.0.len(file)
    }

    fn read_at(&self, file: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        self.1.fetch_add(out.len() as u64, std::sync::atomic::Ordering::Relaxed);
        self.0.read_at(file, offset, out)
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        self.0.view(extent)
    }

    fn sibling(&self, path: &str) -> Result<u32> {
        self.0.sibling(path)
    }

    fn entries(&self) -> Result<Vec<String>> {
        self.0.entries()
    }

    fn log(&self, _: apr_sdk::LogLevel, _: &str) {}
}

/// A file of one compressed row of U8 without a table, whose only block is this data.
fn of_one_block(lz4: bool, raw_len: usize, data: &[u8]) -> Vec<u8> {
    let block = [&(data.len() as u32).to_le_bytes()[..], data].concat();
    let row = Raw {
        raw_size: raw_len as u64,
        size: block.len() as u64,
        flags: if lz4 { 1 } else { 2 },
        ..raw("t", 0, raw_len as u64)
    };
    made(METADATA.as_bytes(), &[row], &block)
}

#[test]
fn a_block_is_one_frame_and_nothing_else() {
    let raw = b"0123456789".repeat(30);
    for (lz4, method) in [(true, "lz4"), (false, "zstd")] {
        let file = written(&of_bytes(DType::U8, &raw), method);
        let (extent, _) = blocks_of(&file, 0).unwrap().0[0];
        let start = extent.offset as usize + 4;
        let frame = file[start..start + extent.len as usize - 4].to_vec();
        assert!(payloads(of_one_block(lz4, raw.len(), &frame)).unwrap() == [raw.clone()], "{method}");
        let skippable = [&0x184d_2a53u32.to_le_bytes()[..], &1u32.to_le_bytes(), b"x"].concat();
        let empty_zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0];
        for (what, data) in [
            ("a frame before it", [&skippable[..], &frame].concat()),
            ("a frame after it", [&frame[..], &skippable].concat()),
            ("an empty frame after it", [&frame[..], &empty_zstd].concat()),
            ("an empty frame before it", [&empty_zstd[..], &frame].concat()),
            ("a byte after it", [&frame[..], &[0]].concat()),
            ("itself again", [&frame[..], &frame].concat()),
        ] {
            let error = payloads(of_one_block(lz4, raw.len(), &data)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{method}: {what}: {error}");
        }
    }
}

/// Takes blocks.
#[derive(Default)]
struct Blocks(Vec<(Extent, u64)>);

impl BlockSink for Blocks {
    fn block(&mut self, stored: Extent, raw_len: u64) -> Result<()> {
        self.0.push((stored, raw_len));
        Ok(())
    }
}

fn blocks_of(bytes: &[u8], tensor: u64) -> Result<(Vec<(Extent, u64)>, u64)> {
    let source = Counted(MemorySource::new("m.apr", bytes), 0.into());
    let opened = reader().open(&source, &Limits::default(), &Options::new())?;
    let before = source.1.load(std::sync::atomic::Ordering::Relaxed);
    let mut blocks = Blocks::default();
    opened.blocks(&source, tensor, &mut blocks)?;
    Ok((blocks.0, source.1.load(std::sync::atomic::Ordering::Relaxed) - before))
}

/// The file, with its table of lengths renamed: as another program may write it.
fn without_table(file: &[u8]) -> Vec<u8> {
    let name = b"__apr__/blocks";
    let at = file.windows(name.len()).position(|bytes| bytes == name).unwrap();
    let mut file = file.to_vec();
    file[at + name.len() - 1] = b'x';
    file
}

#[test]
fn blocks_are_found_by_the_table_and_without_it() {
    let made = model();
    for method in METHODS {
        let file = written(&made, method);
        let walked = without_table(&file);
        for tensor in 0..3 {
            let (by_table, read) = blocks_of(&file, tensor).unwrap();
            assert_eq!(read, 4 * by_table.len() as u64, "{method}");
            assert_eq!(blocks_of(&walked, tensor).unwrap().0, by_table, "{method} {tensor}");
        }
        assert!(payloads(walked).unwrap() == payloads(file).unwrap(), "{method}");
    }
}

#[test]
fn frames_and_lengths_that_lie_are_refused() {
    let made = model();
    for method in ["lz4", "zstd"] {
        let file = written(&made, method);
        let (blocks, _) = blocks_of(&file, 0).unwrap();
        assert!(blocks.len() > 2);
        let at = blocks[1].0.offset as usize;
        let refuse = |bytes: Vec<u8>, what: &str| {
            let error = payloads(bytes).err().unwrap_or_else(|| panic!("{method}: {what} was read"));
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        };
        for (what, head) in [
            ("an empty frame", 0u32),
            ("a frame that is longer than its block", 60_000),
            ("a frame that is longer than any", 0x7fff_ffff),
            ("a stored frame of another length", 0x8000_0010),
        ] {
            let mut bytes = file.clone();
            bytes[at..at + 4].copy_from_slice(&head.to_le_bytes());
            refuse(bytes.clone(), what);
            refuse(without_table(&bytes), what);
        }
        // The table lies at the start of the data section.
        let table = u32::from_le_bytes(file[28..32].try_into().unwrap()) as usize;
        for len in [0u32, 1, 0xffff_ffff] {
            let mut bytes = file.clone();
            bytes[table + 4..table + 8].copy_from_slice(&len.to_le_bytes());
            let error = open(bytes).err().unwrap();
            assert_eq!(
                (error.kind(), error.tensor_name()),
                (ErrorKind::Malformed, Some("weight")),
                "{error}"
            );
        }
        // Lengths of the right sum, of which one is wrong, show when they are read.
        let mut bytes = file.clone();
        for (at, change) in [(table, 1u32), (table + 4, u32::MAX)] {
            let len = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            bytes[at..at + 4].copy_from_slice(&len.wrapping_add(change).to_le_bytes());
        }
        open(bytes.clone()).unwrap();
        refuse(bytes, "blocks that are not where the table says");
    }
}

#[test]
fn files_cut_at_every_block_are_refused() {
    let made = model();
    for method in ["lz4", "zstd"] {
        let file = written(&made, method);
        for (extent, _) in (0..5).flat_map(|tensor| blocks_of(&file, tensor).unwrap().0) {
            let error = open(file[..extent.offset as usize].to_vec()).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Malformed);
            assert!(error.message().contains("truncated"), "{error}");
        }
    }
}

#[test]
fn one_decoder_serves_any_number_of_threads() {
    let made = model();
    let file = written(&made, "zstd");
    let source = MemorySource::new("m.apr", file.clone());
    let opened = reader().open(&source, &Limits::default(), &Options::new()).unwrap();
    let model = apr_testkit::read(reader().as_ref(), "apr", &source, &Options::new()).unwrap();
    let want = payloads(file).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (n, want) in want.iter().enumerate() {
                    let have = apr_testkit::payload(opened.as_ref(), &model, n, &source).unwrap();
                    assert!(have == *want);
                }
            });
        }
    });
}

#[test]
fn what_the_writer_has_not_announced_is_refused() {
    let made = model();
    let error: Error = made.write(&compressed("zstd:99")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("no level `99`"), "{error}");
    assert!(writer().encode(&9.into(), apr_sdk::BlockAt { tensor: 0, block: 0 }, &[1], &mut [0; 9]).is_err());
}
