//! Forged files: pickles by hand, in a ZIP or as a legacy stream.

/// A ZIP of stored records, as plain as can be.
pub fn zip(records: &[(&str, &[u8])]) -> Vec<u8> {
    let records: Vec<_> = records.iter().map(|&(name, data)| (name, data.to_vec(), None)).collect();
    archive(&records)
}

/// A record: its name, its bytes as they lie there, and if they are deflated the CRC-32 and length of what is in them.
pub type Record<'n> = (&'n str, Vec<u8>, Option<(u32, u32)>);

/// A record that is deflated, in blocks that are not made smaller; `len` is how long it is said to be.
pub fn deflated<'n>(name: &'n str, data: &[u8], len: usize) -> Record<'n> {
    let mut raw = Vec::new();
    let mut pieces = data.chunks(0xffff).peekable();
    while let Some(piece) = pieces.next() {
        raw.push(u8::from(pieces.peek().is_none()));
        raw.extend((piece.len() as u16).to_le_bytes());
        raw.extend((!(piece.len() as u16)).to_le_bytes());
        raw.extend(piece);
    }
    (name, raw, Some((crc32fast::hash(data), len as u32)))
}

/// A ZIP of records.
pub fn archive(records: &[Record<'_>]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data, deflated) in records {
        let at = out.len() as u32;
        let method = if deflated.is_some() { 8u8 } else { 0 };
        let (crc, len) = deflated.unwrap_or_else(|| (crc32fast::hash(data), data.len() as u32));
        let numbers = |out: &mut Vec<u8>| {
            out.extend([method, 0, 0, 0, 0x21, 0]);
            out.extend(crc.to_le_bytes());
            out.extend((data.len() as u32).to_le_bytes());
            out.extend(len.to_le_bytes());
            out.extend((name.len() as u16).to_le_bytes());
        };
        out.extend(b"PK\x03\x04\x14\0\0\0");
        numbers(&mut out);
        out.extend([0, 0]);
        out.extend(name.as_bytes());
        out.extend(data);
        directory.extend(b"PK\x01\x02\x14\0\x14\0\0\0");
        numbers(&mut directory);
        directory.extend([0; 12]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let at = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend((records.len() as u16).to_le_bytes().repeat(2));
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0, 0]);
    out
}

/// A checkpoint of this pickle and one storage of `len` bytes, key `0`.
pub fn checkpoint(pickle: &[u8], len: usize) -> Vec<u8> {
    zip(&[
        ("m/data.pkl", pickle),
        ("m/byteorder", b"little"),
        ("m/data/0", &vec![7; len]),
        ("m/version", b"3\n"),
    ])
}

/// A legacy stream whose object is this pickle, without storages.
pub fn stream(pickle: &[u8]) -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let info = b"\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    [&magic[..], b"\x80\x02M\xe9\x03.", info, pickle, b"\x80\x02]."].concat()
}

/// Pushes a string.
pub fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Pushes the global `module.name`.
pub fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

/// A whole number.
pub fn int(number: i64) -> Vec<u8> {
    [b"\x8a\x08", &number.to_le_bytes()[..]].concat()
}

/// A tuple of these.
pub fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(".to_vec(), items.concat(), b"t".to_vec()].concat()
}

/// Calls `module.name` with `items` as its arguments.
pub fn call(module: &str, name: &str, items: &[Vec<u8>]) -> Vec<u8> {
    [global(module, name), tuple(items), b"R".to_vec()].concat()
}

/// Pushes a persistent id for storage `0` of this class.
pub fn storage(class: &str, numel: i64) -> Vec<u8> {
    let id = [text("storage"), global("torch", class), text("0"), text("cpu"), int(numel)];
    [tuple(&id), b"Q".to_vec()].concat()
}

/// A tensor by `_rebuild_tensor_v2`.
pub fn tensor(storage: Vec<u8>, offset: i64, size: &[i64], stride: &[i64]) -> Vec<u8> {
    let ints = |items: &[i64]| tuple(&items.iter().map(|&n| int(n)).collect::<Vec<_>>());
    let hooks = [global("collections", "OrderedDict"), b")R".to_vec()].concat();
    let items = [storage, int(offset), ints(size), ints(stride), b"\x89".to_vec(), hooks];
    call("torch._utils", "_rebuild_tensor_v2", &items)
}

/// A pickle of protocol 2 of this value.
pub fn pickle(value: &[u8]) -> Vec<u8> {
    [b"\x80\x02", value, b"."].concat()
}

/// A pickle of the dict `{"t": value}`.
pub fn named(value: &[u8]) -> Vec<u8> {
    pickle(&[b"}", &text("t")[..], value, b"s"].concat())
}
