//! Builds files byte by byte, right or wrong.

/// A little-endian file of version 3.
#[derive(Clone)]
pub struct File {
    /// Key records.
    pub keys: Vec<Vec<u8>>,
    /// Tensor records.
    pub infos: Vec<Vec<u8>>,
    /// What follows the padded header.
    pub data: Vec<u8>,
    /// What the header is padded to.
    pub alignment: usize,
}

impl Default for File {
    fn default() -> File {
        File { keys: Vec::new(), infos: Vec::new(), data: Vec::new(), alignment: 32 }
    }
}

impl File {
    /// The whole file. Without data the header is not padded, so that "bytes left" are what a test says.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend((self.infos.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        self.keys.iter().chain(&self.infos).for_each(|record| out.extend(record));
        if !self.data.is_empty() {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
        }
        out.extend(&self.data);
        out
    }

    /// Encodes a string: u64 length, then bytes.
    pub fn string(text: &[u8]) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text].concat()
    }

    /// A key record.
    pub fn key(name: &[u8], kind: u32, value: &[u8]) -> Vec<u8> {
        [&File::string(name), kind.to_le_bytes().as_slice(), value].concat()
    }

    /// An array that claims `count` items.
    pub fn array(kind: u32, count: u64, items: &[u8]) -> Vec<u8> {
        [kind.to_le_bytes().as_slice(), &count.to_le_bytes(), items].concat()
    }

    /// A tensor record; dimensions as the file has them, innermost first.
    pub fn info(name: &[u8], dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
        let mut out = File::string(name);
        out.extend((dims.len() as u32).to_le_bytes());
        dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
        out.extend(kind.to_le_bytes());
        out.extend(offset.to_le_bytes());
        out
    }
}
