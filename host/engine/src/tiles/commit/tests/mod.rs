//! Order, bound and end of commits. `tests/convert/encoded.rs` covers threads.

use super::committer::Committer;
use crate::layout::encoding::Encoded;
use crate::layout::{OutputFile, Placed, Segment};
use crate::place::Backing;
use crate::tiles::{Memory, TileRecord, TileSink};
use apr_sdk::{BlockAt, CheckedModel, Codec, Error, LayoutRequest, LayoutSink, Result, Writer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Prefixes each block with its number.
struct Numbering;

impl Writer for Numbering {
    fn layout(&self, _: &CheckedModel, _: &LayoutRequest, _: &mut dyn LayoutSink) -> Result<()> {
        Ok(())
    }

    fn encoded_bound(&self, _: &Codec, raw_len: u64) -> Result<u64> {
        Ok(raw_len + 8)
    }

    fn encode(&self, codec: &Codec, at: BlockAt, raw: &[u8], out: &mut [u8]) -> Result<usize> {
        if codec.number == 2 {
            return Ok(out.len() + 1);
        }
        out[..8].copy_from_slice(&at.block.to_le_bytes());
        out[8..8 + raw.len()].copy_from_slice(raw);
        Ok(8 + raw.len())
    }
}

/// Files in memory that record where they were written, and what was finished.
struct Noting {
    files: Memory,
    written: Mutex<Vec<(u64, usize)>>,
    finished: Mutex<Vec<(u64, TileRecord)>>,
}

impl Noting {
    fn new() -> Noting {
        Noting {
            files: Memory::new([("f", 0)]).unwrap(),
            written: Mutex::default(),
            finished: Mutex::default(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let there = self.files.read_back(0).unwrap();
        let mut out = vec![0; usize::try_from(there.len()).unwrap()];
        there.read_at(0, &mut out).unwrap();
        out
    }
}

impl TileSink for Noting {
    fn write_at(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        self.written.lock().unwrap().push((offset, bytes.len()));
        self.files.write_at(file, offset, bytes)
    }

    fn set_len(&self, file: usize, len: u64) -> Result<()> {
        self.files.set_len(file, len)
    }

    fn read_back(&self, file: usize) -> Result<Arc<dyn Backing>> {
        self.files.read_back(file)
    }

    fn show(&self, file: usize) -> String {
        self.files.show(file)
    }

    fn scratch(&self, _: u64) -> Result<Box<dyn TileSink>> {
        Err(Error::io("none"))
    }

    fn finished(&self, tile: usize, record: TileRecord) {
        self.finished.lock().unwrap().push((tile as u64, record));
    }
}

/// Bytes per block, and per unit.
const BLOCK: u64 = 1 << 20;

/// Three and a half encoded units, a pad, text, half a unit of raw payload.
fn file(codec: u32) -> OutputFile {
    let encoded = Encoded::new(&Numbering, 0, 3 * BLOCK + BLOCK / 2, codec.into(), BLOCK, true).unwrap();
    let mut file = OutputFile { floats_from: Some(0), ..OutputFile::default() };
    for (len, segment) in [
        (encoded.bound, Segment::Payload { tensor: 0, encoded: Some(Box::new(encoded)) }),
        (0, Segment::Pad { to: 64 }),
        (4, Segment::Inline(b"text".to_vec())),
        (BLOCK / 2, Segment::Payload { tensor: 1, encoded: None }),
    ] {
        file.segments.push(Placed { offset: file.len, len, segment });
        file.len += len;
    }
    file
}

fn committer(file: &OutputFile, window: usize) -> Committer<'_> {
    let writer: Arc<dyn Writer> = Arc::new(Numbering);
    Committer::new(0, file, 0, &writer, window, 100)
}

/// The raw bytes of a unit, half a block or longer.
fn unit(number: u8, len: u64) -> Vec<u8> {
    vec![number; usize::try_from(len).unwrap()]
}

/// Puts these units, each in two halves, second half first; number 4 is the raw payload.
fn put(committer: &Committer<'_>, sink: &Noting, numbers: &[u8]) -> Result<()> {
    for &number in numbers {
        let half = BLOCK / 2;
        let (segment, at) = if number == 4 { (3, 0) } else { (0, u64::from(number) * BLOCK) };
        let halves: &[u64] = if number < 3 { &[half, 0] } else { &[0] };
        for into in halves {
            assert!(committer.put(segment, at + into, &unit(number, half), sink, &|| false)?);
        }
    }
    Ok(())
}

#[test]
fn what_is_ready_is_committed_in_order_and_all_at_once() {
    let file = file(1);
    let sink = Noting::new();
    let committer = committer(&file, 5);
    committer.begin(&sink, &HashMap::new()).unwrap();
    put(&committer, &sink, &[4, 2, 1, 3]).unwrap();
    assert!(sink.written.lock().unwrap().is_empty(), "the first unit is not there");
    put(&committer, &sink, &[0]).unwrap();
    let committed = committer.finish().unwrap();
    let last = BLOCK / 2 + 8;
    let encoded = 3 * (BLOCK + 8) + last;
    let text = encoded.next_multiple_of(64);
    assert_eq!(committed.places, [(0, encoded), (encoded, text - encoded), (text, 4), (text + 4, BLOCK / 2)]);
    let offsets: Vec<u64> = sink.written.lock().unwrap().iter().map(|(offset, _)| *offset).collect();
    assert!(offsets.is_sorted(), "{offsets:?}");
    let mut want = Vec::new();
    for number in 0..3u8 {
        want.extend(u64::from(number).to_le_bytes());
        want.extend(unit(number, BLOCK));
    }
    want.extend(3u64.to_le_bytes());
    want.extend(unit(3, BLOCK / 2));
    want.resize(usize::try_from(text).unwrap(), 0);
    want.extend(b"text");
    want.extend(unit(4, BLOCK / 2));
    assert!(sink.bytes() == want);
    let finished: Vec<u64> = sink.finished.lock().unwrap().iter().map(|(number, _)| *number).collect();
    assert_eq!(finished, [100, 101, 102, 103, 104]);
    let (units, unit_len) = committed.of_segment(0).unwrap();
    assert_eq!((units.len(), unit_len), (4, BLOCK));
    assert_eq!(units[3].blocks[..], [u32::try_from(last).unwrap()]);
    assert_eq!(committed.end(), want.len() as u64);
}

#[test]
fn who_is_too_far_ahead_waits_and_gives_up_when_work_stops() {
    let file = file(1);
    let sink = Noting::new();
    let committer = committer(&file, 2);
    committer.begin(&sink, &HashMap::new()).unwrap();
    put(&committer, &sink, &[1]).unwrap();
    // With a window of two, the third would wait forever here; told to stop, it does not.
    assert!(!committer.put(0, 2 * BLOCK, &unit(2, BLOCK), &sink, &|| true).unwrap());
    assert!(!committer.await_turn(0, BLOCK, &|| true));
    put(&committer, &sink, &[0, 2, 3, 4]).unwrap();
    assert!(committer.await_turn(3, 0, &|| false));
    committer.finish().unwrap();
}

#[test]
fn what_was_never_made_is_an_error() {
    let file = file(1);
    let sink = Noting::new();
    let committer = committer(&file, 5);
    committer.begin(&sink, &HashMap::new()).unwrap();
    put(&committer, &sink, &[0, 1, 3, 4]).unwrap();
    assert!(committer.finish().unwrap_err().message().contains("2 of 5 units"));
}

#[test]
fn more_than_the_bound_and_more_than_the_payload_are_refused() {
    let file = file(2);
    let sink = Noting::new();
    let committer = committer(&file, 5);
    committer.begin(&sink, &HashMap::new()).unwrap();
    let error = put(&committer, &sink, &[0]).unwrap_err();
    assert!(error.message().contains("to 1048585 bytes, more than its bound of 1048584"), "{error}");
    let too_many = committer.put(3, BLOCK / 2, &[1], &sink, &|| false).unwrap_err();
    assert!(too_many.message().contains("more bytes were written"), "{too_many}");
}

#[test]
fn the_longest_prefix_that_is_still_there_is_kept() {
    let file = file(1);
    let first = Noting::new();
    let before = committer(&file, 5);
    before.begin(&first, &HashMap::new()).unwrap();
    put(&before, &first, &[0, 1, 2, 3, 4]).unwrap();
    let whole = first.bytes();
    let all = first.finished.lock().unwrap().clone();
    // How many units are kept if this byte of the file is changed, or this record is missing.
    let cases = [(None, None, 5), (Some(3), None, 0), (Some(2 * 1_048_584), None, 2), (None, Some(3), 3)];
    for (damaged, gone, kept) in cases {
        let sink = Noting::new();
        let mut bytes = whole.clone();
        damaged.into_iter().for_each(|at: usize| bytes[at] ^= 1);
        sink.write_at(0, 0, &bytes).unwrap();
        sink.written.lock().unwrap().clear();
        let records: HashMap<u64, &TileRecord> = all
            .iter()
            .filter(|(number, _)| Some(*number) != gone.map(|at: u64| 100 + at))
            .map(|(n, r)| (*n, r))
            .collect();
        let again = committer(&file, 5);
        again.begin(&sink, &records).unwrap();
        put(&again, &sink, &[0, 1, 2, 3, 4]).unwrap();
        let finished = sink.finished.lock().unwrap().len();
        assert_eq!(finished, 5 - kept, "{damaged:?} {gone:?}");
        assert!(sink.bytes() == whole, "{damaged:?} {gone:?}");
        again.finish().unwrap();
    }
}
