//! Percent-encoding, hexadecimal, digests, and gzip that does not compress.

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The longest piece that one stored block of DEFLATE holds.
const STORED_LIMIT: usize = 0xffff;

/// A text with every `%xx` decoded. What is no valid escape stays as it is, what is no UTF-8 is replaced.
pub fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// A text as one piece of a path, its slashes encoded too.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// A path with its pieces encoded and its slashes kept.
pub fn encoded_path(path: &str) -> String {
    path.split('/').map(percent_encoded).collect::<Vec<_>>().join("/")
}

/// The keys and values of a query, decoded.
pub fn query_pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decoded(key), percent_decoded(&value.replace('+', " ")))
        })
        .collect()
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The name that git gives to bytes: the SHA-1 of a header and of them, in hexadecimal.
pub fn git_id(bytes: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hex(&hash.finalize())
}

/// The text that stands in a git repository for a large file.
pub fn lfs_pointer(sha256: &str, len: u64) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len}\n")
}

/// Bytes as a gzip stream of stored blocks: larger than they were, and right.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    // No bytes are one block without any.
    let mut blocks: Vec<&[u8]> = bytes.chunks(STORED_LIMIT).collect();
    if blocks.is_empty() {
        blocks.push(&[]);
    }
    for (n, block) in blocks.iter().enumerate() {
        let len = u16::try_from(block.len()).expect("a block is no longer than its limit");
        stream.push(u8::from(n + 1 == blocks.len()));
        stream.extend(len.to_le_bytes());
        stream.extend((!len).to_le_bytes());
        stream.extend(*block);
    }
    stream.extend(crc32fast::hash(bytes).to_le_bytes());
    stream.extend((bytes.len() as u32).to_le_bytes());
    stream
}
