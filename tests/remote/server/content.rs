//! The bytes of a file: held, or made when they are asked for, so that a file of 100 GB costs nothing.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::encoding::{git_id, sha256};

/// Up to this length the digests of what is made are computed.
const DIGEST_LIMIT: u64 = 64 << 20;

/// Gives the bytes at an offset, exactly as many as asked for.
type Make = dyn Fn(u64, usize) -> Vec<u8> + Send + Sync;

/// A file's bytes. Clones share them.
#[derive(Clone)]
pub struct Content {
    len: u64,
    make: Arc<Make>,
    sha256: Arc<OnceLock<Option<String>>>,
    git_id: Arc<OnceLock<Option<String>>>,
}

impl Content {
    /// Bytes that are held.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Vec<u8> = bytes.into();
        let len = bytes.len() as u64;
        Self::generated(len, move |offset, len| bytes[offset as usize..][..len].to_vec())
    }

    /// Bytes that a function gives.
    pub fn generated(len: u64, make: impl Fn(u64, usize) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self { len, make: Arc::new(make), sha256: Arc::default(), git_id: Arc::default() }
    }

    /// Bytes that look random, tell their place, and differ from seed to seed.
    pub fn pattern(len: u64, seed: u64) -> Self {
        Self::generated(len, move |offset, len| {
            let skipped = (offset % 8) as usize;
            let n_words = (skipped + len).div_ceil(8);
            let mut bytes = Vec::with_capacity(n_words * 8);
            for index in (offset / 8..).take(n_words) {
                bytes.extend_from_slice(&mixed(seed, index).to_le_bytes());
            }
            bytes.truncate(skipped + len);
            bytes.drain(..skipped);
            bytes
        })
    }

    /// Zeros.
    pub fn zeros(len: u64) -> Self {
        Self::generated(len, |_, len| vec![0; len])
    }

    /// These bytes, and then the content: a true header before a payload that nobody wrote.
    pub fn after(self, head: impl Into<Vec<u8>>) -> Self {
        let head: Vec<u8> = head.into();
        let head_len = head.len() as u64;
        Self::generated(head_len + self.len, move |offset, len| {
            let from_head = head.get(offset as usize..).unwrap_or(&[]);
            let mut bytes = from_head[..from_head.len().min(len)].to_vec();
            let rest = len - bytes.len();
            if rest > 0 {
                bytes.extend((self.make)(offset.max(head_len) - head_len, rest));
            }
            bytes
        })
    }

    /// The same bytes with every bit of one of them turned over: as long, and wrong.
    pub fn flipped(self, place: u64) -> Self {
        Self::generated(self.len, move |offset, len| {
            let mut bytes = (self.make)(offset, len);
            let within = place.checked_sub(offset).and_then(|at| bytes.get_mut(at as usize));
            if let Some(byte) = within {
                *byte = !*byte;
            }
            bytes
        })
    }

    /// The same bytes under a digest that is taken for theirs, or under none.
    pub fn declaring(self, sha256: Option<&str>) -> Self {
        Self { sha256: Arc::new(OnceLock::from(sha256.map(str::to_owned))), ..self }
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The bytes at an offset. What lies past the end is left out.
    pub fn at(&self, offset: u64, len: usize) -> Vec<u8> {
        let left = self.len.saturating_sub(offset);
        let len = usize::try_from(left).map_or(len, |left| left.min(len));
        if len == 0 { Vec::new() } else { (self.make)(offset, len) }
    }

    /// All of them, which the caller has room for.
    pub fn whole(&self) -> Vec<u8> {
        self.at(0, usize::try_from(self.len).expect("it fits into memory"))
    }

    /// Their SHA-256, as declared or as computed; none for what is large and declares none.
    pub fn sha256(&self) -> Option<String> {
        let small = self.len <= DIGEST_LIMIT;
        self.sha256.get_or_init(|| small.then(|| sha256(&self.whole()))).clone()
    }

    /// Their name in git; none for what is large.
    pub fn git_id(&self) -> Option<String> {
        let small = self.len <= DIGEST_LIMIT;
        self.git_id.get_or_init(|| small.then(|| git_id(&self.whole()))).clone()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// A word from its place, by the finalizer of SplitMix64.
fn mixed(seed: u64, index: u64) -> u64 {
    let mut word =
        index.wrapping_add(seed.wrapping_mul(0xd134_2543_de82_ef95)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_gigabytes_cost_nothing_and_agree_with_themselves() {
        let content = Content::pattern(100 << 30, 7).after(b"head".to_vec());
        let whole = content.at(50 << 30, 1000);
        assert_eq!(content.at((50 << 30) + 13, 100), whole[13..113]);
        assert_eq!(content.at(2, 4)[..2], *b"ad");
        assert_eq!(content.at(content.len() - 3, 100).len(), 3);
        assert_eq!(content.sha256(), None);
        assert_ne!(content.at(4, 64), Content::pattern(64, 8).at(0, 64));
    }

    #[test]
    fn digests_are_those_of_the_bytes_or_the_declared_one() {
        let hello = Content::bytes("hello");
        let known = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(hello.sha256().as_deref(), Some(known));
        // As `git hash-object` has it.
        assert_eq!(hello.git_id().as_deref(), Some("b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"));
        assert_eq!(hello.clone().declaring(Some("00")).sha256().as_deref(), Some("00"));
        assert_eq!(hello.clone().declaring(None).sha256(), None);
        assert_eq!(hello.flipped(1).at(0, 3), [b'h', !b'e', b'l']);
    }
}
