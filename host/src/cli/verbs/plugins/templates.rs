//! The templates that `apr plugins new` fills in: one for each kind of plugin.

use clap::ValueEnum;

/// A kind of plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Reads and writes a file format
    Format,
    /// Brings a block type
    Quantizer,
    /// Computes on a device
    Backend,
    /// Describes an architecture: a TOML file, no code
    Table,
}

/// A file of a template: its path below the template's folder, and its bytes.
pub type File = (&'static str, &'static [u8]);

macro_rules! files {
    ($kind:literal: $($path:literal)*) => {
        &[$(($path, include_bytes!(concat!("../../../../../sdk/template/", $kind, "/", $path)))),*]
    };
}

const FORMAT: &[File] = files! {
    "format": "Cargo.toml" "README.md" "src/layout.rs" "src/lib.rs" "src/reader.rs" "src/writer.rs"
    "tests/conformance.rs" "tests/data/small.py" "tests/data/small.toy"
};
const QUANTIZER: &[File] = files! {
    "quantizer": "Cargo.toml" "README.md" "src/block.rs" "src/lib.rs" "src/quantizer.rs" "tests/conformance.rs"
};
const BACKEND: &[File] = files! {
    "backend": "Cargo.toml" "README.md" "src/device.rs" "src/kernel.rs" "src/lib.rs" "src/session.rs"
    "tests/conformance.rs"
};
const TABLE: &[File] = files! { "table": "README.md" "table.toml" };

impl Kind {
    /// The files of its template.
    pub fn files(self) -> &'static [File] {
        match self {
            Kind::Format => FORMAT,
            Kind::Quantizer => QUANTIZER,
            Kind::Backend => BACKEND,
            Kind::Table => TABLE,
        }
    }

    /// True if its template is a crate, which is built with the SDK.
    pub fn is_crate(self) -> bool {
        self.files().iter().any(|(path, _)| *path == "Cargo.toml")
    }
}

/// The words that stand for placeholders.
pub struct Words<'a> {
    /// The crate's name.
    pub name: &'a str,
    /// The plugin's id.
    pub id: &'a str,
    /// The SDK's folder, as a TOML string may hold it.
    pub sdk: &'a str,
}

impl Words<'_> {
    /// The path of a file that is written: a table is named after its plugin.
    pub fn path(&self, path: &str) -> String {
        if path == "table.toml" { format!("{}.toml", self.name) } else { path.to_owned() }
    }

    /// A file's bytes with its placeholders filled in.
    pub fn filled_in(&self, bytes: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
        let text = text.replace("{{sdk}}", self.sdk).replace("{{name}}", self.name);
        text.replace("{{id}}", self.id).replace("{{TYPE}}", &self.id.to_ascii_uppercase()).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn files_under(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            match entry.path() {
                path if path.is_dir() => files_under(&path, &format!("{name}/"), found),
                _ => found.push(name),
            }
        }
    }

    #[test]
    fn every_file_of_each_template_is_written() {
        let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/template");
        for kind in Kind::value_variants() {
            let folder = kind.to_possible_value().unwrap().get_name().to_owned();
            let mut files = Vec::new();
            files_under(&template.join(folder), "", &mut files);
            files.sort();
            assert_eq!(files, kind.files().iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{kind:?}");
        }
        assert_eq!(fs::read_dir(template).unwrap().count(), Kind::value_variants().len());
    }

    #[test]
    fn no_placeholder_is_left() {
        let words = Words { name: "my-toy", id: "my_toy", sdk: "/src/sdk" };
        for (name, bytes) in Kind::value_variants().iter().flat_map(|kind| kind.files()) {
            let text = String::from_utf8_lossy(&words.filled_in(bytes)).into_owned();
            let placeholders = ["{{id", "{{name", "{{sdk", "{{TYPE"];
            assert!(!placeholders.iter().any(|placeholder| text.contains(placeholder)), "{name}");
        }
    }
}
