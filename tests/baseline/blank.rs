//! What differs between machines and versions and is none of a conversion's doing: paths, and the versions that an APR file
//! says it was made by.

use serde_json::{Map, Value as Json};
use std::path::PathBuf;

/// Folders of this machine, and what stands for them.
pub struct Places(Vec<(String, &'static str)>);

impl Places {
    /// The folders, innermost first.
    pub fn new(folders: [(PathBuf, &'static str); 3]) -> Places {
        let mut spelled = Vec::new();
        for (path, name) in folders {
            let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
            spelled.extend([&path, &whole].map(|path| (path.display().to_string(), name)));
        }
        // With what follows them first: one folder's name may begin another's.
        let below = spelled.iter().map(|(path, name)| (format!("{path}/"), *name)).collect::<Vec<_>>();
        Places([below, spelled].concat())
    }

    /// A text without them.
    pub fn blank(&self, text: &str) -> String {
        let ends = |path: &str| if path.ends_with('/') { "/" } else { "" };
        self.0
            .iter()
            .fold(text.to_owned(), |text, (path, name)| text.replace(path, &format!("{name}{}", ends(path))))
    }
}

/// How the object begins in which a file's provenance holds versions.
const VERSIONS: &[u8] = br#""versions":{"#;
/// How a file ends that is checked by a CRC-32 in the 4 bytes before this and its length.
const FOOTER: &[u8; 4] = b"2RPA";

/// How a model card says which version made it.
const CARD: &[u8] = b"` by apr ";

/// Takes versions out of the files of an output, and the checksums over them: that at a file's end, and those that another
/// file has of it.
pub fn blank_versions(files: &mut [(String, Vec<u8>)]) {
    let mut sums = Vec::new();
    for (name, bytes) in files.iter_mut() {
        if name.ends_with("README.md")
            && let Some(at) = find(bytes, CARD)
        {
            let at = at + CARD.len();
            let len = bytes[at..].iter().take_while(|byte| !b",\n".contains(byte)).count();
            bytes.drain(at..at + len);
        }
        if !blank_objects(bytes) {
            continue;
        }
        if let Some(at) = bytes.len().checked_sub(16).filter(|at| bytes[at + 4..at + 8] == *FOOTER) {
            let sum: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
            bytes[at..at + 4].fill(0);
            sums.push(format!("{:08x}", u32::from_le_bytes(sum)));
        }
    }
    for (_, bytes) in files {
        for sum in sums.iter().filter(|sum| *sum != "00000000") {
            while let Some(at) = find(bytes, sum.as_bytes()) {
                bytes[at..at + 8].fill(b'0');
            }
        }
    }
}

/// Makes every version in such an object an empty text; whether there was one.
fn blank_objects(bytes: &mut Vec<u8>) -> bool {
    let (mut begin, mut any) = (0, false);
    while let Some(at) = find(&bytes[begin..], VERSIONS) {
        let at = begin + at + VERSIONS.len() - 1;
        let Some(len) = bytes[at..].iter().position(|byte| *byte == b'}') else { break };
        if let Ok(object) = serde_json::from_slice::<Map<String, Json>>(&bytes[at..=at + len]) {
            let blank: Map<_, _> = object.into_iter().map(|(key, _)| (key, Json::from(""))).collect();
            bytes.splice(at..=at + len, Json::Object(blank).to_string().into_bytes());
            any = true;
        }
        begin = at;
    }
    any
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    // Most bytes of a payload are none that the text begins with.
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == wanted[0]) {
        if bytes[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[test]
fn a_version_changes_nothing_and_all_else_does() {
    let files = |version: &str, other: &str, sum: u32| {
        let mut file =
            format!(r#"{{"a":"{other}","provenance":{{"versions":{{"apr":"{version}"}}}}}}"#).into_bytes();
        file.extend(sum.to_le_bytes());
        file.extend(FOOTER);
        file.extend([0; 8]);
        let mut files = vec![
            ("shard".to_owned(), file),
            ("index".to_owned(), format!(r#"{{"crc32":"{sum:08x}"}}"#).into_bytes()),
        ];
        blank_versions(&mut files);
        files
    };
    assert_eq!(files("0.1.0", "a", 7), files("0.20.0", "a", 0xdead_beef));
    assert_ne!(files("0.1.0", "a", 7), files("0.1.0", "b", 7));
    let card = |version: &str, other: &str| {
        let text = format!("# T\n\nConverted from the format `a` by apr {version}, {other}.\n");
        let mut files = vec![("README.md".to_owned(), text.into_bytes())];
        blank_versions(&mut files);
        files
    };
    assert_eq!(card("0.1.0", "x"), card("0.20.0", "x"));
    assert_ne!(card("0.1.0", "x"), card("0.1.0", "y"));
}
