//! NumPy archives through other formats, and the other way about.

use apr_sdk::ForeignPolicy;
use apr_tests::{Scratch, assert_same_file, fixtures_with, host, must, options};
use std::path::Path;

/// `path` to a file named `middle` and back to its own format; with what was noted on the way out.
fn through(path: &Path, middle: &str, policy: ForeignPolicy) -> (Scratch, std::path::PathBuf) {
    let (host, scratch) = (host(), Scratch::new());
    let back = scratch.at(&format!("back.{}", path.extension().unwrap().to_str().unwrap()));
    let middle = scratch.at(middle);
    let mut there = options(path, &middle);
    there.foreign = policy;
    must(&host, &there);
    must(&host, &options(&middle, &back));
    (scratch, back)
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn numpy_archives_through_apr_are_byte_identical() {
    // What is not stored row-major and little-endian comes back equal, not identical.
    let other = ["deflated.npz", "fortran.npz", "big_endian.npz", "old_deflated.npz"];
    let mut same = 0;
    for path in fixtures_with("numpy", "npz") {
        let (_scratch, back) = through(&path, "m.apr", ForeignPolicy::Default);
        if !other.contains(&name(&path)) {
            assert_same_file(&path, &back);
            same += 1;
        }
    }
    assert!(same >= 6, "{same}");
}

#[test]
fn numpy_archives_need_no_form_of_their_own_on_the_way_through_apr() {
    for path in fixtures_with("numpy", "npz") {
        if ["every_dtype.npz", "shapes.npz", "names.npz"].contains(&name(&path)) {
            let (_scratch, back) = through(&path, "m.apr", ForeignPolicy::Typed);
            assert_same_file(&path, &back);
        }
    }
}

#[test]
fn safetensors_through_numpy_is_byte_identical() {
    // Files of the package without `__metadata__`, in types that NumPy has.
    let fit = ["names.safetensors", "numpy_dtypes.safetensors", "shapes.safetensors"];
    let mut same = 0;
    for path in fixtures_with("safetensors", "safetensors").iter().filter(|path| fit.contains(&name(path))) {
        let bytes = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // NumPy ends names at the first NUL.
        if text.contains("__metadata__") || text.contains("BF16") || text.contains("\\u0000") {
            continue;
        }
        let (_scratch, back) = through(path, "m.npz", ForeignPolicy::Default);
        assert_same_file(path, &back);
        same += 1;
    }
    assert!(same >= 2, "{same}");
}

#[test]
fn a_single_array_becomes_a_model_of_one_tensor() {
    let (host, scratch) = (host(), Scratch::new());
    for path in fixtures_with("numpy", "npy") {
        must(&host, &options(&path, &scratch.at(&format!("{}.apr", name(&path)))));
    }
}
