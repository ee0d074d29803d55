//! Recognises a model, which has no magic, by its outermost fields.

use crate::layout::{graph, model, wire};
use apr_sdk::{Look, Score};

/// The greatest `ir_version` that is believed. 1000: the newest is 14 after nine years.
const GREATEST_IR: u64 = 1000;

/// Records that are looked at, inside and outside of the graph. 64: what speaks for a model comes among the first.
const MOST_RECORDS: usize = 64;

/// How sure the format is of the file.
pub fn score(look: &Look<'_>) -> Score {
    let mut seen = Seen::default();
    let fits =
        walk(look.head, look.len, &mut |field, wire, value, body| seen.record(field, wire, value, body));
    if fits && seen.speaks() { Score::STRUCTURE } else { Score::NO }
}

/// What of a model was seen.
#[derive(Default)]
struct Seen {
    ir_version: bool,
    graph: bool,
    opset: bool,
    n_unknown: u32,
}

impl Seen {
    /// Two of its three marks, so that neither a number alone nor a message alone makes a model.
    fn speaks(&self) -> bool {
        [self.ir_version, self.graph, self.opset].iter().filter(|mark| **mark).count() >= 2
    }

    /// Whether a record can be one of a model.
    fn record(&mut self, field: u32, wire: u8, value: u64, body: Body<'_>) -> bool {
        match (field, wire) {
            (model::IR_VERSION, wire::VARINT) => {
                self.ir_version = (1..=GREATEST_IR).contains(&value);
                self.ir_version
            }
            (model::MODEL_VERSION, wire::VARINT) => true,
            (model::PRODUCER_NAME..=model::DOMAIN | model::DOC_STRING, wire::LEN) => is_text(body.bytes),
            (model::GRAPH, wire::LEN) => {
                self.graph = is_graph(body);
                self.graph
            }
            (model::OPSET_IMPORT, wire::LEN) => {
                self.opset = is_opset(body);
                self.opset
            }
            (
                model::METADATA_PROPS | model::TRAINING_INFO | model::FUNCTIONS | model::CONFIGURATION,
                wire::LEN,
            ) => true,
            (1..=model::CONFIGURATION, _) => false,
            _ => {
                self.n_unknown += 1;
                self.n_unknown <= 8
            }
        }
    }
}

/// What is seen of a record with a length, and the length that it has.
#[derive(Clone, Copy)]
struct Body<'a> {
    bytes: &'a [u8],
    len: u64,
}

fn is_text(seen: &[u8]) -> bool {
    match std::str::from_utf8(seen) {
        Ok(text) => !text.contains('\0'),
        // A character that the look cuts off.
        Err(error) => error.error_len().is_none(),
    }
}

fn is_graph(body: Body<'_>) -> bool {
    let mut n_known = 0;
    let mut record = |field: u32, wire: u8, _: u64, inner: Body<'_>| {
        let known = match field {
            graph::NODE => is_node(inner),
            graph::NAME | graph::DOC_STRING => is_text(inner.bytes),
            graph::INITIALIZER
            | graph::INPUT..=graph::QUANTIZATION_ANNOTATION
            | graph::SPARSE_INITIALIZER
            | graph::METADATA_PROPS => true,
            0..=16 => return false,
            _ => return true,
        };
        n_known += 1;
        known && wire == wire::LEN
    };
    walk(body.bytes, body.len, &mut record) && (n_known > 0 || body.len == 0)
}

/// The first records of a node are names.
fn is_node(body: Body<'_>) -> bool {
    walk(body.bytes, body.len, &mut |field, wire, _, inner| match field {
        1..=4 | 6..=8 => wire == wire::LEN && is_text(inner.bytes),
        5 | 9 | 10 => wire == wire::LEN,
        _ => true,
    })
}

fn is_opset(body: Body<'_>) -> bool {
    let mut has_version = false;
    let fits = walk(body.bytes, body.len, &mut |field, wire, value, inner| match (field, wire) {
        (1, wire::LEN) => is_text(inner.bytes),
        (2, wire::VARINT) => {
            has_version = value < 1 << 32;
            has_version
        }
        (1 | 2, _) => false,
        _ => true,
    });
    fits && has_version
}

/// Hands the records at the beginning of a message of `len` bytes, of which `seen` is seen, to `record`, until that says
/// no or nothing more is seen. False for what is no message.
fn walk(seen: &[u8], len: u64, record: &mut dyn FnMut(u32, u8, u64, Body<'_>) -> bool) -> bool {
    let mut at = 0usize;
    for _ in 0..MOST_RECORDS {
        let left = len.saturating_sub(at as u64);
        if left == 0 || at >= seen.len() {
            return true;
        }
        let cut = (seen.len() as u64) < len;
        let Some((tag, start)) = varint(seen, at) else { return cut };
        let (Ok(field), wire) = (u32::try_from(tag >> 3), tag.to_le_bytes()[0] & 7) else { return false };
        let Some((value, end)) = (match wire {
            wire::VARINT | wire::LEN => varint(seen, start),
            wire::I64 => Some((0, start.saturating_add(8))),
            wire::I32 => Some((0, start.saturating_add(4))),
            _ => return false,
        }) else {
            return cut;
        };
        let mut next = end;
        let mut body = Body { bytes: &[], len: 0 };
        if wire == wire::LEN {
            if value > len.saturating_sub(end as u64) {
                return false;
            }
            let size = usize::try_from(value).unwrap_or(usize::MAX);
            next = end.saturating_add(size);
            body = Body { bytes: &seen[end..next.min(seen.len())], len: value };
        }
        if field == 0 || !record(field, wire, value, body) {
            return false;
        }
        at = next;
    }
    true
}

/// The varint at `at`, and where it ends.
fn varint(seen: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (n, &byte) in seen.get(at..)?.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(u32::try_from(7 * n).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, at + n + 1));
        }
    }
    None
}
