//! That races are found, whose kinds `planted.hpp` has.

use crate::emulated::{self, Ended, Entry, Give, Take};
use std::ffi::CStr;

#[test]
fn mistakes_of_every_kind_are_found() {
    let Some(library) = emulated::library() else {
        return apr_testkit::skipped(
            "kernels for NVIDIA's devices on the processor: there is no C++ compiler",
        );
    };
    // SAFETY: the library's function has this type, and is not called.
    if unsafe { library.get::<Ended>(b"races_ended") }.is_err() {
        return apr_testkit::skipped(
            "races of kernels: this system does not let them be found (other than Linux, or few addresses)",
        );
    }
    let expected = [
        (0, ""),
        (1, "what another"),
        (2, "what another"),
        (3, "what another"),
        (4, "what another"),
        (5, "counts up before all that its block wrote is fenced"),
        (6, "what another"),
        (7, "reads what a kernel before it may be writing"),
        (8, "writes before the kernel before it has ended"),
        (9, "reads as constant what its kernel writes"),
        (10, "is not aligned"),
        (11, "its block"),
        (12, "what another"),
        (13, "ends before the kernel before it has"),
        (14, "reads as constant what its kernel writes"),
    ];
    for (mistake, words) in expected {
        // SAFETY: the library has these functions with these types, and the kernel stays within 256 words and one.
        let found = unsafe {
            let take = library.get::<Take>(b"guarded_take").unwrap();
            let give = library.get::<Give>(b"guarded_give").unwrap();
            let ended = library.get::<Ended>(b"races_ended").unwrap();
            let entry = library.get::<Entry>(b"apr_planted").unwrap();
            let (memory, counter) = (take(1024), take(4));
            assert!(ended().is_null());
            (memory as *mut u8).write_bytes(1, 1024);
            (counter as *mut u32).write(0);
            for _ in 0..2 {
                entry(2, 1, 1, 64, [memory, counter, mistake].as_ptr().cast());
            }
            let found = ended();
            let found =
                if found.is_null() { String::new() } else { CStr::from_ptr(found).to_string_lossy().into() };
            give(memory, 1024);
            give(counter, 4);
            found
        };
        assert!(found.contains(words) && found.is_empty() == words.is_empty(), "{mistake}: {found:?}");
    }
}
