//! Seeded bytes for tensors and metadata: the same seed always gives the same bytes.

use apr_sdk::{DType, DTypeKind, Result, Value, ValueType, checked_payload_len};

/// A xorshift generator: enough to make bytes differ, without a dependency.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that gives the sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        // Zero would stay zero.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.bits().to_le_bytes()[3]).collect()
    }

    /// The next number, about normally distributed.
    pub fn normal(&mut self) -> f32 {
        let sum: f64 = (0..4).map(|_| (self.bits() >> 11) as f64 / (1u64 << 53) as f64 - 0.5).sum();
        #[allow(clippy::cast_possible_truncation, reason = "rounding to f32 is what is meant")]
        let rounded = (sum * 1.7) as f32;
        rounded
    }

    /// The next numbers, about normally distributed.
    pub fn normals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.normal()).collect()
    }
}

/// A payload of `dtype` and `shape`: bools are 0 or 1, floats and block scales are finite.
///
/// # Errors
/// As [`checked_payload_len`].
pub fn tensor_bytes(dtype: DType, shape: &[u64], seed: u64) -> Result<Vec<u8>> {
    let len = checked_payload_len(dtype, shape)?;
    let info = dtype.require()?;
    let len = usize::try_from(len).map_err(|_| apr_sdk::Error::limit("a tensor does not fit in memory"))?;
    let mut bytes = Random::new(seed).bytes(len);
    if info.kind == DTypeKind::Bool {
        bytes.iter_mut().for_each(|b| *b &= 1);
    }
    if matches!(info.kind, DTypeKind::Float | DTypeKind::Complex | DTypeKind::Block) {
        for block in bytes.chunks_exact_mut(info.block_bytes as usize) {
            for field in info.swap {
                let width = usize::from(field.width);
                let fields = &mut block[usize::from(field.offset)..];
                // The highest exponent bit off: no infinity, no NaN.
                fields
                    .chunks_exact_mut(width)
                    .take(usize::from(field.count))
                    .for_each(|f| f[width - 1] &= 0xbf);
            }
        }
    }
    Ok(bytes)
}

/// The smallest useful shape of `dims` dimensions for `dtype`: the last dimension is whole blocks and whole bytes.
pub fn shape_of(dtype: DType, dims: usize) -> Vec<u64> {
    let last = match dtype.info().map_or(1, |info| u64::from(info.block_elements)) {
        1 => 5,
        // Eight elements of any width are whole bytes.
        per_block => per_block.max(8),
    };
    let mut shape: Vec<u64> = (0..dims as u64).map(|n| 1 + n % 3).collect();
    if let Some(slot) = shape.last_mut() {
        *slot = last;
    }
    shape
}

/// A value of every kind that `allowed` allows: scalars at their extremes, strings, arrays of each of them.
pub fn values(allowed: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
    let scalars = [
        Value::from_u8(u8::MAX),
        Value::from_i8(i8::MIN),
        Value::from_u16(u16::MAX),
        Value::from_i16(i16::MIN),
        Value::from_u32(u32::MAX),
        Value::from_i32(i32::MIN),
        Value::from_f32(-1.5),
        Value::from_bool(true),
        Value::from_string("text with \"quotes\", \\ and é漢🙂\n"),
        Value::from_u64(u64::MAX),
        Value::from_i64(i64::MIN),
        Value::from_f64(1e300),
    ];
    let mut values = Vec::new();
    for value in scalars {
        let word = value.kind.name().unwrap_or("?");
        if !allowed(word) {
            continue;
        }
        if allowed("arr") {
            let item = value.bytes.inline().unwrap_or_default();
            values.push((format!("kit.arr.{word}"), Value::from_items(value.kind, 3, &item.repeat(3))));
        }
        values.push((format!("kit.{word}"), value));
    }
    if allowed("arr") && allowed("str") {
        values.push(("kit.arr.none".into(), Value::from_items(ValueType::STRING, 0, &[])));
    }
    if allowed("str") {
        values.push(("kit.str.none".into(), Value::from_string("")));
    }
    values
}
