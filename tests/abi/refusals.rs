//! One refusal per code, each made of a good library by changing bytes; and no code of a refused one ran.

use crate::build::{ABORTS, NEXT, ROGUE, STRIPPED};
use crate::library::{Library, discover, folder, refusal};
use apr_host::plugins::DiscoverOptions;
use std::fs;

fn rogue() -> Library {
    Library::copy_of(&ROGUE)
}

/// Refused with `code` before any of its code ran.
fn check(library: &Library, code: &str) {
    let error = library.refusal();
    assert_eq!(error.explicit_code(), Some(code), "{error:?}");
    assert!(!library.ran(), "{code}: code of the plugin ran");
}

#[test]
fn a_good_library_is_loaded_and_leaves_its_marker() {
    let library = rogue();
    library.write();
    let registry = discover(&library.path);
    let plugin = &registry.plugins()[0];
    assert!(plugin.state.is_ok(), "{:?}", plugin.state.as_ref().err());
    assert_eq!(plugin.abi, Some(apr_abi::ABI));
    assert_eq!(registry.format("rogue").unwrap().manifest.extensions, ["rogue"]);
    if cfg!(target_os = "linux") {
        assert!(library.ran(), "the marker proves nothing if loading leaves none");
    }
}

#[test]
fn nothing_is_loaded_until_it_is_asked_for() {
    let library = rogue();
    library.write();
    let options = DiscoverOptions { named: vec![library.path.clone()], ..DiscoverOptions::default() };
    let registry = apr_host::plugins::discover(&options);
    assert!(registry.plugins()[0].state.is_ok() && !library.ran());
    registry.format("rogue").unwrap().reader().unwrap();
    assert!(library.ran() || !cfg!(target_os = "linux"));
}

#[test]
fn a_stripped_library_keeps_its_manifest() {
    let library = Library::copy_of(&STRIPPED);
    library.write();
    let registry = discover(&library.path);
    // Its crate has another name, its plugin the same.
    assert_eq!(registry.plugins()[0].manifest.as_ref().unwrap().id, "rogue");
    assert!(registry.plugins()[0].state.is_ok());
    assert!(library.bytes.len() < fs::metadata(&*ROGUE).unwrap().len() as usize);
}

#[test]
fn rejects_what_is_no_plugin() {
    let good = rogue().bytes.clone();
    let half = good[..good.len() / 2].to_vec();
    for (what, bytes) in [("empty", Vec::new()), ("text", b"<!DOCTYPE html>".to_vec()), ("half", half)] {
        let mut library = rogue();
        library.bytes = bytes;
        assert_eq!(library.refusal().explicit_code(), Some("E_NOT_A_PLUGIN"), "{what}");
    }
    let mut magic = rogue();
    let at = magic.section();
    magic.bytes[at + 6] ^= 1;
    check(&magic, "E_NOT_A_PLUGIN");
    for (at, value) in [(8, u32::MAX), (8, 159), (12, u32::MAX), (12, 1 << 19)] {
        check(rogue().head(at, value), "E_NOT_A_PLUGIN");
    }
    check(rogue().replace(b"id=rogue\n", b"id=ROGUE\n"), "E_NOT_A_PLUGIN");
    check(
        rogue().replace(b"rogue.roles=", b"rogue.name =").replace(b"license=", b"version="),
        "E_NOT_A_PLUGIN",
    );
}

#[test]
fn rejects_a_library_without_a_manifest() {
    let mut library = rogue();
    let section = if cfg!(target_vendor = "apple") { "__aprplug" } else { ".aprplug" };
    library.replace(section.as_bytes(), &vec![b'x'; section.len()]);
    check(&library, "E_NOT_A_PLUGIN");
}

#[test]
fn rejects_another_id_than_the_symbols() {
    let mut library = rogue();
    library.replace(b"id=rogue\n", b"id=rogux\n");
    let error = library.refusal();
    assert_eq!(error.explicit_code(), Some("E_NOT_A_PLUGIN"), "{error}");
    assert!(error.message().contains("apr_plugin_v1_rogux"), "{error}");
}

