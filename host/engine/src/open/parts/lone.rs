//! Detects a part of a model that is opened without the others, by its name: `model-00001-of-00003` alone.

use crate::open::files::Files;
use apr_sdk::{Error, escape};

/// The suffix of an index of shards, in every format.
pub const INDEX: &str = ".index.json";

/// A part that is the only one of its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LonePart {
    file: String,
    number: u32,
    count: u32,
}

impl LonePart {
    /// Finds such a part among the files of an opened model that include no other part.
    pub fn of(files: &Files) -> Option<LonePart> {
        let names: Vec<String> =
            files.all().iter().filter(|file| !file.is_folder()).map(|file| file.name.clone()).collect();
        LonePart::among(&names)
    }

    fn among(names: &[String]) -> Option<LonePart> {
        let mut parts = names.iter().filter_map(|name| {
            let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
            let (_, number, count) = numbered(stem)?;
            Some(LonePart { file: name.clone(), number, count })
        });
        let first = parts.next().filter(|part| part.count > 1)?;
        parts.next().is_none().then_some(first)
    }

    /// The warning for a user who asked for this part.
    pub fn warning(&self) -> String {
        let LonePart { file, number, count } = self;
        let file = escape(file, 120);
        format!("{file} is part {number} of {count}, opened without the others: {}", self.missing())
    }

    /// The error for a user who asked for the folder's model.
    pub fn refusal(&self) -> Error {
        let LonePart { file, number, count } = self;
        let file = escape(file, 120);
        let message =
            format!("{file} is part {number} of {count}, and the others are missing: {}", self.missing());
        Error::not_found(message).hint(format!(
            "put all parts into one folder, with their index; to open this part alone, specify {file}"
        ))
    }

    /// The names of the parts that are not there.
    fn missing(&self) -> String {
        const SHOWN: usize = 2;
        let LonePart { file, number, count } = self;
        let missing: Vec<String> = (1..=*count)
            .filter(|part| part != number)
            .take(SHOWN)
            .map(|part| {
                let name = file.replace(&format!("-{number:05}-of-"), &format!("-{part:05}-of-"));
                escape(&name, 120).to_string()
            })
            .collect();
        let more = match *count as usize - 1 - missing.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more}", missing.join(", "))
    }
}

/// Returns whether an index led to the files of an opened model, which then says what belongs to the model.
pub fn has_index(files: &Files) -> bool {
    files.all().iter().any(|file| file.name.ends_with(INDEX))
}

/// Splits a file stem into base name, part number and number of parts, as all sharded formats number them.
pub fn numbered(stem: &str) -> Option<(&str, u32, u32)> {
    let (head, count) = stem.rsplit_once("-of-")?;
    let (model, part) = head.rsplit_once('-')?;
    Some((model, five_digits(part)?, five_digits(count)?))
}

fn five_digits(s: &str) -> Option<u32> {
    (s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(names: &[&str]) -> Option<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        LonePart::among(&names).map(|part| part.warning())
    }

    #[test]
    fn only_a_part_without_others_is_alone() {
        let said = "m-00002-of-00003.x is part 2 of 3, opened without the others: m-00001-of-00003.x, \
                    m-00003-of-00003.x";
        assert_eq!(warning(&["m-00002-of-00003.x"]).as_deref(), Some(said));
        assert_eq!(warning(&["config.json", "m-00002-of-00003.x"]).as_deref(), Some(said));
        assert_eq!(
            warning(&["m-00001-of-00009.x"]).as_deref(),
            Some(
                "m-00001-of-00009.x is part 1 of 9, opened without the others: m-00002-of-00009.x, \
                 m-00003-of-00009.x and 6 more"
            )
        );
        for whole in
            [&["m-00001-of-00001.x"][..], &["m-00001-of-00002.x", "m-00002-of-00002.x"], &["m.x"], &[]]
        {
            assert_eq!(warning(whole), None, "{whole:?}");
        }
    }
}
