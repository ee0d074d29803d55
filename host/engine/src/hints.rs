//! Hints: what is probably wrong with a model, a setting or an answer, each under the number of the specification's list
//! (inference-showcase-and-rosetta, section VII). A message that is one ends in its id, so that programs can count them.

/// A hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Its number in the specification.
    pub number: u16,
    /// Two to four words.
    pub title: &'static str,
    /// The condition under which it is told.
    pub definition: &'static str,
}

macro_rules! hints {
    ($($name:ident $number:literal $title:literal $definition:literal;)*) => {
        $(#[doc = $definition]
        pub const $name: Hint = Hint { number: $number, title: $title, definition: $definition };)*

        /// Every hint, by number.
        pub const ALL: &[Hint] = &[$($name),*];
    };
}

hints! {
    VOCABULARY 261 "vocabulary mismatch"
        "The tokenizer has more tokens than the model has rows for, or a token id is not below their number.";
    WIDTH 262 "width mismatch"
        "A matrix takes another number of inputs than the values that it is applied to have.";
    HEADS 263 "head mismatch"
        "Queries, keys or values have another number of rows than heads times their width, or heads are not a multiple of key heads.";
    SOFTMAX 264 "softmax overflow"
        "Attention over finite queries, keys and values is NaN or infinite: a score is beyond what F32 holds.";
    UTF_8 265 "invalid UTF-8"
        "The answer has bytes that are no character, or ends inside of one.";
    TEMPERATURE 266 "invalid temperature"
        "The temperature is negative or no number.";
    HOT 267 "high temperature"
        "The temperature is above 2: nearly every token becomes as likely as any other.";
    TOP_P 268 "invalid top-p"
        "Top-p is outside of 0 to 1.";
    SPIKE 269 "perplexity spike"
        "The mean of -ln p over 32 tokens is above 6 nats and more than three times the median over the text.";
    LOOP 270 "repeated tokens"
        "The answer has a token 24 times in a row, or a sequence of up to 64 tokens at least 4 times in a row over at least 64 tokens.";
    ENDED 271 "premature end"
        "The first token ends the text, or its probability is above one half although another one was chosen.";
    UNKNOWN 272 "unknown characters"
        "The prompt has characters that became the unknown token, or single bytes.";
    SHAPE 273 "shape mismatch"
        "A tensor has another shape than the configuration implies; if the reversed shape fits, it is probably transposed.";
    NOT_FINITE 274 "non-finite values"
        "The model computes NaN or infinite values; the first operation that makes them is named by `apr check`.";
    FALLBACK 275 "device passed over"
        "A device that could have computed cannot be used, and another one runs the model.";
    MEMORY 276 "not enough memory"
        "The model needs more memory than the device or the machine has free.";
    NO_FILE 277 "file not found"
        "A file that was named, or that a model refers to, does not exist.";
    FORMAT 278 "invalid format"
        "A file is not what its name or its user says, or violates the rules of its format.";
    NETWORK 279 "network error"
        "A server could not be reached, or answered with an error: the host and the status are named.";
    SUMMARY 280 "summary"
        "The last line counts the hints that were told, by id.";
}

impl Hint {
    /// The id as it is printed: `JID-270`.
    pub fn id(self) -> String {
        format!("JID-{}", self.number)
    }

    /// A message that is this hint.
    pub fn told(self, message: &str) -> String {
        format!("{message} (JID-{})", self.number)
    }
}

/// The hint for a tensor with a role whose shape is not the one that the configuration implies.
pub fn of_shape(role: Option<&str>, found: &[u64], expected: &[u64]) -> Hint {
    let is_head =
        role.is_some_and(|role| ["attention.query", "attention.key", "attention.value"].contains(&role));
    if expected.len() < 2 || is_reversed(found, expected) {
        return SHAPE;
    }
    if is_head && found.first() != expected.first() {
        return HEADS;
    }
    if found.last() != expected.last() { WIDTH } else { SHAPE }
}

/// The message for such a tensor.
pub fn shape_mismatch(role: Option<&str>, found: &[u64], expected: &[u64]) -> String {
    let turned = if is_reversed(found, expected) { ": it is probably transposed" } else { "" };
    let message = format!("its shape is {found:?}, but the configuration implies {expected:?}{turned}");
    of_shape(role, found, expected).told(&message)
}

fn is_reversed(found: &[u64], expected: &[u64]) -> bool {
    found.len() > 1 && found != expected && found.iter().rev().eq(expected)
}

/// The hint that a message is; `None` if it is none.
pub fn hint_of(message: &str) -> Option<Hint> {
    let (_, id) = message.strip_suffix(')')?.rsplit_once("(JID-")?;
    let number: u16 = id.parse().ok()?;
    ALL.iter().copied().find(|hint| hint.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_specification() {
        let numbers: Vec<u16> = ALL.iter().map(|hint| hint.number).collect();
        assert_eq!(numbers, (261..=280).collect::<Vec<_>>());
    }

    #[test]
    fn shapes_are_told_apart() {
        assert_eq!(of_shape(Some("attention.key"), &[8, 4], &[4, 4]), HEADS);
        assert_eq!(of_shape(Some("attention.output"), &[8, 4], &[8, 6]), WIDTH);
        assert_eq!(of_shape(Some("embedding"), &[8, 4], &[9, 4]), SHAPE);
        assert_eq!(of_shape(None, &[8], &[4]), SHAPE);
        let turned = shape_mismatch(None, &[8, 4], &[4, 8]);
        assert_eq!(
            turned,
            "its shape is [8, 4], but the configuration implies [4, 8]: it is probably transposed (JID-273)"
        );
    }

    #[test]
    fn a_message_tells_which_hint_it_is() {
        assert_eq!(hint_of(&LOOP.told("the model repeats itself")), Some(LOOP));
        assert_eq!(hint_of("the model repeats itself"), None);
        assert_eq!(hint_of("of another list (JID-999)"), None);
    }
}
