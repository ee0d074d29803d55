//! Names with places for numbers: `model.layers.{layer}.mlp.experts.{expert}.down_proj.weight`. A trailing
//! `*` matches any rest.

use apr_sdk::{Error, Result, escape};

/// A name with places for numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// Text before each place, and after the last.
    pieces: Vec<String>,
    /// The names of the places, in order.
    places: Vec<String>,
    /// Whether names may continue after it.
    is_open: bool,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// InvalidArgument for unclosed braces, or a place that occurs twice.
    pub fn parse(text: &str) -> Result<Pattern> {
        let wrong =
            |what: &str| Error::invalid_argument(format!("the name pattern `{}` {what}", escape(text, 200)));
        let open = text.strip_suffix('*');
        let mut pieces = Vec::new();
        let mut places = Vec::new();
        let mut rest = open.unwrap_or(text);
        while let Some((before, after)) = rest.split_once('{') {
            let (place, behind) = after.split_once('}').ok_or_else(|| wrong("has an unclosed `{`"))?;
            if place.is_empty() || !place.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
                return Err(wrong("has a placeholder without a name"));
            }
            if places.iter().any(|p| p == place) {
                return Err(wrong("has a duplicate placeholder"));
            }
            if !places.is_empty() && before.is_empty() {
                return Err(wrong("has two adjacent placeholders"));
            }
            pieces.push(before.to_owned());
            places.push(place.to_owned());
            rest = behind;
        }
        pieces.push(rest.to_owned());
        Ok(Pattern { text: text.to_owned(), pieces, places, is_open: open.is_some() })
    }

    /// The pattern as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches every name with its prefix.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The names of the places, in order.
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// The numbers at the places, if `name` matches. Numbers have no leading zeros.
    pub fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let mut rest = name.strip_prefix(self.pieces[0].as_str())?;
        let mut numbers = Vec::with_capacity(self.places.len());
        for piece in &self.pieces[1..] {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, behind) = rest.split_at(digits);
            if digits == 0 || digits > 9 || (digits > 1 && number.starts_with('0')) {
                return None;
            }
            numbers.push(number.parse().ok()?);
            rest = behind.strip_prefix(piece.as_str())?;
        }
        (rest.is_empty() != self.is_open).then_some(numbers)
    }

    /// The places with their numbers, if `name` matches.
    pub fn places_in(&self, name: &str) -> Option<Vec<(String, u64)>> {
        Some(self.places.iter().cloned().zip(self.numbers(name)?).collect())
    }

    /// The name with `number_of(place)` at each place.
    pub fn name(&self, number_of: impl Fn(&str) -> u64) -> String {
        let numbers: Vec<u64> = self.places.iter().map(|place| number_of(place)).collect();
        self.numbered(&numbers)
    }

    /// The name with these numbers at its places, in order.
    pub fn numbered(&self, numbers: &[u64]) -> String {
        let mut name = self.pieces[0].clone();
        for (number, piece) in numbers.iter().zip(&self.pieces[1..]) {
            name.push_str(&number.to_string());
            name.push_str(piece);
        }
        name
    }
}

/// The number at a place among these; 0 at any other.
pub fn number_in(numbers: &[(String, u64)]) -> impl Fn(&str) -> u64 {
    |place: &str| numbers.iter().find(|(own, _)| own == place).map_or(0, |(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_and_are_made() {
        let pattern = Pattern::parse("model.layers.{layer}.experts.{expert}.w1.weight").unwrap();
        let name = "model.layers.12.experts.0.w1.weight";
        assert_eq!(pattern.numbers(name), Some(vec![12, 0]));
        assert_eq!(pattern.name(|place| if place == "layer" { 12 } else { 0 }), name);
        for other in [
            "model.layers.12.experts.0.w1.weight2",
            "model.layers.012.experts.0.w1.weight",
            "model.layers..experts.0.w1.weight",
            "model.layers.1.experts.9999999999.w1.weight",
            "xmodel.layers.1.experts.0.w1.weight",
        ] {
            assert_eq!(pattern.numbers(other), None, "{other}");
        }
        assert_eq!(Pattern::parse("norm.weight").unwrap().numbers("norm.weight"), Some(vec![]));
        let open = Pattern::parse("model.layers.{layer}.*").unwrap();
        assert_eq!(open.numbers("model.layers.3.enorm.weight"), Some(vec![3]));
        assert_eq!(open.numbers("model.layers.3."), None);
        assert!(open.is_open() && !pattern.is_open());
    }

    #[test]
    fn bad_patterns_are_refused() {
        for text in ["a.{", "a.{}", "a.{layer", "{a}{b}", "{a}.{a}", "{A}"] {
            Pattern::parse(text).unwrap_err();
        }
    }
}
