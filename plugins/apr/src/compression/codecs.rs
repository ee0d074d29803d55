//! The coders of frames: LZ4 and zstd, with what they need to keep between frames.
//!
//! zstd frames are written by the library of its authors; the browser, where no C is compiled, reads with `ruzstd` and
//! writes none. Decision 80 has the measurements.

use super::lz4::{self, Lz4};
use super::{Coder, Method};
use apr_sdk::{Error, Result};

/// State of the encoders, for one thread.
#[derive(Default)]
pub struct Coders {
    lz4: Lz4,
    zstd: zstd::Encoder,
}

/// State of the decoders, for one thread.
#[derive(Default)]
pub struct Decoders {
    zstd: zstd::Decoder,
}

impl Coders {
    /// Encodes `raw` at the start of `out`; returns the length, `None` if it is not shorter than `raw`.
    ///
    /// # Errors
    /// Unsupported where zstd cannot be written.
    pub fn encode(&mut self, method: Method, raw: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
        let room = raw.len().saturating_sub(1).min(out.len());
        match method.coder {
            Coder::Lz4 => Ok(self.lz4.encode(raw, &mut out[..room])),
            Coder::Zstd if method.is_rotated => self.zstd.entropy(raw, &mut out[..room]),
            Coder::Zstd => self.zstd.encode(method.level, raw, &mut out[..room]),
        }
    }
}

impl Decoders {
    /// Decodes a frame's data, which is one LZ4 block or one zstd frame and nothing else, into `out`, which must be filled
    /// exactly.
    ///
    /// # Errors
    /// Malformed.
    pub fn decode(&mut self, coder: Coder, data: &[u8], out: &mut [u8]) -> Result<()> {
        let wanted = out.len();
        let decoded = match coder {
            Coder::Lz4 => lz4::decode(data, out),
            Coder::Zstd => self.zstd.decode(data, out),
        };
        let len =
            decoded.map_err(|words| Error::malformed(format!("a compressed block is corrupt: {words}")))?;
        if len == wanted {
            return Ok(());
        }
        Err(Error::malformed(format!("a compressed block holds {len} bytes, expected {wanted}")))
    }
}

#[cfg(not(target_family = "wasm"))]
mod zstd {
    use apr_sdk::{Error, Result};
    use zstd_safe::{CCtx, CParameter, DCtx, ParamSwitch, Strategy};

    /// An encoder and the parameters it was last given.
    #[derive(Default)]
    pub struct Encoder {
        context: Option<CCtx<'static>>,
        prepared: Option<Prepared>,
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Prepared {
        Level(i32),
        Entropy,
    }

    #[derive(Default)]
    pub struct Decoder(Option<DCtx<'static>>);

    impl Encoder {
        /// Encodes `raw` as one frame; `None` if it does not fit `out`.
        pub fn encode(&mut self, level: i32, raw: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
            self.frame(Prepared::Level(level), &[CParameter::CompressionLevel(level)], raw, out)
        }

        /// The same by the frequency of bytes alone.
        pub fn entropy(&mut self, raw: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
            // With the longest target length the search skips everything.
            let parameters = [
                CParameter::Strategy(Strategy::ZSTD_fast),
                CParameter::TargetLength(1 << 17),
                CParameter::MinMatch(7),
                CParameter::HashLog(6),
                CParameter::LiteralCompressionMode(ParamSwitch::Enable),
            ];
            self.frame(Prepared::Entropy, &parameters, raw, out)
        }

        fn frame(
            &mut self,
            wanted: Prepared,
            parameters: &[CParameter],
            raw: &[u8],
            out: &mut [u8],
        ) -> Result<Option<usize>> {
            let failed = |code| Error::plugin(format!("zstd: {}", zstd_safe::get_error_name(code)));
            let context = match &mut self.context {
                Some(context) => context,
                none => none.insert(CCtx::try_create().ok_or_else(|| Error::limit("no memory for zstd"))?),
            };
            if self.prepared != Some(wanted) {
                context.reset(zstd_safe::ResetDirective::SessionAndParameters).map_err(failed)?;
                for parameter in parameters {
                    context.set_parameter(*parameter).map_err(failed)?;
                }
                self.prepared = Some(wanted);
            }
            // Of all that can go wrong, only too little room depends on the data.
            Ok(context.compress2(out, raw).ok())
        }
    }

    impl Decoder {
        /// Decodes `data`, which must be one frame; returns the length.
        pub fn decode(&mut self, data: &[u8], out: &mut [u8]) -> std::result::Result<usize, String> {
            let context = match &mut self.0 {
                Some(context) => context,
                none => none.insert(DCtx::try_create().ok_or("no memory for zstd")?),
            };
            let wrong = |code| zstd_safe::get_error_name(code).to_owned();
            // The library decodes any number of frames, and skips those that are to be skipped.
            let frame = zstd_safe::find_frame_compressed_size(data).map_err(wrong)?;
            if frame != data.len() {
                return Err(super::goes_on(data.len() - frame));
            }
            context.decompress(out, data).map_err(wrong)
        }
    }
}

#[cfg(target_family = "wasm")]
mod zstd {
    pub use super::in_rust::Decoder;
    use apr_sdk::{Error, Result};

    #[derive(Default)]
    pub struct Encoder;

    impl Encoder {
        pub fn encode(&mut self, _level: i32, raw: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
            self.entropy(raw, out)
        }

