//! Other programs read what is laid out: Python's `zipfile` and Info-ZIP's `unzip`. Where they are missing the test says
//! so aloud; the byte-for-byte tests of `write` judge without them.

use crate::write::{Item, Sparse, written};
use apr_sdk::{Extent, FileId, Limits, LogLevel, Result, Source};
use apr_zip::{Archive, ZipLayout};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::Command;

fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// What a program says, or nothing where it is missing.
fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    // Names that are not ASCII are compared in the locale.
    match Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {arguments:?}: {text}{errors}");
            Some(text)
        }
        Err(_) => {
            apr_testkit::skipped(&format!("sdk/zip: {program} is not installed, it did not judge"));
            None
        }
    }
}

const TEST: &str = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print(len(z.infolist()))";
const LIST: &str = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); [z.open(i).read(1) for i in z.infolist()]; print(z.infolist()[-1].header_offset, z.infolist()[0].file_size)";

#[test]
fn python_and_unzip_find_no_fault() {
    for zip64 in [false, true] {
        let items = (0..50u32).map(|n| match n % 3 {
            0 => Item::Inline(format!("folder/{n}"), vec![7; n as usize], 64),
            _ => Item::Payload(format!("größe {n}"), vec![n as u8; 30], 1 << (n % 13)),
        });
        let items: Vec<_> = items.collect();
        let data = vec![3; 1000];
        let payloads = vec![data.as_slice(); items.iter().filter(|i| matches!(i, Item::Payload(..))).count()];
        let path = scratch(if zip64 { "judged64.zip" } else { "judged.zip" });
        std::fs::write(&path, written(items, &payloads, zip64).unwrap()).unwrap();
        let path = path.to_str().unwrap();
        if let Some(said) = ask("python3", &["-c", TEST, path]) {
            assert_eq!(said.trim(), "50");
        }
        if let Some(said) = ask("unzip", &["-t", path]) {
            assert!(said.contains("No errors detected"), "{said}");
        }
    }
}

/// Three entries of 3 GB and 70000 small ones: sizes, offsets and the count pass what 32 and 16 bits can say.
fn large() -> Sparse {
    let mut sink = Sparse { payload_len: 3 << 30, ..Sparse::default() };
    let mut zip = ZipLayout::new();
    for n in 0..3 {
        zip.payload(&mut sink, &format!("large{n}"), b"prefix", n, 3 << 30, 64).unwrap();
    }
    for n in 0..70_000 {
        zip.inline(&mut sink, &format!("{n}"), b"x", 1).unwrap();
    }
    zip.finish(&mut sink).unwrap();
    sink
}

impl Source for Sparse {
    fn name(&self, _: FileId) -> String {
        "large.zip".into()
    }
    fn len(&self, _: FileId) -> Result<u64> {
        Ok(self.len)
    }
    fn read_at(&self, _: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        let end = offset + out.len() as u64;
        let first = self.pieces.partition_point(|(at, bytes)| at + bytes.len() as u64 <= offset);
        for (at, bytes) in self.pieces[first..].iter().take_while(|(at, _)| *at < end) {
            for (n, byte) in bytes.iter().enumerate() {
                if let Some(place) = (at + n as u64).checked_sub(offset).filter(|&n| n < out.len() as u64) {
                    out[place as usize] = *byte;
                }
            }
        }
        Ok(())
    }
    fn view(&self, _: Extent) -> Result<&[u8]> {
        Err(apr_sdk::Error::unsupported("view"))
    }
    fn sibling(&self, _: &str) -> Result<FileId> {
        Err(apr_sdk::Error::not_found("sibling"))
    }
    fn entries(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    fn log(&self, _: LogLevel, _: &str) {}
}

#[test]
fn archives_of_9_gigabytes_and_70000_entries_are_read() {
    let sink = large();
    let archive = Archive::open(&sink, 0, &Limits::default()).unwrap();
    assert_eq!(archive.entries().len(), 70_003);
    // Before the directory each has three holes; the second one marks where its data begins.
    assert_eq!(archive.entries()[2].data.offset, sink.holes[7].1);
    assert_eq!(archive.entries()[2].data.len, (3 << 30) + 6);
    assert_eq!(archive.entries()[70_002].name, "69999");
    let path = scratch("large.zip");
    let mut file = std::fs::File::create(&path).unwrap();
    file.set_len(sink.len).unwrap();
    let mut run: (u64, Vec<u8>) = (0, Vec::new());
    for (at, bytes) in sink.pieces.iter().chain([&(u64::MAX, Vec::new())]) {
        if run.0 + run.1.len() as u64 != *at {
            file.seek(SeekFrom::Start(run.0)).unwrap();
            file.write_all(&run.1).unwrap();
            run = (*at, Vec::new());
        }
        run.1.extend_from_slice(bytes);
    }
    let said = ask("python3", &["-c", LIST, path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    if let Some(said) = said {
        let last = archive.entries()[70_002].header;
        assert_eq!(said.trim(), format!("{last} {}", (3u64 << 30) + 6));
    }
}
