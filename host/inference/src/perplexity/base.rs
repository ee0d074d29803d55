//! Base files, as `llama-perplexity --kl-divergence-base` writes them: the distributions of a model over a text, for others to
//! be compared with. All little-endian:
//!
//! ```text
//!  0            "_logits_"
//!  8            u32 tokens of a window; i32 tokens of the vocabulary, V; i32 windows
//! 20            i32 tokens of the text: window after window
//! then          for each window, for each token that is judged: a row
//!
//! row           f32 scale; f32 smallest ln p;  V × u16 codes, one more if V is odd
//! ```
//!
//! ln p of a token is scale × code + smallest. A token whose ln p is more than 16 below the largest has code 0, and counts as
//! impossible.

use super::distribution::Distribution;
use super::window::scored;
use apr_sdk::{Error, Result, Source};

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"_logits_";
/// Bytes before the tokens.
const START: usize = 20;
/// Bytes before a row's codes.
const ROW_START: usize = 8;
/// Distance from the largest logit below which all are coded as 0.
const RANGE: f32 = 16.0;
/// Tokens whose ln p is not above this are not counted.
pub(super) const IMPOSSIBLE: f32 = -16.0;
/// Distance of a row's sum of probabilities from 1 that codes of 16 bits and what they leave out explain.
const SUM: f64 = 0.1;

/// The sizes of a base file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Tokens of a window.
    pub window: u32,
    /// Tokens of the vocabulary.
    pub vocabulary: u32,
    /// Number of windows.
    pub windows: u32,
}

impl Header {
    /// The file up to its first row, for the tokens of all windows.
    ///
    /// # Errors
    /// LimitExceeded if a number does not fit.
    pub fn to_bytes(self, ids: &[u32]) -> Result<Vec<u8>> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.window.to_le_bytes());
        for number in [self.vocabulary, self.windows].iter().chain(ids) {
            let number = i32::try_from(*number);
            let number = number.map_err(|_| Error::limit("a number of the base file exceeds 2^31"))?;
            bytes.extend(number.to_le_bytes());
        }
        Ok(bytes)
    }

    /// Bytes of a row.
    fn row_len(self) -> u64 {
        2 * u64::from(self.vocabulary).next_multiple_of(2) + ROW_START as u64
    }

    /// Number of tokens in all windows.
    fn tokens(self) -> u64 {
        u64::from(self.window) * u64::from(self.windows)
    }

    /// Number of rows.
    fn rows(self) -> u64 {
        u64::from(self.windows) * scored(usize::try_from(self.window).unwrap_or(0)) as u64
    }

    /// Bytes of the whole file.
    pub fn file_len(self) -> u64 {
        let rows = self.rows().saturating_mul(self.row_len());
        self.tokens().saturating_mul(4).saturating_add(START as u64).saturating_add(rows)
    }
}

/// A base file that is read row by row.
pub struct Base<'a> {
    source: &'a dyn Source,
    /// Its sizes.
    pub header: Header,
    /// The tokens of all windows.
    pub ids: Vec<u32>,
    /// Where the next row is.
    at: u64,
}

