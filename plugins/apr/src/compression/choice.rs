//! The choice of a compression for each tensor (`--compress`).

use super::block::{self, Encoder};
use super::{BLOCK, Coder, LEVEL, Method};
use apr_sdk::{DType, Error, LayoutSink, Options, Result};

/// The levels of zstd.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=22;
/// The share that a tensor must shrink to in order to be compressed by `auto`, in percent.
const WORTHWHILE: u64 = 98;
/// Blocks of a tensor that are tried.
const TRIED: u64 = 3;

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// As in the source, if that is of this format; otherwise nothing.
    AsBefore,
    /// Nothing.
    Nothing,
    /// LZ4, everywhere.
    Lz4,
    /// zstd with this level, everywhere; floats in planes where that is smaller.
    Zstd(i32),
    /// As zstd, but tensors that hardly shrink are left as they are.
    Auto,
}

impl Choice {
    /// The choice that the options state.
    ///
    /// # Errors
    /// InvalidArgument for a method or a level that does not exist.
    pub fn new(options: &Options) -> Result<Choice> {
        let Some(text) = options.get("compress") else { return Ok(Choice::AsBefore) };
        let (method, level) = match text.split_once(':') {
            Some((method, level)) => (method, Some(level)),
            None => (text, None),
        };
        let choice = match (method, level) {
            ("none", None) => Choice::Nothing,
            ("auto", None) => Choice::Auto,
            ("lz4", None) => Choice::Lz4,
            ("zstd", None) => Choice::Zstd(LEVEL),
            ("zstd", Some(level)) => {
                let level = level.parse().ok().filter(|level| LEVELS.contains(level)).ok_or_else(|| {
                    let (first, last) = (LEVELS.start(), LEVELS.end());
                    let shown = apr_sdk::escape(level, 40);
                    Error::invalid_argument(format!("--compress: zstd has no level `{shown}`"))
                        .hint(format!("specify a level from {first} to {last}: --compress zstd:{LEVEL}"))
                })?;
                Choice::Zstd(level)
            }
            _ => {
                let shown = apr_sdk::escape(text, 40);
                return Err(Error::invalid_argument(format!("--compress: unknown method `{shown}`"))
                    .hint("specify `lz4`, `zstd`, `zstd:LEVEL`, `auto` or `none`"));
            }
        };
        Ok(choice)
    }

    /// The method for tensor number `tensor` of this type and length: the one that makes a few of its blocks smallest.
    /// Where the host cannot show any, the one that is best as a rule.
    ///
    /// # Errors
    /// Any error from reading the tensor or encoding.
    pub fn method(
        self,
        encoder: &Encoder,
        tensor: u64,
        dtype: DType,
        raw_len: u64,
        sink: &mut dyn LayoutSink,
    ) -> Result<Option<Method>> {
        let level = match self {
            Choice::Nothing => return Ok(None),
            Choice::AsBefore => {
                // Older layouts decode in blocks of other kinds.
                let codec =
                    sink.source_codec(tensor)?.filter(|codec| raw_len > 0 && codec.method().is_some());
                return codec.map(|codec| Method::from_codec(&codec)).transpose();
            }
            Choice::Lz4 => return Ok(Some(Method::new(Coder::Lz4, LEVEL)).filter(|_| raw_len > 0)),
            Choice::Zstd(level) => level,
            Choice::Auto => LEVEL,
        };
        if raw_len == 0 {
            return Ok(None);
        }
        let whole = Method::new(Coder::Zstd, level);
        let planes = whole.in_planes(dtype);
        let usual = planes.unwrap_or(whole);
        if planes.is_none() && self != Choice::Auto {
            return Ok(Some(usual));
        }
        let mut sizes = Sizes::default();
        for block in tried(raw_len) {
            let start = block * BLOCK;
            let Some(raw) = sink.sample(tensor, start, (raw_len - start).min(BLOCK))? else {
                return Ok(Some(usual));
            };
            sizes.raw += raw.len() as u64;
            sizes.whole += encoded_len(encoder, whole, &raw)?;
            if let Some(planes) = planes {
                sizes.planes += encoded_len(encoder, planes, &raw)?;
            }
        }
        let (best, len) = match planes {
            Some(planes) if sizes.planes <= sizes.whole => (planes, sizes.planes),
            _ => (whole, sizes.whole),
        };
        let is_left = self == Choice::Auto && len * 100 > sizes.raw * WORTHWHILE;
        Ok((!is_left).then_some(best))
    }
}

/// Bytes of the blocks that were tried.
#[derive(Default)]
struct Sizes {
    raw: u64,
    whole: u64,
    planes: u64,
}

/// The first, the middle and the last whole block, or those that there are.
fn tried(raw_len: u64) -> Vec<u64> {
    let last = (raw_len / BLOCK).max(1) - 1;
    let mut blocks: Vec<u64> = (0..TRIED).map(|n| last * n / (TRIED - 1)).collect();
    blocks.dedup();
    blocks
}

fn encoded_len(encoder: &Encoder, method: Method, raw: &[u8]) -> Result<u64> {
    let most = block::bound(method, raw.len() as u64);
    let mut out = vec![0; usize::try_from(most).unwrap_or(usize::MAX)];
    Ok(encoder.encode(method, raw, &mut out)? as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Choice> {
        Choice::new(&Options::new().with("compress", text))
    }

    #[test]
    fn words_state_a_method_and_a_level() {
        assert_eq!(of("lz4").unwrap(), Choice::Lz4);
        assert_eq!(of("zstd").unwrap(), Choice::Zstd(3));
        assert_eq!(of("zstd:19").unwrap(), Choice::Zstd(19));
        assert_eq!(of("auto").unwrap(), Choice::Auto);
        assert_eq!(of("none").unwrap(), Choice::Nothing);
        assert_eq!(Choice::new(&Options::new()).unwrap(), Choice::AsBefore);
        for wrong in ["", "gzip", "zstd:", "zstd:0", "zstd:23", "zstd:x", "lz4:9", "auto:1", "LZ4"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_blocks_that_are_tried_are_spread() {
        assert_eq!(tried(1), [0]);
        assert_eq!(tried(BLOCK * 2 + 1), [0, 1]);
        assert_eq!(tried(BLOCK * 100 + 7), [0, 49, 99]);
    }
}
