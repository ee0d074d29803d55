//! The writing half: one file of all payloads, and what the feature is about behind them.

use apr_sdk::*;

/// Writes the format of one feature.
pub struct Feature(String);

impl Feature {
    pub fn of(format: &str) -> Feature {
        Feature(format.to_owned())
    }
}

/// SHA-256, which no host computes yet.
const SHA256: Sum = Sum::new(Digest::Sha256, DigestForm::Hex);
/// What TFRecord files hold.
const MASKED: Sum = Sum::new(Digest::Crc32c, DigestForm::Masked);

impl Writer for Feature {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        sink.file(&request.file_name)?;
        for tensor in 0..model.tensors.len() as u64 {
            let options = Options::new().with("level", "7");
            sink.payload(
                tensor,
                1,
                match self.0.as_str() {
                    "encoded" => {
                        let codec = Codec { number: 4, options };
                        Encoding::Encoded { codec, block_size: 4, lengths: tensor == 0 }
                    }
                    _ => Encoding::Raw,
                },
            )?;
        }
        match self.0.as_str() {
            "digests" => {
                sink.digest(Sum::CRC32_HEX)?;
                sink.digest(Sum::CRC32)?;
                sink.hole(1, 8)?;
                sink.hole(2, 4)?;
                sink.hole(3, 8)
            }
            "asks_sha256" => sink.digest(SHA256),
            "fills_crc32c" => sink.hole(1, 4),
            _ => Ok(()),
        }
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        let lacks = || Error::plugin("lacks a digest that it asked for");
        match self.0.as_str() {
            "digests" => {
                sink.fill(1, written.tensors[0].digests.get(Sum::CRC32_HEX).ok_or_else(lacks)?)?;
                sink.fill(2, written.inputs[0].digests.get(Sum::CRC32).ok_or_else(lacks)?)?;
                sink.fill_digest(3, 0, 0, written.holes[2].offset, Sum::CRC32_HEX)
            }
            "fills_crc32c" => sink.fill_digest(1, 0, 0, 1, MASKED),
            "encoded" => {
                let lengths: Vec<_> = written.tensors.iter().map(|tensor| &tensor.blocks).collect();
                sink.append(0, format!("{lengths:?}").as_bytes())
            }
            _ => Ok(()),
        }
    }

    fn dtypes(&self, tensors: &[TensorFacts], _: Option<DType>) -> Result<Vec<DTypeChoice>> {
        assert!(self.0 != "panics_dtypes", "dtypes panic");
        match self.0.as_str() {
            "fails_dtypes" => Err(Error::unsupported("cannot say its dtypes").hint("ask another")),
            _ => Ok(vec![DTypeChoice::Keep; tensors.len()]),
        }
    }

    fn encoded_bound(&self, codec: &Codec, raw_len: u64) -> Result<u64> {
        match (codec.number, codec.options.get("level")) {
            (4, Some(level)) => Ok(raw_len + level.len() as u64 + 1),
            told => Err(Error::unsupported(format!("there is no method {told:?}"))),
        }
    }

    /// The block's number, what the method was told, and the block.
    fn encode(&self, codec: &Codec, at: BlockAt, raw: &[u8], out: &mut [u8]) -> Result<usize> {
        let level = codec.options.get("level").unwrap_or_default();
        let encoded = [&at.block.to_le_bytes()[..1], level.as_bytes(), raw].concat();
        out.get_mut(..encoded.len())
            .ok_or_else(|| Error::plugin("less room than it asked for"))?
            .copy_from_slice(&encoded);
        Ok(encoded.len())
    }
}
