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
fn one_array_through_apr_is_byte_identical() {
    // NumPy has no type that reads back as the one that ml_dtypes saves as `<f1`.
    let other = ["big_endian.npy", "float_1.npy", "fortran.npy", "old_fortran.npy"];
    let mut same = 0;
    for path in fixtures_with("numpy", "npy").iter().filter(|path| !other.contains(&name(path))) {
        let (_scratch, back) = through(path, "m.apr", ForeignPolicy::Default);
        assert_same_file(path, &back);
        same += 1;
    }
    assert!(same >= 8, "{same}");
}

#[test]
fn one_tensor_is_called_after_the_file_and_the_summary_says_so() {
    let (host, scratch) = (host(), Scratch::new());
    let matrix = fixtures_with("numpy", "npy").into_iter().find(|path| name(path) == "matrix.npy").unwrap();
    let done = must(&host, &options(&matrix, &scratch.at("other.npy")));
    let said = "not carried over: the name `matrix`; the tensor is named after its file, `other`";
    assert!(done.notes.iter().any(|note| note == said), "{:?}", done.notes);
    assert_same_file(&matrix, &scratch.at("other.npy"));
    // Nothing is lost under the same name.
    let folder = scratch.at("again");
    std::fs::create_dir(&folder).unwrap();
    let done = must(&host, &options(&matrix, &folder.join("matrix.npy")));
    assert!(!done.notes.iter().any(|note| note.contains("not carried")), "{:?}", done.notes);
}

#[test]
fn several_tensors_are_no_array_and_the_way_out_is_said() {
    let (host, scratch) = (host(), Scratch::new());
    let several = fixtures_with("numpy", "npz").into_iter().find(|path| name(path) == "shapes.npz").unwrap();
    let error = apr_host::convert::convert(&host, &options(&several, &scratch.at("m.npy"))).unwrap_err();
    assert_eq!(error.kind(), apr_sdk::ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("holds exactly one tensor, but the model has") && text.contains("--to npz"),
        "{text}"
    );
    assert!(!scratch.at("m.npy").exists());
}

#[test]
fn other_formats_metadata_comes_back_through_an_archive_on_request() {
    let metadata = fixtures_with("safetensors", "safetensors");
    let path = metadata.iter().find(|path| name(path) == "metadata_many.safetensors").unwrap();
    let (host, scratch) = (host(), Scratch::new());
    let kept = |from: &Path, to: &str| {
        let mut there = options(from, &scratch.at(to));
        there.foreign = ForeignPolicy::Keep;
        must(&host, &there)
    };
    kept(path, "m.npz");
    kept(&scratch.at("m.npz"), "back.safetensors");
    assert_same_file(path, &scratch.at("back.safetensors"));
    kept(&scratch.at("m.npz"), "m.apr");
    kept(&scratch.at("m.apr"), "again.npz");
    assert_same_file(&scratch.at("m.npz"), &scratch.at("again.npz"));
    let done = must(&host, &options(path, &scratch.at("without.npz")));
    assert!(
        done.notes.iter().any(|note| note.contains("pass --foreign keep to preserve metadata")),
        "{:?}",
        done.notes
    );
}

#[test]
fn a_single_array_becomes_a_model_of_one_tensor() {
    let (host, scratch) = (host(), Scratch::new());
    for path in fixtures_with("numpy", "npy") {
        must(&host, &options(&path, &scratch.at(&format!("{}.apr", name(&path)))));
    }
}
