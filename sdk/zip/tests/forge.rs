//! Archives made by hand, in which every field can lie.

/// One entry: what its two headers and its data are.
#[derive(Clone)]
pub struct Forged {
    pub name: &'static str,
    pub local_name: &'static str,
    pub method: u16,
    pub flags: u16,
    pub local_crc: u32,
    pub central_crc: u32,
    pub local_sizes: (u32, u32),
    pub central_sizes: (u32, u32),
    pub header: Option<u32>,
    pub extra: Vec<u8>,
    pub central_extra: Vec<u8>,
    pub data: Vec<u8>,
}

impl Forged {
    pub fn stored(name: &'static str, data: &[u8]) -> Forged {
        let (crc, len) = (crc32fast::hash(data), data.len() as u32);
        Forged {
            name,
            local_name: name,
            method: 0,
            flags: 0,
            local_crc: crc,
            central_crc: crc,
            local_sizes: (len, len),
            central_sizes: (len, len),
            header: None,
            extra: Vec::new(),
            central_extra: Vec::new(),
            data: data.to_vec(),
        }
    }

    pub fn deflated(name: &'static str, raw: &[u8]) -> Forged {
        let mut state = flate2::Compress::new(flate2::Compression::best(), false);
        let mut data = Vec::with_capacity(raw.len() + 1024);
        state.compress_vec(raw, &mut data, flate2::FlushCompress::Finish).unwrap();
        let mut entry = Forged::stored(name, raw);
        entry.method = 8;
        let sizes = (data.len() as u32, raw.len() as u32);
        (entry.local_sizes, entry.central_sizes, entry.data) = (sizes, sizes, data);
        entry
    }

    /// Adds Info-ZIP's field with another name (APPNOTE 4.6.9), for the raw name whose CRC-32 is `crc`.
    pub fn also_called(mut self, name: &str, crc: u32) -> Forged {
        let len = (5 + name.len()) as u16;
        let field = [&b"up"[..], &len.to_le_bytes(), &[1], &crc.to_le_bytes(), name.as_bytes()].concat();
        (self.extra, self.central_extra) = (field.clone(), field);
        self
    }

    /// Changes the sizes in both headers: bytes stored, bytes raw.
    pub fn sized(mut self, stored: u32, raw: u32) -> Forged {
        (self.local_sizes, self.central_sizes) = ((stored, raw), (stored, raw));
        self
    }
}

/// An archive, the offset of its central directory and the offset of its end record.
pub fn archive(entries: &[Forged]) -> (Vec<u8>, usize, usize) {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let header = entry.header.unwrap_or(out.len() as u32);
        let common = |crc: u32, sizes: (u32, u32), name: &str| {
            let mut common = [entry.flags, entry.method, 0, 0x21].map(u16::to_le_bytes).concat();
            common.extend_from_slice(&[crc, sizes.0, sizes.1].map(u32::to_le_bytes).concat());
            common.extend_from_slice(&(name.len() as u16).to_le_bytes());
            common
        };
        out.extend_from_slice(b"PK\x03\x04\x14\x00");
        out.extend_from_slice(&common(entry.local_crc, entry.local_sizes, entry.local_name));
        out.extend_from_slice(&(entry.extra.len() as u16).to_le_bytes());
        out.extend_from_slice(entry.local_name.as_bytes());
        out.extend_from_slice(&entry.extra);
        out.extend_from_slice(&entry.data);
        directory.extend_from_slice(b"PK\x01\x02\x14\x03\x14\x00");
        directory.extend_from_slice(&common(entry.central_crc, entry.central_sizes, entry.name));
        directory.extend_from_slice(&(entry.central_extra.len() as u16).to_le_bytes());
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&header.to_le_bytes());
        directory.extend_from_slice(entry.name.as_bytes());
        directory.extend_from_slice(&entry.central_extra);
    }
    let start = out.len();
    out.extend_from_slice(&directory);
    let end = out.len();
    out.extend_from_slice(&end_record(entries.len() as u16, directory.len() as u32, start as u32));
    (out, start, end)
}

pub fn end_record(count: u16, size: u32, start: u32) -> Vec<u8> {
    let mut out = b"PK\x05\x06\0\0\0\0".to_vec();
    out.extend_from_slice(&[count, count].map(u16::to_le_bytes).concat());
    out.extend_from_slice(&[size, start].map(u32::to_le_bytes).concat());
    out.extend_from_slice(&[0, 0]);
    out
}
