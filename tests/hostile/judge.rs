//! The outcome rule of design section 9: a mutated file yields a clear error, or a model that passes every host check with
//! all payload inside the file; in little memory and time.

use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::planned::request::VerifyMode;
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_host::convert::convert;
use apr_host::host::Host;
use apr_sdk::{Error, ErrorKind, Payload, Result};
use apr_tests::counting::peak_here;
use apr_tests::{Scratch, options};
use std::path::Path;
use std::time::{Duration, Instant};

/// Every format there is, as extensions.
pub const FORMATS: [&str; 3] = ["apr", "gguf", "safetensors"];

/// What opening may take beside the memory: far more than it needs, far less than a hang.
const LONGEST: Duration = Duration::from_secs(5);

/// Opens a damaged file of `len` bytes and judges what comes of it.
pub fn judged(host: &Host, path: &Path) -> Result<OpenedModel> {
    let began = Instant::now();
    let (opened, held) = peak_here(|| open(host, path, &OpenOptions::default()));
    let took = began.elapsed();
    let shown = path.display();
    assert!(took < LONGEST, "{shown}: opening took {took:?}");
    match opened {
        Ok(opened) => {
            // The design's bound is 16 x the header + 64 MiB; fixtures need not use the MiBs.
            let header = opened.header_bytes();
            assert!(held <= 16 * header + (2 << 20), "{shown}: {held} bytes for a header of {header}");
            inside(&opened);
            Ok(opened)
        }
        Err(error) => {
            let len = std::fs::metadata(path).map(|m| m.len()).unwrap_or(0);
            assert!(held <= 16 * len + (2 << 20), "{shown}: {held} bytes for a file of {len}: {error}");
            clear(&error, path);
            Err(error)
        }
    }
}

/// An error that a user can act on: of a kind that says the file is to blame, with its file.
pub fn clear(error: &Error, path: &Path) {
    let kinds = [
        ErrorKind::Malformed,
        ErrorKind::Unsupported,
        ErrorKind::LimitExceeded,
        ErrorKind::NotFound,
        ErrorKind::InvalidArgument,
    ];
    assert!(kinds.contains(&error.kind()), "{}: {:?}: {error}", path.display(), error.kind());
    let folder = if path.is_dir() { path } else { path.parent().unwrap() };
    let file = error.file().unwrap_or_else(|| panic!("{}: no file: {error}", path.display()));
    assert!(Path::new(file).starts_with(folder), "{}: the file is `{file}`: {error}", path.display());
    assert!(error.message().len() > 10, "{}: {error}", path.display());
    let odd = error.message().chars().any(|c| c.is_control());
    assert!(!odd, "{}: a control character: {:?}", path.display(), error.message());
}

/// All payload lies in its file, counted once more than the host does.
fn inside(opened: &OpenedModel) {
    let files = opened.files.all();
    for tensor in &opened.model.tensors {
        let extent = match &tensor.payload {
            Payload::Extent { extent, .. } => extent,
            // The host looks for blocks when it needs them; what lies is found then.
            Payload::Blocks { .. } => continue,
            _ => panic!("{}: `{}` is not an extent", opened.path.display(), tensor.name),
        };
        let end = extent.offset.checked_add(extent.len).unwrap();
        assert!(end <= files[extent.file as usize].len, "{}: `{}`", opened.path.display(), tensor.name);
    }
}

/// Converts what opened to each other format: an error with its file or the same payloads again.
pub fn converted(host: &Host, scratch: &Scratch, path: &Path, opened: &OpenedModel) {
    let digests = |opened: &OpenedModel| {
        let mut rows = tensor_rows(host, opened, RowOptions { sha256: true, stats: false }).unwrap();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows.into_iter().map(|row| (row.name, row.dtype, row.shape, row.sha256)).collect::<Vec<_>>()
    };
    let before = std::fs::read(path).ok();
    for format in FORMATS {
        let output = scratch.at(&format!("out.{format}"));
        let mut asked = options(path, &output);
        let mut done = convert(host, &asked);
        // A file that stores a checksum is found to be damaged, and becomes what it says only where that is asked for.
        if done.as_ref().is_err_and(|error| error.stable_code() == Some("E004")) {
            asked.verify = VerifyMode::Off;
            done = convert(host, &asked);
        }
        match done {
            Ok(_) => {
                let written = open(host, &output, &OpenOptions::default()).unwrap();
                assert_eq!(digests(opened), digests(&written), "{} -> {format}", path.display());
                std::fs::remove_file(&output).unwrap();
            }
            Err(error) => clear(&error, path),
        }
        let names = scratch.names();
        assert!(!names.iter().any(|n| n.starts_with('.') || n.starts_with("out")), "{format}: {names:?}");
    }
    assert_eq!(before, std::fs::read(path).ok(), "{} was touched", path.display());
}