#[test]
fn rejects_other_targets() {
    let target = apr_abi::manifest::TARGET.as_bytes();
    let other: Vec<_> = target.iter().map(|byte| if *byte == b'l' { b'x' } else { *byte }).collect();
    check(rogue().replace(target, &other), "E_TARGET");
    if cfg!(target_os = "linux") {
        // The machine of the ELF header: another processor of the same width.
        let mut library = rogue();
        let other: u16 = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
        library.bytes[18..20].copy_from_slice(&other.to_le_bytes());
        check(&library, "E_TARGET");
    }
}

#[test]
fn rejects_a_build_whose_panics_abort() {
    let flags = apr_abi::manifest::UNWINDS;
    check(rogue().head(24, !flags), "E_PANIC_ABORT");
    check(&Library::copy_of(&ABORTS), "E_PANIC_ABORT");
}

#[test]
fn rejects_other_interfaces() {
    let (major, minor) = apr_abi::ABI;
    check(rogue().head(16, major + 1), "E_ABI_MAJOR");
    check(rogue().head(16, 0), "E_ABI_MAJOR");
    check(rogue().head(20, minor + 1), "E_ABI_MINOR");
    let mut development = rogue();
    development.head(28, apr_abi::manifest::WIRE_HASH ^ 1);
    check(&development, "E_ABI_MINOR");
    assert!(development.refusal().message().contains("development build"));
}

#[test]
fn rejects_a_newer_plugin_by_its_number_and_by_its_layout() {
    check(&Library::copy_of(&NEXT), "E_ABI_MINOR");
    let mut forged = Library::copy_of(&NEXT);
    forged.head(20, apr_abi::ABI.1);
    let error = forged.refusal();
    assert_eq!(error.explicit_code(), Some("E_LAYOUT"), "{error}");
    assert!(error.message().contains("FieldCountMismatch"), "{error}");
}

#[test]
fn rejects_another_layout_and_another_abi_stable() {
    let mut renamed = rogue();
    renamed.replace(b"take_faults", b"take_fauxts");
    assert_eq!(renamed.refusal().explicit_code(), Some("E_LAYOUT"));
    let mut other = rogue();
    other.replace(b"abi stable library for Rust", b"abi stable library for Zig!");
    assert_eq!(other.refusal().explicit_code(), Some("E_ABI_MAJOR"));
}

#[test]
#[cfg(target_os = "linux")]
fn rejects_what_the_system_cannot_load_and_says_why() {
    let mut library = rogue();
    library.replace(b"\0libc.so.6\0", b"\0libq.so.6\0");
    check(&library, "E_DLOPEN");
    let causes = library.refusal().causes().join("; ");
    assert!(causes.contains("libq.so.6"), "{causes}");
}

#[test]
fn rejects_a_named_file_that_is_not_there() {
    let error = refusal(&discover(&folder().join("nothing.so")));
    assert_eq!(error.explicit_code(), Some("E_NOT_FOUND"));
}

#[test]
fn the_earlier_of_two_with_one_id_wins() {
    let (first, second) = (rogue(), rogue());
    first.write();
    second.write();
    let named = vec![first.path.clone(), second.path.clone(), first.path.clone()];
    let mut registry = apr_host::plugins::discover(&DiscoverOptions { named, ..DiscoverOptions::default() });
    registry.load_all();
    assert_eq!(registry.plugins().len(), 2, "the same file twice is one plugin");
    assert!(registry.plugins()[0].state.is_ok());
    assert_eq!(refusal(&registry).explicit_code(), Some("E_DUPLICATE_ID"));
    assert!(!second.ran());
}

#[test]
fn rejects_a_library_that_was_replaced_while_an_older_one_is_loaded() {
    let mut library = rogue();
    library.write();
    assert!(discover(&library.path).plugins()[0].state.is_ok());
    library.replace(b"version=0.1.0\n", b"version=0.1.1\n");
    let beside = library.path.with_extension("new");
    fs::write(&beside, &library.bytes).unwrap();
    fs::rename(&beside, &library.path).unwrap();
    let error = refusal(&discover(&library.path));
    assert_eq!(error.explicit_code(), Some("E_CHANGED"), "{error}");
}
