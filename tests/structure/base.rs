//! Makes a case's file of its base.

use serde::Deserialize;

/// Bytes of generated metadata.
const METADATA: usize = 200_000_000;
/// Bytes of the header of a base with generated metadata, and the alignment that it promises.
const HEADER: usize = 32;
const ALIGNMENT: usize = 64;

/// Bytes to replace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    at: usize,
    was: String,
    put: String,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Applies edits, whose offsets are those of the base.
pub fn edit(of: &mut Vec<u8>, edits: &[Edit]) {
    for Edit { at, was, put } in edits.iter().rev() {
        let (was, put) = (bytes(was), bytes(put));
        let there = *at..at + was.len();
        assert_eq!(of[there.clone()], was, "at {at:#x}");
        of.splice(there, put);
    }
}

/// Makes the checksum in the footer right, and nothing else of it.
pub fn sum(of: &mut [u8]) {
    let at = of.len() - 16;
    let crc = crc32fast::hash(&of[..at]);
    of[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The kind of metadata to make.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Generate {
    /// One key with a long text.
    LongValue,
    /// Many keys.
    ManyKeys,
}

impl Generate {
    /// The file without its tensors, with long metadata.
    pub fn metadata_of(self, base: &[u8]) -> Vec<u8> {
        let mut out = base[..HEADER].to_vec();
        out.extend(br#"{"apr_version":"2.0.0","model_type":"tensors","architecture":{}"#);
        match self {
            Generate::LongValue => {
                out.extend(br#","k":""#);
                out.resize(HEADER + METADATA, b'x');
                out.push(b'"');
            }
            Generate::ManyKeys => {
                for n in 0.. {
                    if out.len() > HEADER + METADATA {
                        break;
                    }
                    out.extend(format!(",\"k{n}\":0").bytes());
                }
            }
        }
        out.push(b'}');
        let index_at = out.len();
        out.extend([0; 8]);
        let data_at = out.len().next_multiple_of(ALIGNMENT);
        out.resize(data_at, 0);
        for (at, value) in [(16, index_at - HEADER), (20, index_at), (24, 8), (28, data_at)] {
            out[at..at + 4].copy_from_slice(&u32::try_from(value).unwrap().to_le_bytes());
        }
        let len = out.len() as u64 + 16;
        out.extend([0; 4]);
        out.extend(b"2RPA");
        out.extend(len.to_le_bytes());
        sum(&mut out);
        out
    }
}
