//! Choice of files in a repository: `hf://org/name:Q4_K_M`, and `--include`.

use super::listing::Listing;
use apr_engine::sizes::show_size;
use apr_sdk::{Error, Result, escape};

/// Names that are listed in an error.
const MOST_SHOWN: usize = 20;

/// The file whose name has a word for the type of its weights, as in `model-Q4_K_M.gguf`: of a split model the first part.
///
/// # Errors
/// NotFound if there is none, InvalidArgument if there are several; both list what there is, with sizes.
pub fn tagged(listing: &Listing, word: &str) -> Result<String> {
    let mut found: Vec<&String> = listing.files.keys().filter(|name| has_word(name, word)).collect();
    found.retain(|name| part_of(name).is_none_or(|part| part == 1));
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let message = format!("no file of this model has `{}` in its name", escape(word, 80));
            Err(Error::not_found(message).hint(choices(listing, &mut models(listing))))
        }
        _ => {
            let message =
                format!("{} files of this model have `{}` in their name", found.len(), escape(word, 80));
            let hint = choices(listing, &mut found.into_iter());
            Err(Error::invalid_argument(message).hint(hint))
        }
    }
}

/// The files that can be a model by themselves: large ones, of split ones the first part; all files where none is large.
fn models(listing: &Listing) -> impl Iterator<Item = &String> {
    let are_large = listing.files.values().any(|file| file.sha256.is_some());
    let large = listing.files.iter().filter(move |(_, file)| file.sha256.is_some() || !are_large);
    large.map(|(name, _)| name).filter(|name| part_of(name).is_none_or(|part| part == 1))
}

/// A hint that lists files with their sizes, all parts of a split one counted.
fn choices(listing: &Listing, names: &mut dyn Iterator<Item = &String>) -> String {
    let mut shown: Vec<String> = names
        .take(MOST_SHOWN + 1)
        .map(|name| {
            let parts = listing.files.iter().filter(|(other, _)| same_model(name, other));
            let bytes: u64 = parts.filter_map(|(_, file)| file.size).sum();
            format!("{} ({})", escape(name, 120), show_size(bytes))
        })
        .collect();
    if shown.is_empty() {
        return "list its files: apr pull MODEL --plan".to_owned();
    }
    if shown.len() > MOST_SHOWN {
        shown.truncate(MOST_SHOWN);
        shown.push("...".to_owned());
    }
    format!("name one of its files: {}", shown.join(", "))
}

/// Returns whether a file's name has a word, in any case, between what separates words. Projectors for images are no
/// models.
fn has_word(name: &str, word: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let word = word.to_ascii_lowercase();
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_');
    let starts = file.match_indices(word.as_str());
    let mut found = starts.filter(|(at, _)| {
        is_edge(file[..*at].chars().next_back()) && is_edge(file[at + word.len()..].chars().next())
    });
    !word.is_empty() && !file.starts_with("mmproj") && found.next().is_some()
}

/// Returns whether a name is that of a part of a split model.
pub fn is_part(name: &str) -> bool {
    parts(name).is_some()
}

/// The number of a part: 2 of `NAME-00002-of-00003.EXT`.
fn part_of(name: &str) -> Option<u32> {
    let (number, _) = parts(name)?;
    number.parse().ok()
}

/// Number and count in the name of a part.
fn parts(name: &str) -> Option<(&str, &str)> {
    let stem = name.rsplit_once('.')?.0;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let number = rest.rsplit_once('-')?.1;
    let are_numbers = [number, count].iter().all(|n| n.len() == 5 && n.bytes().all(|b| b.is_ascii_digit()));
    are_numbers.then_some((number, count))
}

/// Returns whether two names are those of one split model, or the same.
pub fn same_model(one: &str, other: &str) -> bool {
    match (parts(one), parts(other)) {
        (Some((a, _)), Some((b, _))) => {
            one.replacen(&format!("-{a}-of-"), "-*-of-", 1)
                == other.replacen(&format!("-{b}-of-"), "-*-of-", 1)
        }
        _ => one == other,
    }
}

/// Returns whether a name fits a pattern in which `*` is any text and `?` any character; one without a `/` is also tried on
/// the last part of the name.
pub fn fits(pattern: &str, name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or_default();
    matches(pattern.as_bytes(), name.as_bytes())
        || (!pattern.contains('/') && matches(pattern.as_bytes(), last.as_bytes()))
}

fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where the last `*` is, and how much it has taken.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                at = place + 1;
                read = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Listed;

    fn listing(names: &[&str]) -> Listing {
        let file = |name: &&str| {
            let listed = Listed { size: Some(1_500_000_000), git_id: None, sha256: Some("a".repeat(64)) };
            ((*name).to_owned(), listed)
        };
        Listing { files: names.iter().map(file).collect(), ..Listing::default() }
    }

    #[test]
    fn a_type_names_one_file() {
        let repository = listing(&[
            "m-Q4_K_M.gguf",
            "m-Q4_K_S.gguf",
            "m-q8_0-00001-of-00002.gguf",
            "m-q8_0-00002-of-00002.gguf",
            "mmproj-F16.gguf",
            "m-F16.gguf",
        ]);
        for (word, name) in
            [("Q4_K_M", "m-Q4_K_M.gguf"), ("q8_0", "m-q8_0-00001-of-00002.gguf"), ("f16", "m-F16.gguf")]
        {
            assert_eq!(tagged(&repository, word).unwrap(), name);
        }
        let error = tagged(&repository, "Q4_K").unwrap_err();
        assert_eq!(error.message(), "no file of this model has `Q4_K` in its name");
        assert!(error.hint_text().unwrap().contains("m-q8_0-00001-of-00002.gguf (3.00 GB)"));
        assert!(
            tagged(&listing(&["a/m-Q2_K.gguf", "b/m-Q2_K.gguf"]), "Q2_K")
                .unwrap_err()
                .message()
                .starts_with("2 files")
        );
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, name) in
            [("*.json", "a/b.json"), ("a/*", "a/b/c"), ("m?.bin", "m1.bin"), ("*", ""), ("a*c*e", "abcde")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.json", "a.jsonl"), ("b/*", "a/b/c"), ("m?.bin", "m12.bin"), ("", "a")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
