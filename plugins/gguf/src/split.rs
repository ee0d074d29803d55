//! Split files: their names (`NAME-00001-of-00003.gguf`), which files of a folder form one model, and whether
//! the parts agree with each other.

use crate::header::Header;
use crate::layout::{SPLIT_COUNT_KEY, SPLIT_NO_KEY, SPLIT_TENSORS_KEY};
use crate::metadata::{self, Key};
use apr_sdk::{Cursor, Error, ErrorKind, FileId, Limits, Result, Source, escape};

const EXTENSION: &str = ".gguf";

/// The components of a part's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartName<'a> {
    /// The text before the numbers.
    pub prefix: &'a str,
    /// The part's number, from 1.
    pub number: u32,
    /// The number of parts.
    pub count: u32,
}

impl<'a> PartName<'a> {
    /// Parses a part's name; `None` for any other name.
    pub fn parse(name: &'a str) -> Option<PartName<'a>> {
        let stem = name.strip_suffix(EXTENSION)?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let (number, count) = (digits(number)?, digits(count)?);
        (1..=count).contains(&number).then_some(PartName { prefix, number, count })
    }
}

/// The file name of part `number` (from 1) of `count`.
pub fn part_name(prefix: &str, number: u32, count: u32) -> String {
    format!("{prefix}-{number:05}-of-{count:05}{EXTENSION}")
}

fn digits(text: &str) -> Option<u32> {
    let fits = text.len() >= 5 && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

/// A file's place among the parts, according to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Place {
    /// `split.no`: index of the part, from 0.
    pub number: Option<u64>,
    /// `split.count`: the number of parts.
    pub count: Option<u64>,
    /// `split.tensors.count`: the number of tensors in all parts.
    pub n_tensors: Option<u64>,
}

impl Place {
    /// Reads the split keys.
    ///
    /// # Errors
    /// Malformed for anything but integers.
    pub fn from_keys(cursor: &Cursor<'_>, keys: &[Key]) -> Result<Place> {
        let get = |name: &str| -> Result<Option<u64>> {
            let Some(key) = keys.iter().find(|key| key.name == name) else { return Ok(None) };
            let number = key.value.as_unsigned();
            let odd =
                || cursor.error_at(key.value_at, format!("metadata key `{name}`: it is not an integer"));
            number.map(Some).ok_or_else(odd)
        };
        Ok(Place {
            number: get(SPLIT_NO_KEY)?,
            count: get(SPLIT_COUNT_KEY)?,
            n_tensors: get(SPLIT_TENSORS_KEY)?,
        })
    }
}

/// The set that a file with this name and place belongs to; `None` if it is a complete model.
///
/// # Errors
/// Malformed if the name contradicts the keys, so that the other parts cannot be found.
pub fn set_of<'a>(name: &'a str, place: &Place) -> Result<Option<PartName<'a>>> {
    let part = PartName::parse(name).filter(|part| part.count > 1);
    match (place.count, part) {
        (Some(0 | 1), _) => Ok(None),
        // Only the first part is required to state the number of parts.
        (None, part) => Ok(part.filter(|_| place.number.is_some())),
        (Some(count), Some(part)) if u64::from(part.count) == count => Ok(Some(part)),
        (Some(count), _) => Err(Error::malformed(format!(
            "it is one of {count} parts, but its name is not `NAME-00001-of-{count:05}.gguf`"
        ))
        .hint("rename all parts to their original names")),
    }
}

/// Finds the files of a set, in order, and checks that they agree.
///
/// # Errors
/// NotFound, naming a missing part; Malformed if the parts do not belong together.
pub fn find(source: &dyn Source, limits: &Limits, set: &PartName<'_>) -> Result<Vec<FileId>> {
    let PartName { prefix, count, .. } = *set;
    if count > limits.files {
        return Err(Error::limit(format!("{count} parts, more than the limit of {}", limits.files)));
    }
    let mut files = Vec::new();
    let (mut found, mut stated) = (0, None);
    for number in 1..=count {
        let name = part_name(prefix, number, count);
        let wrong = |message: String| Error::malformed(message).in_file(name.clone()).hint(ONE_FOLDER);
        let file = source.sibling(&name).map_err(|e| missing(e, &name, number, count))?;
        let (place, n_tensors) = scan(source, limits, file)?;
        check_place(&place, number, count).map_err(wrong)?;
        match (&stated, place.n_tensors) {
            (Some((first, _)), Some(n)) if *first != n => {
                return Err(wrong(format!("`{SPLIT_TENSORS_KEY}` is {n}, but {first} in an earlier part")));
            }
            (None, Some(n)) => stated = Some((n, name)),
            _ => {}
        }
        found += n_tensors as u64;
        files.push(file);
    }
    match stated {
        Some((n, name)) if n != found => {
            let message = format!("`{SPLIT_TENSORS_KEY}` is {n}, but the {count} parts have {found} tensors");
            Err(Error::malformed(message).in_file(name).hint(ONE_FOLDER))
        }
        _ => Ok(files),
    }
}

