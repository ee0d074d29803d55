//! What two models compute besides their tensors: a graph that a format holds, compared line by line.

use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::open::reports::of_opened;
use apr_sdk::{Error, Result, Value};
use serde_json::Value as Json;

/// Two models whose format says that they compute something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computation {
    /// The id of the format.
    pub format: String,
    /// The key of its metadata that holds it.
    pub key: String,
    /// The first line that differs, in a and in b, if one has it; both are `None` where only the whole can be compared.
    pub lines: [Option<String>; 2],
}

/// Every format by which two models compute something else. A model that lost its computation in a format that cannot hold it
/// says nothing of it.
///
/// # Errors
/// Any error from reading.
pub fn computations(engine: &Engine, a: &OpenedModel, b: &OpenedModel) -> Result<Vec<Computation>> {
    let mut found = Vec::new();
    for format in engine.registry.formats() {
        let Some((key, report)) = &format.manifest.computation else { continue };
        let held = |opened: &OpenedModel| -> Result<Option<Vec<u8>>> {
            let value = opened.model.foreign_of(format.id()).and_then(|foreign| foreign.get(key));
            let Some(Value { bytes, .. }) = value else { return Ok(None) };
            Ok(opened.fetch(bytes)?.inline().map(<[u8]>::to_vec))
        };
        let (one, two) = (held(a)?, held(b)?);
        let is_own = |opened: &OpenedModel| opened.format == format.id();
        if one == two || (one.is_none() || two.is_none()) && !(is_own(a) && is_own(b)) {
            continue;
        }
        let mut lines = [None, None];
        if is_own(a) && is_own(b) {
            match first_unlike(&listed(engine, a, report)?, &listed(engine, b, report)?) {
                Some(unlike) => lines = unlike,
                None => continue,
            }
        }
        found.push(Computation { format: format.id().to_owned(), key: key.clone(), lines });
    }
    Ok(found)
}

/// The lines of a model's report: places, and what is there.
fn listed(engine: &Engine, opened: &OpenedModel, report: &str) -> Result<Vec<(String, String)>> {
    let made = of_opened(engine, opened, report)?;
    let lines = made.json.get("lines").cloned().unwrap_or(Json::Null);
    serde_json::from_value(lines).map_err(|_| {
        Error::plugin(format!(
            "the report `{report}` of `{}` has no `lines` of a place and a text",
            made.format
        ))
    })
}

/// The first lines at which two lists differ, each with its place.
fn first_unlike(a: &[(String, String)], b: &[(String, String)]) -> Option<[Option<String>; 2]> {
    let longest = a.len().max(b.len());
    let at = (0..longest).find(|&n| a.get(n).map(|line| &line.1) != b.get(n).map(|line| &line.1))?;
    let line = |of: &[(String, String)]| of.get(at).map(|(place, is)| format!("{place}: {is}"));
    Some([line(a), line(b)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shown_and_do_not_count() {
        let lines = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(place, is)| ((*place).to_owned(), (*is).to_owned())).collect()
        };
        let (a, b) = (lines(&[("x", "1"), ("y", "2")]), lines(&[("other", "1"), ("y", "3")]));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(first_unlike(&a, &a), None);
        assert_eq!(first_unlike(&a, &b), Some([text("y: 2"), text("y: 3")]));
        assert_eq!(first_unlike(&a, &b[..1]), Some([text("y: 2"), None]));
        assert_eq!(first_unlike(&a[..1], &lines(&[("z", "1")])), None);
    }
}
