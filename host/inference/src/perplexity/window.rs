//! The windows of a text.

use apr_sdk::{Error, Result};

/// Number of tokens of a window that are judged: those above half of it.
pub fn scored(size: usize) -> usize {
    (size - size / 2).saturating_sub(1)
}

/// A text's tokens in windows of equal size.
#[derive(Clone, Debug)]
pub struct Windows {
    ids: Vec<u32>,
    size: usize,
    /// The token that begins every text.
    first: Option<u32>,
}

impl Windows {
    /// The first `most` windows of a text, or all of them. `first` replaces the first token of each.
    ///
    /// # Errors
    /// InvalidArgument if the tokens do not fill two windows: llama-perplexity wants as many.
    pub fn new(mut ids: Vec<u32>, size: usize, first: Option<u32>, most: Option<usize>) -> Result<Windows> {
        let size = size.max(1);
        let needs = size.saturating_mul(2);
        if ids.len() < needs {
            let has = ids.len();
            let message = format!("the text has {has} tokens, but two windows of {size} need {needs}");
            let longest = has / 2;
            return Err(Error::invalid_argument(message).hint(match longest {
                4.. => format!("use a longer text, or pass --context {longest} or less"),
                _ => "use a longer text".to_owned(),
            }));
        }
        let count = (ids.len() / size).min(most.unwrap_or(usize::MAX));
        ids.truncate(count * size);
        Ok(Windows { ids, size, first })
    }

    /// Windows of tokens that were cut before, as a base file has them.
    pub fn of_whole(ids: Vec<u32>, size: usize, first: Option<u32>, most: Option<usize>) -> Windows {
        let size = size.max(1);
        let count = (ids.len() / size).min(most.unwrap_or(usize::MAX));
        Windows { ids: ids[..count * size].to_vec(), size, first }
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.ids.len() / self.size
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of a window.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The text's own tokens, as far as they fill windows.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The windows one after the other, each with the token that begins every text.
    pub fn iter(&self) -> impl Iterator<Item = Vec<u32>> {
        self.ids.chunks_exact(self.size).map(|ids| {
            let mut ids = ids.to_vec();
            if let (Some(id), Some(first)) = (ids.first_mut(), self.first) {
                *id = first;
            }
            ids
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_as_texts_do_and_the_rest_is_dropped() {
        let windows = Windows::new((10..21).collect(), 4, Some(1), None).unwrap();
        assert_eq!((windows.len(), windows.ids().len()), (2, 8));
        let all: Vec<_> = windows.iter().collect();
        assert_eq!(all, [[1, 11, 12, 13], [1, 15, 16, 17]]);
        // The text itself is kept for the base file.
        assert_eq!(windows.ids()[..5], [10, 11, 12, 13, 14]);
        let bare = Windows::new((10..21).collect(), 4, None, Some(1)).unwrap();
        assert_eq!(bare.iter().collect::<Vec<_>>(), [[10, 11, 12, 13]]);
    }

    #[test]
    fn two_windows_are_needed_whatever_the_limit() {
        let error = Windows::new((0..1023).collect(), 512, None, Some(1)).unwrap_err();
        assert!(error.message().contains("1023 tokens, but two windows of 512 need 1024"), "{error}");
        assert!(error.hint_text().unwrap().contains("--context 511"), "{error:?}");
        assert!(Windows::new(Vec::new(), 512, None, None).is_err());
        assert_eq!(Windows::new((0..1024).collect(), 512, None, Some(1)).unwrap().len(), 1);
    }

    #[test]
    fn less_than_half_is_judged() {
        assert_eq!([512, 511, 4, 3, 2, 1, 0].map(scored), [255, 255, 1, 1, 0, 0, 0]);
    }
}
