//! Files of older layouts of APR. The checksum of a 64-byte header is made right first: nearly no mutation leaves it so, and
//! what lies behind it would never be tried.

use super::{Subject, check_model};

/// Checks the outcome rule for a file of either layout. Gives whether it opened.
pub fn check(subject: &Subject, input: &[u8]) -> bool {
    const HEADER: usize = 64;
    let mut file = input.to_vec();
    if file.starts_with(b"APR\0") && file.len() >= HEADER {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&file[..40]);
        sum.update(&file[44..HEADER]);
        file[40..44].copy_from_slice(&sum.finalize().to_le_bytes());
    }
    check_model(subject, &file)
}
