//! The manifest is found in the object files of every system: ELF by the real libraries, PE and Mach-O by the smallest
//! files that are such. They are of another system, so they end in E_TARGET, not in E_NOT_A_PLUGIN.

use crate::library::{Library, discover, refusal};
use apr_abi::manifest::Section;
use apr_host::plugins::section;

const TEXT: &str = "id=rogue\nversion=0.1.0\nformats=rogue\nrogue.roles=read\n";
static MANIFEST: Section<{ TEXT.len() }> = Section::new(TEXT, true);

/// A PE file for x86-64 of one section.
fn pe(section: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 0x200];
    file[..2].copy_from_slice(b"MZ");
    file[0x3c..0x40].copy_from_slice(&64u32.to_le_bytes());
    file[64..68].copy_from_slice(b"PE\0\0");
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(68, &0x8664u16.to_le_bytes()); // machine
    put(70, &1u16.to_le_bytes()); // sections
    put(84, &240u16.to_le_bytes()); // optional header
    put(86, &0x2022u16.to_le_bytes()); // executable, large addresses, library
    put(88, &0x20bu16.to_le_bytes()); // PE32+
    put(88 + 108, &16u32.to_le_bytes()); // directories
    put(328, b".aprplug");
    put(328 + 8, &(section.len() as u32).to_le_bytes()); // virtual size
    put(328 + 12, &0x1000u32.to_le_bytes()); // address
    put(328 + 16, &(section.len() as u32).to_le_bytes()); // raw size
    put(328 + 20, &0x200u32.to_le_bytes()); // raw offset
    file.extend_from_slice(section);
    file
}

/// A Mach-O file for arm64 of one section.
fn mach_o(section: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    // Magic, processor, its subtype, dylib, one command of 152 bytes, flags, zero.
    for word in [0xfeed_facf_u32, 0x0100_000c, 0, 6, 1, 152, 0, 0, 0x19, 152] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    let name = |file: &mut Vec<u8>, name: &[u8]| {
        file.extend_from_slice(name);
        file.resize(file.len() + 16 - name.len(), 0);
    };
    name(&mut file, b"__DATA");
    let (len, at) = (section.len() as u64, 184u64);
    for word in [0, len, at, len] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for word in [3u32, 3, 1, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    name(&mut file, b"__aprplug");
    name(&mut file, b"__DATA");
    for word in [0, len] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for word in [at as u32, 0, 0, 0, 0, 0, 0, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(section);
    file
}

fn check(bytes: Vec<u8>) {
    let mut library = Library::copy_of(&crate::build::ROGUE);
    library.bytes = bytes;
    library.write();
    let found = section::read(&library.path).unwrap();
    assert_eq!((found.head.text.as_str(), found.bytes.as_slice()), (TEXT, MANIFEST.bytes()));
    assert_eq!(refusal(&discover(&library.path)).explicit_code(), Some("E_TARGET"));
}

#[test]
fn the_manifest_is_found_in_pe_and_mach_o() {
    check(pe(MANIFEST.bytes()));
    check(mach_o(MANIFEST.bytes()));
}

#[test]
fn every_cut_of_an_object_file_is_an_error() {
    for whole in [pe(MANIFEST.bytes()), mach_o(MANIFEST.bytes())] {
        let mut library = Library::copy_of(&crate::build::ROGUE);
        for len in (0..whole.len()).step_by(7) {
            library.bytes = whole[..len].to_vec();
            library.write();
            assert!(section::read(&library.path).is_err(), "{len} of {}", whole.len());
        }
    }
}
