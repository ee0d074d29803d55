//! Stop strings: text is held back as long as it may be the beginning of one.

use apr_sdk::{Error, Result};

/// Bytes of all stop strings. 64 KiB: each new piece of text is compared with all of them.
const MAX_BYTES: usize = 64 << 10;

/// Looks for stop strings in a text that comes in pieces.
pub struct Stops<'s> {
    stops: &'s [String],
    /// Text that has not been given.
    held: String,
}

/// The outcome for a piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed<'s> {
    /// The text that can be given.
    pub text: String,
    /// The stop string that follows it, which ends the answer.
    pub stop: Option<&'s str>,
}

impl<'s> Stops<'s> {
    /// Watches for these strings.
    ///
    /// # Errors
    /// InvalidArgument for an empty one; LimitExceeded if they are too long.
    pub fn new(stops: &'s [String]) -> Result<Stops<'s>> {
        if stops.iter().any(String::is_empty) {
            return Err(
                Error::invalid_argument("a stop string is empty").hint("specify a text, or remove it")
            );
        }
        let bytes: usize = stops.iter().map(String::len).sum();
        if bytes > MAX_BYTES {
            return Err(Error::limit(format!(
                "the stop strings have {bytes} bytes, more than the limit of {MAX_BYTES}"
            ))
            .hint("use fewer or shorter ones"));
        }
        Ok(Stops { stops, held: String::new() })
    }

    /// Takes the next piece of text. The first stop string in it counts, and of several at the same place the one that
    /// was named first.
    pub fn push(&mut self, text: &str) -> Passed<'s> {
        self.held.push_str(text);
        let matches = self.stops.iter().filter_map(|stop| Some((self.held.find(stop.as_str())?, stop)));
        if let Some((at, stop)) = matches.min_by_key(|(at, _)| *at) {
            self.held.truncate(at);
            return Passed { text: std::mem::take(&mut self.held), stop: Some(stop) };
        }
        let kept = self.stops.iter().map(|stop| begun(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        Passed { text: std::mem::replace(&mut self.held, rest), stop: None }
    }

    /// Returns the text held back: at the end it is text like any other.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes at the end of `text` with which `stop` begins.
fn begun(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len().saturating_sub(1));
    // A part of a character at the end of the text is not there: texts come in whole characters.
    (1..=longest).rev().find(|n| stop.get(..*n).is_some_and(|start| text.ends_with(start))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(stops: &[&str], pieces: &[&str]) -> (Vec<String>, Option<String>) {
        let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
        let mut watch = Stops::new(&stops).unwrap();
        let mut texts = Vec::new();
        for piece in pieces {
            let Passed { text, stop } = watch.push(piece);
            texts.push(text);
            if let Some(stop) = stop {
                return (texts, Some(stop.to_owned()));
            }
        }
        texts.push(watch.finish());
        (texts, None)
    }

    #[test]
    fn what_may_be_a_stop_string_is_held_back() {
        let (texts, stop) = passed(&["\nUser:"], &["Hi", "\n", "Us", "e", "r", "!", "\nUser", ": a"]);
        assert_eq!(texts, ["Hi", "", "", "", "", "\nUser!", "", ""]);
        assert_eq!(stop.as_deref(), Some("\nUser:"));
        let (texts, stop) = passed(&["\nUser:"], &["a\nUse"]);
        assert_eq!((texts, stop), (vec!["a".to_owned(), "\nUse".to_owned()], None));
    }

    #[test]
    fn the_first_in_the_text_counts() {
        let (texts, stop) = passed(&["cd", "bc"], &["abcd"]);
        assert_eq!((texts, stop.as_deref()), (vec!["a".to_owned()], Some("bc")));
        let (texts, stop) = passed(&["aab"], &["aa", "ab"]);
        assert_eq!((texts.concat(), stop.as_deref()), ("a".to_owned(), Some("aab")));
        let (texts, stop) = passed(&["ß!"], &["aß", "ß", "!b"]);
        assert_eq!((texts.concat(), stop.as_deref()), ("aß".to_owned(), Some("ß!")));
    }

    #[test]
    fn none_holds_nothing_and_an_empty_one_is_refused() {
        assert_eq!(passed(&[], &["a", "b"]).0, ["a", "b", ""]);
        assert!(Stops::new(&[String::new()]).is_err());
        assert!(Stops::new(&["a".repeat(MAX_BYTES + 1)]).is_err());
    }
}
