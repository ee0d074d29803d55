//! Tokenizers' files that are cut off or have another byte somewhere: a clear error, or a tokenizer that can be written and
//! read again. The files are those of the golden models.

use apr_plugin_huggingface::tokenizer::{files, read};
use apr_sdk::ErrorKind;
use apr_sdk::tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

type Files = Vec<(String, Vec<u8>)>;

fn tokenizer(files: &Files) -> apr_sdk::Result<Option<Tokenizer>> {
    let mut fetch = |name: &str| Ok(files.iter().find(|(n, _)| n == name).map(|(_, bytes)| bytes.clone()));
    read(&mut fetch)
}

/// The files of each kind of tokenizer.
fn kinds() -> Vec<(PathBuf, Files)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tokenizers");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let one = |entry: std::fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).unwrap())
        };
        let mut files: Files = std::fs::read_dir(&path).unwrap().map(|entry| one(entry.unwrap())).collect();
        files.sort();
        found.push((path, files));
    }
    found
}

/// Whether these files are a tokenizer that comes back whole; that of damaged files is one again, at least.
fn check(what: &str, given: &Files) -> bool {
    let before = match tokenizer(given) {
        Ok(Some(tokenizer)) => tokenizer,
        Ok(None) => return false,
        Err(error) => {
            let known = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::LimitExceeded];
            assert!(known.contains(&error.kind()), "{what}: {error:?}");
            return false;
        }
    };
    let mut written: Files =
        files(&before).into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let size = format!("{{\"vocab_size\":{}}}", before.vocab_size);
    written.push(("config.json".to_owned(), size.into_bytes()));
    let after = tokenizer(&written).unwrap_or_else(|error| panic!("{what}: {error:?}")).unwrap();
    assert_eq!(before.vocab_size, after.vocab_size, "{what}");
    before.core() == after.core()
}

#[test]
fn damaged_files_are_a_clear_error_or_a_tokenizer_that_can_be_written() {
    let kinds = kinds();
    assert!(kinds.len() > 4);
    for (path, files) in kinds {
        assert!(check(&path.display().to_string(), &files));
        for (at, (name, bytes)) in files.iter().enumerate() {
            for step in 0..24 {
                let place = bytes.len() * step / 24;
                let mut flipped = bytes.clone();
                flipped[place] ^= 1 << (step % 8);
                for (how, damaged) in [("cut", bytes[..place].to_vec()), ("flipped", flipped)] {
                    let mut all = files.clone();
                    all[at].1 = damaged;
                    check(&format!("{}/{name} {how} at {place}", path.display()), &all);
                }
            }
        }
    }
}
