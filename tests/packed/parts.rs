//! Every part of every fixture's weights: missing, of another shape, and without numbers.

use crate::folder::{Folder, fixtures};
use apr_sdk::{DType, Error, ErrorKind};
use std::path::PathBuf;

fn all() -> Vec<PathBuf> {
    std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// What a changed fixture gives: an error, or the values of a weight, if it is still there.
fn values(folder: &Folder, weight: &str) -> Result<Option<Vec<f32>>, Error> {
    let understood = folder.understood()?;
    let Some(weight) = understood.packed.iter().find(|packed| packed.name == weight) else { return Ok(None) };
    let rows = weight.rows.rows;
    folder.unpack(weight, 0..rows, 0..rows).map(Some)
}

/// Does something with each part of each weight: the fixture, the part's tensor, what it is, and the weight's name.
fn each(mut act: impl FnMut(&Folder, usize, &str, &str, &str)) {
    for path in all() {
        let folder = Folder::read(&path);
        let fixture = path.file_name().unwrap().to_str().unwrap();
        for weight in folder.understood().unwrap().packed {
            for (part, what) in &weight.parts {
                act(&folder, *part, what, &weight.name, fixture);
            }
        }
    }
}

fn copy(folder: &Folder) -> Folder {
    Folder { model: folder.model.clone(), bytes: folder.bytes.clone() }
}

/// The error names a tensor, or a file of the configuration.
fn names(error: &Error) -> bool {
    [ErrorKind::Malformed, ErrorKind::Unsupported].contains(&error.kind()) && error.tensor_name().is_some()
}

/// Parts that a weight may lack. Without its codes it is no weight of the plugin's: the host says what is left.
const OPTIONAL: [(&str, &str); 11] = [
    ("", "codes"),
    ("gptq", "groups of columns"),
    ("auto-round", "groups of columns"),
    // In the middle, where the configuration says that weights are symmetric.
    ("gptq", "zero points"),
    // Symmetric, unscaled, or with factors that another layer took.
    ("torchao-int8", "zero points"),
    ("torchao-nvfp4", "scale of scales"),
    ("modelopt-int4-awq", "factors of columns"),
    ("comfy-nvfp4-metadata", "factors of columns"),
    // Floats of 8 bits without a scale are what they are.
    ("comfy-scaled-fp8", "scale"),
    // Integers whose scales are gone are for the host, which sees the announcement; floats of Mistral are not announced.
    ("bnb-int8", "scales"),
    ("fp8-mistral", "scales"),
];

#[test]
fn a_part_that_is_missing_is_named() {
    let mut refused = 0;
    each(|folder, part, what, weight, fixture| {
        let mut without = copy(folder);
        without.model.tensors.remove(part);
        without.bytes.remove(part);
        match values(&without, weight) {
            Err(error) => {
                refused += 1;
                assert!(names(&error), "{fixture}, {what}: {error}");
            }
            Ok(_) => {
                let is_optional = OPTIONAL.iter().any(|(of, part)| fixture.contains(of) && *part == what);
                assert!(is_optional, "{fixture}: without its {what}");
            }
        }
    });
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_part_without_numbers_is_refused() {
    let mut refused = 0;
    each(|folder, part, what, weight, fixture| {
        let mut broken = copy(folder);
        let nan: &[u8] = match broken.model.tensors[part].dtype {
            _ if what == "codes" => return,
            DType::F32 => &[0, 0, 0xc0, 0x7f],
            DType::F16 => &[0, 0x7e],
            DType::BF16 => &[0xc0, 0x7f],
            DType::F8_E4M3 | DType::F8_E8M0 => &[0xff],
            _ => return,
        };
        let bytes = &mut broken.bytes[part];
        let n = bytes.len() / nan.len();
        *bytes = nan.repeat(n);
        let error = values(&broken, weight).err().unwrap_or_else(|| panic!("{fixture}, {what}"));
        assert_eq!(error.kind(), ErrorKind::Malformed, "{fixture}, {what}: {error}");
        refused += 1;
    });
    assert!(refused > 80, "{refused}");
}

/// Bytes again and again, until there are so many.
fn repeated(bytes: &[u8], n: usize) -> Vec<u8> {
    bytes.iter().copied().cycle().take(n).collect()
}

#[test]
fn a_part_of_another_shape_is_refused_or_changes_the_shape_of_the_weight() {
    let mut refused = 0;
    each(|folder, part, what, weight, fixture| {
        let good = values(folder, weight).unwrap().unwrap();
        let shape = folder.model.tensors[part].shape.clone();
        let mut others = vec![shape.iter().rev().copied().collect::<Vec<u64>>()];
        for at in 0..shape.len() {
            for size in [shape[at] + 1, shape[at] * 2, shape[at].saturating_sub(1), 0, 1 << 62] {
                let mut other = shape.clone();
                other[at] = size;
                others.push(other);
            }
        }
        for other in others.into_iter().filter(|other| *other != shape) {
            let mut changed = copy(folder);
            changed.model.tensors[part].shape.clone_from(&other);
            let each = changed.model.tensors[part].dtype.info().unwrap().block_bytes as usize;
            let n = other.iter().try_fold(1u64, |all, size| all.checked_mul(*size)).filter(|n| *n < 1 << 20);
            match (changed.understood(), n) {
                (Err(error), _) => {
                    refused += 1;
                    assert!(names(&error), "{fixture}, {what}: {error}");
                }
                // The host compares what a shape says with what is there, before anything is read.
                (Ok(_), None) => {}
                (Ok(_), Some(n)) => {
                    changed.bytes[part] = repeated(&folder.bytes[part], n as usize * each);
                    let Ok(Some(found)) = values(&changed, weight) else { continue };
                    // Words of three and five bits may be idle at the end: then there are more of them. And twice as many
                    // scales are those of groups half as long, which torchao writes elsewhere; one global
                    // scale is that of all experts.
                    let is_other = ["int3", "int5", "torchao-float8", "torchao-nvfp4-experts"]
                        .iter()
                        .any(|of| fixture.contains(of));
                    let is_same = found == good || found.len() != good.len() || is_other;
                    assert!(is_same, "{fixture}, {what}: {shape:?} is {other:?}");
                }
            }
        }
    });
    assert!(refused > 900, "{refused}");
}