impl<'a> Base<'a> {
    /// Opens file 0 of the source.
    ///
    /// # Errors
    /// Unsupported for a file that is no base file; Malformed for one whose length is not what its header says, or with
    /// tokens that its vocabulary does not have.
    pub fn open(source: &'a dyn Source) -> Result<Base<'a>> {
        let len = source.len(0)?;
        let mut start = [0; START];
        if len >= START as u64 {
            source.read_at(0, 0, &mut start)?;
        }
        if !start.starts_with(&MAGIC) {
            let error = Error::unsupported("this is not a base file: it does not start with `_logits_`");
            return Err(error.at(0).hint("write one with `apr perplexity MODEL TEXT --save-base FILE`"));
        }
        let number = |at: usize| u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        let header = Header { window: number(8), vocabulary: number(12), windows: number(16) };
        for (at, what, value) in
            [(12, "vocabulary", header.vocabulary), (16, "number of windows", header.windows)]
        {
            if value == 0 || i32::try_from(value).is_err() {
                return Err(Error::malformed(format!("its {what} is {}", value.cast_signed())).at(at));
            }
        }
        if scored(usize::try_from(header.window).unwrap_or(0)) == 0 {
            return Err(Error::malformed(format!("its windows have {} tokens", header.window)).at(8));
        }
        if len != header.file_len() {
            let message = format!(
                "{} windows of {} tokens over a vocabulary of {} take {} bytes, but the file has {len}",
                header.windows,
                header.window,
                header.vocabulary,
                header.file_len()
            );
            let hint = "write the base file again: it is truncated or corrupt";
            return Err(Error::malformed(message).at(len.min(header.file_len())).hint(hint));
        }
        let mut base = Base { source, header, ids: Vec::new(), at: START as u64 };
        base.read_ids()?;
        Ok(base)
    }

    /// Reads the tokens; the file is as long as they need.
    fn read_ids(&mut self) -> Result<()> {
        let mut piece = vec![0; 1 << 16];
        let mut left = self.header.tokens() * 4;
        while left > 0 {
            let some = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            self.source.read_at(0, self.at, &mut piece[..some])?;
            let (ids, _) = piece[..some].as_chunks::<4>();
            for (bytes, at) in ids.iter().zip((self.at..).step_by(4)) {
                let id = u32::from_le_bytes(*bytes);
                if id >= self.header.vocabulary {
                    let vocabulary = self.header.vocabulary;
                    let message = format!("token {id} is not in the base's vocabulary of {vocabulary}");
                    return Err(Error::malformed(message).at(at));
                }
                self.ids.push(id);
            }
            self.at += some as u64;
            left -= some as u64;
        }
        Ok(())
    }

    /// The next rows, one after the other.
    ///
    /// # Errors
    /// Malformed past the last; any error from the source.
    pub(super) fn next_rows(&mut self, count: usize) -> Result<Vec<CodedRow>> {
        let len = usize::try_from(self.header.row_len()).unwrap_or(usize::MAX);
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let mut bytes = vec![0; len];
            self.source.read_at(0, self.at, &mut bytes)?;
            rows.push(CodedRow { at: self.at, bytes });
            self.at += len as u64;
        }
        Ok(rows)
    }
}

/// A row of a base file.
pub(super) struct CodedRow {
    /// Its offset.
    at: u64,
    bytes: Vec<u8>,
}

impl CodedRow {
    /// ln p of every token, in order.
    ///
    /// # Errors
    /// Malformed, with the offset, for a scale or a smallest ln p that is none.
    pub(super) fn decode(&self) -> Result<Decoded<'_>> {
        let (start, codes) = self.bytes.split_at(ROW_START);
        let scale = f32::from_le_bytes([start[0], start[1], start[2], start[3]]);
        let smallest = f32::from_le_bytes([start[4], start[5], start[6], start[7]]);
        if !(scale.is_finite() && scale >= 0.0) {
            return Err(Error::malformed(format!("the scale of a row is {scale}")).at(self.at));
        }
        if !(smallest.is_finite() && smallest <= 1e-3) {
            let message = format!("the smallest logarithm of a probability is {smallest}");
            return Err(Error::malformed(message).at(self.at + 4));
        }
        Ok(Decoded { at: self.at, scale, smallest, codes })
    }
}

/// A row of a base file as logarithms of probabilities.
pub(super) struct Decoded<'a> {
    at: u64,
    scale: f32,
    smallest: f32,
    codes: &'a [u8],
}

impl Decoded<'_> {
    /// ln p of a token.
    pub(super) fn logarithm(&self, token: usize) -> f32 {
        let code = [self.codes[2 * token], self.codes[2 * token + 1]];
        self.scale * f32::from(u16::from_le_bytes(code)) + self.smallest
    }

    /// Refuses a row whose probabilities do not add up to 1.
    ///
    /// # Errors
    /// Malformed, with the offset.
    pub(super) fn check_sum(&self, sum: f64) -> Result<()> {
        if (sum - 1.0).abs() <= SUM {
            return Ok(());
        }
        let message = format!("the probabilities of a row add up to {sum:.3}, expected 1");
        Err(Error::malformed(message).at(self.at).hint("write the base file again: it is corrupt"))
    }
}

