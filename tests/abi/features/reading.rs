//! The reading half: files without a header, of one tensor of bytes.

use apr_sdk::*;

/// Reads the format of one feature.
pub struct Feature(String);

impl Feature {
    pub fn of(format: &str) -> Feature {
        Feature(format.to_owned())
    }

    /// The checksum that lies at the end of the file.
    fn sum(&self) -> Option<Sum> {
        match self.0.as_str() {
            "crc32" => Some(Sum::CRC32),
            "crc32_hex" => Some(Sum::CRC32_HEX),
            "crc32c_masked" => Some(Sum::new(Digest::Crc32c, DigestForm::Masked)),
            "sha256" => Some(Sum::new(Digest::Sha256, DigestForm::Bytes)),
            _ => None,
        }
    }
}

impl Reader for Feature {
    fn probe(&self, _: &Look<'_>) -> Score {
        Score::NO
    }

    fn open(&self, _: &dyn Source, _: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        Ok(Box::new(Feature(self.0.clone())))
    }
}

/// Blocks have this many bytes.
const BLOCK: u64 = 3;

impl OpenModel for Feature {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let len = source.len(0)?;
        let mut bytes =
            |payload, shape: &[u64]| sink.tensor(TensorDecl { name: "t", dtype: DType::U8, shape, payload });
        let whole = Extent::new(0, 0, len);
        match self.0.as_str() {
            "view" => {
                // Columns of two, each number with its bytes the wrong way round.
                let view = View { strides: vec![1, 2], start: 0, endian: Endian::Big };
                let payload = Payload::Extent { extent: whole, view: Some(view) };
                sink.tensor(TensorDecl { name: "t", dtype: DType::U16, shape: &[2, len / 4], payload })
            }
            "blocks" => {
                let options = Options::new().with("add", "3").with("word", "é\n");
                bytes(Payload::Blocks { codec: Codec { number: 5, options } }, &[len])
            }
            "sequential" => bytes(Payload::Sequential, &[len]),
            "part" => {
                let range = Some((1, len - 1));
                sink.part(PartDecl { file: 0, range, format: "extent", options: Options::new() })
            }
            _ => {
                let width = self.sum().and_then(Sum::width).unwrap_or(0);
                let extent = Extent::new(0, 0, len - width);
                bytes(Payload::Extent { extent, view: None }, &[len - width])?;
                let stored = Extent::new(0, len - width, width).into();
                let checksum = self.sum().map(|sum| Checksum::raw(extent, stored, sum));
                checksum.map_or(Ok(()), |checksum| sink.fact(Fact::Checksum(checksum)))
            }
        }
    }

    fn blocks(&self, source: &dyn Source, _: u64, sink: &mut dyn BlockSink) -> Result<()> {
        let len = source.len(0)?;
        let mut blocks = (0..len).step_by(BLOCK as usize);
        blocks.try_for_each(|at| {
            let n = BLOCK.min(len - at);
            sink.block(Extent::new(0, at, n), n)
        })
    }

    /// Adds what the method is told to add.
    fn decode(&self, codec: &Codec, _: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let told = (codec.number, codec.options.integer("add"), codec.options.get("word"));
        let (5, Some(add), Some("é\n")) = told else {
            return Err(Error::plugin(format!("the method was told {told:?}")));
        };
        for (out, stored) in out.iter_mut().zip(stored) {
            *out = stored.wrapping_add(add as u8);
        }
        Ok(())
    }

    fn stream(&self, _: u64) -> Result<Box<dyn Stream>> {
        Ok(Box::new(Drip(0)))
    }
}

/// Gives a byte a call, each one less than it is.
struct Drip(u64);

impl Stream for Drip {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        if self.0 == source.len(0)? {
            return Ok(0);
        }
        source.read_at(0, self.0, &mut out[..1])?;
        out[0] = out[0].wrapping_sub(1);
        self.0 += 1;
        Ok(1)
    }
}