        pub fn entropy(&mut self, _raw: &[u8], _out: &mut [u8]) -> Result<Option<usize>> {
            Err(Error::unsupported("zstd cannot be written in the browser").hint("specify `--compress lz4`"))
        }
    }
}

/// What is wrong with a block whose frame ends before it does.
fn goes_on(len: usize) -> String {
    format!("{len} bytes follow its frame")
}

/// The browser's decoder of zstd frames.
#[cfg(any(test, target_family = "wasm"))]
mod in_rust {
    use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
    use ruzstd::io::Read;

    #[derive(Default)]
    pub struct Decoder(FrameDecoder);

    impl Decoder {
        /// Decodes `data`, which must be one frame; returns the length.
        pub fn decode(&mut self, mut data: &[u8], out: &mut [u8]) -> Result<usize, String> {
            self.0.init(&mut data).map_err(|error| error.to_string())?;
            let mut len = 0;
            loop {
                let all = BlockDecodingStrategy::UptoBytes(out.len());
                self.0.decode_blocks(&mut data, all).map_err(|error| error.to_string())?;
                len += self.0.read(&mut out[len..]).map_err(|error| error.to_string())?;
                if self.0.can_collect() > 0 {
                    return Err("it holds too many bytes".to_owned());
                }
                if self.0.is_finished() {
                    return if data.is_empty() { Ok(len) } else { Err(super::goes_on(data.len())) };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a test's numbers are small"
    )]

    use super::super::LEVEL;
    use super::*;

    fn text() -> Vec<u8> {
        (0..60_000u32).map(|n| b"the quick brown fox "[n as usize % 20] ^ (n / 9000) as u8).collect()
    }

    #[test]
    fn both_coders_shrink_what_repeats_and_give_it_back() {
        let raw = text();
        for coder in [Coder::Lz4, Coder::Zstd] {
            let mut out = vec![0; raw.len()];
            let len = Coders::default().encode(Method::new(coder, LEVEL), &raw, &mut out).unwrap().unwrap();
            assert!(len < raw.len() / 4, "{coder:?} {len}");
            let mut back = vec![0; raw.len()];
            Decoders::default().decode(coder, &out[..len], &mut back).unwrap();
            assert_eq!(back, raw);
            for wrong in [raw.len() - 1, raw.len() + 1] {
                let mut back = vec![0; wrong];
                assert!(Decoders::default().decode(coder, &out[..len], &mut back).is_err(), "{coder:?}");
            }
        }
    }

    #[test]
    fn noise_is_not_encoded() {
        let mut state = 7u64;
        let raw: Vec<u8> = (0..65536)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut coders = Coders::default();
        for coder in [Coder::Lz4, Coder::Zstd] {
            assert_eq!(coders.encode(Method::new(coder, LEVEL), &raw, &mut vec![0; 70000]).unwrap(), None);
        }
        // The same encoder goes on to work.
        let text = text();
        assert!(coders.encode(Method::new(Coder::Zstd, 19), &text, &mut vec![0; 70000]).unwrap().is_some());
    }

    #[cfg(not(target_family = "wasm"))]
    #[test]
    fn the_reader_of_the_browser_reads_the_same_frames() {
        let raw = text();
        let mut out = vec![0; raw.len()];
        let rotated = Method { is_rotated: true, ..Method::new(Coder::Zstd, LEVEL) };
        for method in [Method::new(Coder::Zstd, 1), Method::new(Coder::Zstd, 19), rotated] {
            let len = Coders::default().encode(method, &raw, &mut out).unwrap().unwrap();
            let mut back = vec![0; raw.len()];
            let decoded = in_rust::Decoder::default().decode(&out[..len], &mut back);
            assert_eq!(decoded.unwrap(), raw.len());
            assert_eq!(back, raw);
        }
    }

    /// The coded text, once as one frame and once as two.
    #[cfg(not(target_family = "wasm"))]
    fn frames() -> (Vec<u8>, Vec<u8>) {
        let raw = text();
        let mut coders = Coders::default();
        let mut coded = |raw: &[u8]| {
            let mut out = vec![0; raw.len()];
            let len = coders.encode(Method::new(Coder::Zstd, LEVEL), raw, &mut out).unwrap().unwrap();
            out.truncate(len);
            out
        };
        let (start, rest) = raw.split_at(raw.len() / 3);
        (coded(&raw), [coded(start), coded(rest)].concat())
    }

    #[cfg(not(target_family = "wasm"))]
    #[test]
    fn a_block_is_one_frame_and_nothing_else() {
        let (one, two) = frames();
        let skippable = [&0x184d_2a50u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"abc"].concat();
        let mut out = vec![0; text().len()];
        for (data, is_fine) in [
            (one.clone(), true),
            (two, false),
            ([&skippable[..], &one].concat(), false),
            ([&one[..], &skippable].concat(), false),
            ([&one[..], &[0]].concat(), false),
            (skippable, false),
            (Vec::new(), false),
        ] {
            let by_library = Decoders::default().decode(Coder::Zstd, &data, &mut out);
            assert_eq!(by_library.is_ok(), is_fine, "{by_library:?}");
            // What it returns is compared with the length of `out` by the caller.
            let in_browser = in_rust::Decoder::default().decode(&data, &mut out).map(|len| len == out.len());
            assert_eq!(in_browser == Ok(true), is_fine, "{in_browser:?}");
        }
        for len in 0..out.len() {
            assert!(in_rust::Decoder::default().decode(&one, &mut out[..len]).is_err(), "{len}");
        }
        for cut in 0..one.len() {
            assert!(in_rust::Decoder::default().decode(&one[..cut], &mut out).is_err(), "{cut}");
        }
    }
}