/// Whether a part's keys agree with its name; if not, what is wrong.
fn check_place(place: &Place, number: u32, count: u32) -> std::result::Result<(), String> {
    match place.count {
        Some(n) if n == u64::from(count) => {}
        None if number > 1 => {}
        Some(n) => return Err(format!("`{SPLIT_COUNT_KEY}` is {n}, but {count} according to its name")),
        None => return Err(format!("the first of {count} parts has no `{SPLIT_COUNT_KEY}`")),
    }
    match place.number {
        Some(n) if n == u64::from(number - 1) => Ok(()),
        Some(n) => Err(format!("`{SPLIT_NO_KEY}` is {n}, but {} according to its name", number - 1)),
        None => Err(format!("part {number} of {count} has no `{SPLIT_NO_KEY}`")),
    }
}

const ONE_FOLDER: &str = "the parts belong to different models: get them again into a separate folder";

fn missing(error: Error, name: &str, number: u32, count: u32) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    Error::not_found(format!("part {number} of {count}, `{}`, is missing", escape(name, 200)))
        .hint("put all parts into one folder")
}

/// The place of `file` among the parts, and its number of tensors.
fn scan(source: &dyn Source, limits: &Limits, file: FileId) -> Result<(Place, usize)> {
    let mut cursor = Cursor::new(source, file, 0, limits)?;
    let header = Header::read(&mut cursor)?;
    let keys = metadata::read(&mut cursor, &header)?;
    Ok((Place::from_keys(&cursor, &keys)?, header.n_tensors))
}

/// Whether a name in a folder has this format's extension.
pub fn has_extension(name: &str) -> bool {
    name.ends_with(EXTENSION)
}

/// The model formed by a folder's files of this format: a single file, or the first part of a set.
///
/// # Errors
/// NotFound without any; InvalidArgument for several models, listing them.
pub fn only_model(entries: &[String]) -> Result<&str> {
    let mut models: Vec<&str> = Vec::new();
    let mut sets: Vec<(&str, u32)> = Vec::new();
    for name in entries.iter().filter(|name| has_extension(name)) {
        match PartName::parse(name).filter(|part| part.count > 1) {
            None => models.push(name),
            Some(part) if !sets.contains(&(part.prefix, part.count)) => {
                sets.push((part.prefix, part.count));
                models.push(name);
            }
            Some(_) => {}
        }
    }
    match models[..] {
        [one] => Ok(one),
        [] => Err(Error::not_found("the folder has no file with the extension `.gguf`")),
        _ => {
            let shown: Vec<_> = models.iter().take(8).map(|name| escape(name, 120)).collect();
            let more = if models.len() > shown.len() { ", …" } else { "" };
            let list = shown.join(", ");
            Err(Error::invalid_argument(format!("the folder has {} models: {list}{more}", models.len()))
                .hint("specify one of them"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_are_recognised() {
        let part = PartName::parse("a-b-00002-of-00010.gguf").unwrap();
        assert_eq!(part, PartName { prefix: "a-b", number: 2, count: 10 });
        assert_eq!(part_name("a-b", 2, 10), "a-b-00002-of-00010.gguf");
        for name in [
            "a.gguf",
            "a-1-of-2.gguf",
            "a-00003-of-00002.gguf",
            "a-00000-of-00002.gguf",
            "a-+0001-of-00002.gguf",
        ] {
            assert_eq!(PartName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_folder_has_one_model() {
        let entries = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let set = entries(&["README.md", "a-00001-of-00002.gguf", "a-00002-of-00002.gguf"]);
        assert_eq!(only_model(&set).unwrap(), "a-00001-of-00002.gguf");
        let several = entries(&["a.gguf", "b.gguf"]);
        assert!(only_model(&several).unwrap_err().message().contains("a.gguf, b.gguf"));
        assert_eq!(only_model(&[]).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
