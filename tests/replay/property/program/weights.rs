//! The weights that programs are compiled over: few and small, of every rounding, for every use.

use apr_sdk::{DType, Device, ImageMemory, ImageSink, MatrixSpec, Result, Rows, Weight, half};

/// Type, rows and columns of each, by number.
const WEIGHTS: &[(DType, u64, u64)] = &[
    // 0: a table of tokens. 1 and 2: vectors for rows and for heads.
    (DType::F32, 40, 32),
    (DType::F32, 1, 32),
    (DType::F32, 1, 8),
    // 3 and 4: queries, keys and values, and what follows attention. 5 and 6: gate and up, and down.
    (DType::Q8_0, 64, 32),
    (DType::Q4_0, 32, 32),
    (DType::F16, 96, 32),
    (DType::F32, 32, 48),
    // 7: four heads' own matrices.
    (DType::F32, 32, 8),
    // 8 to 12: scores of four experts, their matrices, a bias for each, and a number for each.
    (DType::F32, 4, 32),
    (DType::Q8_0, 64, 32),
    (DType::F32, 128, 16),
    (DType::F32, 4, 16),
    (DType::F32, 1, 4),
    // 13 and 14: super-blocks, and a table of rows for them.
    (DType::Q4_K, 32, 256),
    (DType::F32, 8, 256),
];

/// Plain rows.
struct Plain {
    bytes: Vec<u8>,
    row: usize,
}

impl Rows for Plain {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let at = first as usize * self.row;
        out.copy_from_slice(&self.bytes[at..at + out.len()]);
        Ok(())
    }
}

/// Bytes from a multiple of 64 on.
struct Aligned {
    bytes: Vec<u8>,
    first: usize,
    len: usize,
}

impl ImageMemory for Aligned {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.first..self.first + self.len]
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        Ok(&mut self.bytes[self.first..self.first + self.len])
    }
}

struct Sink;

impl ImageSink for Sink {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        let len = bytes as usize;
        let bytes = vec![0; len + 63];
        let first = bytes.as_ptr().align_offset(64);
        Ok(Box::new(Aligned { bytes, first, len }))
    }
}

/// Small numbers in a type, the same every time.
fn plain(dtype: DType, spec: &MatrixSpec) -> Plain {
    let element = |n: u64| ((n * 37 % 64) as f32 - 31.0) / 96.0;
    let elements = (0..spec.rows() * spec.columns()).map(element);
    let bytes = match dtype {
        DType::F32 => elements.flat_map(f32::to_le_bytes).collect(),
        DType::F16 => elements.flat_map(|x| half::to_f16(x).to_le_bytes()).collect(),
        // Any bytes are codes, and those from 0x18 to 0x2f make scales in binary16 of 0.002 to 0.12.
        _ => (0..spec.bytes()).map(|n| 0x18 + (n * 7 % 0x18) as u8).collect(),
    };
    Plain { bytes, row: spec.row_bytes() as usize }
}

/// All of them on a device.
pub fn prepared(device: &dyn Device) -> Vec<Weight> {
    let prepare = |(dtype, rows, columns): &(DType, u64, u64)| {
        let spec = MatrixSpec::new(*dtype, *rows, *columns).unwrap();
        device.prepare(&spec, &plain(*dtype, &spec), &mut Sink).unwrap()
    };
    WEIGHTS.iter().map(prepare).collect()
}