/// A row of logits as a row of a base file, in llama-perplexity's arithmetic.
pub(super) fn code_row(logits: &[f32], distribution: &Distribution<'_>) -> Vec<u8> {
    let most = distribution.most;
    let least = logits.iter().copied().fold(most, f32::min).max(most - RANGE);
    #[allow(clippy::cast_possible_truncation, reason = "the file holds F32")]
    let smallest = least - most - distribution.log_sum as f32;
    let scale = (most - least) / 65535.0;
    let mut row = Vec::with_capacity(2 * logits.len() + 2 + ROW_START);
    row.extend(scale.to_le_bytes());
    row.extend(smallest.to_le_bytes());
    let inverse = 1.0 / scale;
    for logit in logits {
        let code = if scale > 0.0 && *logit > least { inverse * (logit - least) } else { 0.0 };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates within 0 to 65535"
        )]
        let code = code.round_ties_even() as u16;
        row.extend(code.to_le_bytes());
    }
    if logits.len() % 2 == 1 {
        row.extend([0, 0]);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::MemorySource;

    const LOGITS: [f32; 5] = [0.0, 1.0, 2.0, -30.0, 0.5];

    fn header() -> Header {
        Header { window: 4, vocabulary: 5, windows: 2 }
    }

    fn file() -> Vec<u8> {
        let mut bytes = header().to_bytes(&[0, 1, 2, 3, 4, 3, 2, 1]).unwrap();
        let row = code_row(&LOGITS, &Distribution::of(&LOGITS).unwrap());
        bytes.extend(&row);
        bytes.extend(&row);
        bytes
    }

    fn open_error(bytes: Vec<u8>) -> String {
        let source = MemorySource::new("b.kld", bytes);
        let error = Base::open(&source).err().unwrap();
        format!("{} at {:?}", error.message(), error.offset())
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = file();
        assert_eq!(bytes.len() as u64, header().file_len());
        assert_eq!(bytes.len(), 20 + 8 * 4 + 2 * (8 + 12));
        let source = MemorySource::new("b.kld", bytes);
        let mut base = Base::open(&source).unwrap();
        assert_eq!((base.header, &base.ids[..]), (header(), &[0, 1, 2, 3, 4, 3, 2, 1][..]));
        let rows = base.next_rows(2).unwrap();
        let row = rows[1].decode().unwrap();
        let distribution = Distribution::of(&LOGITS).unwrap();
        for token in [0u32, 1, 2, 4] {
            let loss = distribution.loss(token).unwrap();
            let have = f64::from(row.logarithm(token as usize));
            assert!((have + loss).abs() < 1e-4, "{token}: {have}, not {}", -loss);
        }
        // Too far below the largest.
        assert!((row.logarithm(3) - row.logarithm(2) + 16.0).abs() < 1e-4 && row.logarithm(3) <= IMPOSSIBLE);
        assert!(base.next_rows(1).is_err());
    }

    #[test]
    fn equal_logits_have_no_scale() {
        let logits = [1.0f32; 4];
        let row = code_row(&logits, &Distribution::of(&logits).unwrap());
        let row = CodedRow { at: 0, bytes: row };
        let row = row.decode().unwrap();
        assert!((0..4).all(|token| (row.logarithm(token) + 4.0f32.ln()).abs() < 1e-6));
    }

    #[test]
    fn rejects_what_is_no_base_file() {
        assert!(open_error(Vec::new()).contains("not a base file"));
        assert!(open_error(b"_logits_".to_vec()).contains("not a base file"));
        assert!(open_error(b"GGUF, not logits but long enough".to_vec()).contains("not a base file"));
    }

    #[test]
    fn rejects_numbers_that_cannot_be() {
        let with = |at: usize, value: u32| {
            let mut bytes = file();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            open_error(bytes)
        };
        assert!(with(8, 2).contains("windows have 2 tokens at Some(8)"));
        assert!(with(8, u32::MAX).contains("but the file has 92"));
        assert!(with(12, 0).contains("vocabulary is 0 at Some(12)"));
        assert!(with(12, u32::MAX).contains("vocabulary is -1"));
        assert!(with(16, i32::MAX as u32).contains("but the file has 92"));
        assert!(with(24, 5).contains("token 5 is not in the base's vocabulary of 5 at Some(24)"));
        let mut cut = file();
        cut.pop();
        assert!(open_error(cut).contains("but the file has 91"));
        let mut long = file();
        long.push(0);
        assert!(open_error(long).contains("but the file has 93"));
    }

    #[test]
    fn rejects_rows_that_are_no_distribution() {
        let with = |at: usize, value: f32| {
            let mut bytes = file();
            bytes[52 + at..56 + at].copy_from_slice(&value.to_le_bytes());
            let source = MemorySource::new("b.kld", bytes);
            let rows = Base::open(&source).unwrap().next_rows(1).unwrap();
            let error = rows[0].decode().err().unwrap();
            (error.message().to_owned(), error.offset().unwrap())
        };
        assert_eq!(with(0, f32::NAN), ("the scale of a row is NaN".to_owned(), 52));
        assert_eq!(with(0, -1.0).1, 52);
        assert_eq!(with(4, f32::INFINITY).1, 56);
        assert_eq!(with(4, 1.0).1, 56);
    }
}
