//! Selects and renames the source's tensors before anything else looks at them: `--prefix`, `--include` and
//! related flags, `--tensor-mapping`.

use crate::architecture::{Pattern, Removed};
use crate::planned::coverage::Fate;
use crate::planned::selection::{Choice, Renaming};
use crate::select::choice;
use crate::wording::n_of;
use apr_sdk::{Error, Model, Result, escape};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The remainder of a model, and the fate of everything else.
#[derive(Debug)]
pub struct Taken {
    /// The former index of each remaining tensor.
    pub kept: Vec<usize>,
    /// The fate of each tensor of the source.
    pub fates: Vec<Fate>,
    /// The tensors that patterns left out.
    pub removed: Vec<Removed>,
}

/// Decides the fate of each tensor of the model that is left.
pub type Fates<'a> = &'a mut dyn FnMut(&Model) -> Result<Vec<Fate>>;

/// Selects and renames tensors of `model`; `None` if nothing changed. Patterns match the names below the
/// prefix, before mapping; what they leave out is mapped too. `layers` then decides about the tensors that are left.
///
/// # Errors
/// InvalidArgument for a path with nothing below it, a mapping that names no tensor, duplicate names, and as
/// [`Choice::removed`]; any error from `layers`.
pub fn take(
    model: &mut Model,
    renaming: &Renaming,
    choice: &Choice,
    layers: Option<Fates<'_>>,
) -> Result<Option<Taken>> {
    if renaming.prefix.is_none() && renaming.mapping.is_empty() && choice.is_everything() && layers.is_none()
    {
        return Ok(None);
    }
    let outside: Arc<str> = "it is not below the requested path".into();
    let fates = vec![Fate::Left(outside); model.tensors.len()];
    let mut below: Vec<usize> = (0..model.tensors.len()).collect();
    if let Some(prefix) = &renaming.prefix {
        below = take_below(model, prefix)?;
    }
    let why = choice.removed(&model.tensors)?;
    let left = model.tensors.iter().zip(&why);
    let left = left.filter_map(|(tensor, why)| Some((tensor.name.as_str(), why.as_deref()?)));
    let notes = choice::notes(left);
    model.notes.extend(notes);
    let names: Vec<&str> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let pairs = expand(&renaming.mapping, &names)?;
    for (number, name) in pairs {
        model.tensors[number].name = name;
    }
    let mut taken = Taken { kept: Vec::new(), fates, removed: Vec::new() };
    let tensors = std::mem::take(&mut model.tensors);
    for ((number, tensor), why) in below.into_iter().zip(tensors).zip(why) {
        taken.fates[number] = match &why {
            Some(why) => Fate::Left(Arc::clone(why)),
            None => Fate::Called(tensor.name.clone()),
        };
        match why {
            Some(rule) => taken.removed.push(Removed { tensor, rule }),
            None => {
                model.tensors.push(tensor);
                taken.kept.push(number);
            }
        }
    }
    if let Some(layers) = layers {
        let fates = layers(model)?;
        let tensors = std::mem::take(&mut model.tensors).into_iter().zip(std::mem::take(&mut taken.kept));
        for ((mut tensor, number), fate) in tensors.zip(fates) {
            if let Fate::Called(name) = &fate {
                tensor.name.clone_from(name);
                model.tensors.push(tensor);
                taken.kept.push(number);
            }
            taken.fates[number] = fate;
        }
    }
    let mut names = HashSet::new();
    if let Some(twice) = model.tensors.iter().find(|tensor| !names.insert(tensor.name.as_str())) {
        return Err(Error::invalid_argument("two tensors would have this name").tensor(&twice.name));
    }
    count_anew(model, &taken.kept, taken.fates.len());
    Ok(Some(taken))
}

/// Recounts the tensors per file for the selected ones of `n_before`: for the source's own files, and for
/// those of its parts.
fn count_anew(model: &mut Model, kept: &[usize], n_before: usize) {
    let own = model.format.clone();
    for foreign in &mut model.foreign {
        if foreign.format != own && !foreign.describes(n_before) {
            continue;
        }
        let mut first = 0u64;
        for file in &mut foreign.files {
            let end = first.saturating_add(file.n_tensors);
            // The selected ones are in source order.
            let [before, up_to] = [first, end].map(|end| kept.partition_point(|&n| (n as u64) < end));
            file.n_tensors = (up_to - before) as u64;
            first = end;
        }
    }
}

fn take_below(model: &mut Model, prefix: &str) -> Result<Vec<usize>> {
    let start = format!("{}.", prefix.trim_end_matches('.'));
    let mut kept = Vec::new();
    let mut left = Vec::new();
    let mut tensors = Vec::new();
    for (number, mut tensor) in std::mem::take(&mut model.tensors).into_iter().enumerate() {
        match tensor.name.strip_prefix(&start).filter(|rest| !rest.is_empty()) {
            Some(name) => {
                tensor.name = name.to_owned();
                tensors.push(tensor);
                kept.push(number);
            }
            None => left.push(tensor.name),
        }
    }
    let shown: Vec<String> = left.iter().take(3).map(|name| escape(name, 120).to_string()).collect();
    if tensors.is_empty() {
        let message = format!("no tensors below `{}`", escape(prefix, 120));
        return Err(Error::invalid_argument(message)
            .hint(format!("specify an existing path: the first tensors are {}", shown.join(", "))));
    }
    if !left.is_empty() {
        let more = if left.len() > shown.len() { ", ..." } else { "" };
        let what = n_of(left.len(), "tensor");
        model.notes.push(format!("left out: {what} not below `{start}`: {}{more}", shown.join(", ")));
    }
    model.tensors = tensors;
    Ok(kept)
}

/// Expands a mapping for tensors called `names`: the index of each mapped tensor, and its new name.
///
/// # Errors
/// InvalidArgument for an entry that names no tensor, a tensor that is mapped twice, and placeholders that do
/// not agree.
pub fn expand(mapping: &[(String, String)], names: &[&str]) -> Result<Vec<(usize, String)>> {
    let numbers: HashMap<&str, usize> =
        names.iter().enumerate().map(|(number, name)| (*name, number)).collect();
    let mut pairs = Vec::new();
    let mut seen = HashSet::new();
    for (from, to) in mapping {
        let before = pairs.len();
        match numbers.get(from.as_str()) {
            Some(&number) => pairs.push((number, to.clone())),
            None if from.contains('{') => {
                let from = Pattern::parse(from)?;
                let to = Pattern::parse(to)?;
                if let Some(place) = to.places().iter().find(|place| !from.places().contains(place)) {
                    let message = format!(
                        "the placeholder `{{{place}}}` in the tensor mapping does not occur in the source \
                         name"
                    );
                    return Err(Error::invalid_argument(message).tensor(to.text()));
                }
                for (number, name) in names.iter().enumerate() {
                    let Some(found) = from.numbers(name) else { continue };
                    let name = to.name(|place| {
                        let place = from.places().iter().position(|p| p == place);
                        place.and_then(|place| found.get(place).copied()).unwrap_or(0)
                    });
                    pairs.push((number, name));
                }
            }
            None => {}
        }
        if pairs.len() == before {
            return Err(Error::invalid_argument(
                "the tensor mapping refers to a tensor that is not in the model",
            )
            .tensor(from)
            .hint("run `apr tensors FILE -q` to list the names"));
        }
    }
    match pairs.iter().find(|(number, _)| !seen.insert(*number)) {
        Some((number, _)) => {
            Err(Error::invalid_argument("the tensor mapping has a duplicate entry for this tensor")
                .tensor(names[*number]))
        }
        None => Ok(pairs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(mapping: &[(&str, &str)], names: &[&str]) -> Result<Vec<(usize, String)>> {
        let mapping: Vec<_> = mapping.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        expand(&mapping, names)
    }

    #[test]
    fn entries_are_names_or_patterns() {
        let names = ["h.0.a.1", "h.10.a.2", "x{y}", "z"];
        let found = expanded(&[("h.{layer}.a.{n}", "l.{n}.{layer}"), ("x{y}", "x")], &names).unwrap();
        assert_eq!(found, [(0, "l.1.0".to_owned()), (1, "l.2.10".to_owned()), (2, "x".to_owned())]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let names = ["h.0.a", "z"];
        for (mapping, word) in [
            (vec![("y", "x")], "not in the model"),
            (vec![("h.{l}.b", "x.{l}")], "not in the model"),
            (vec![("h.{l}.a", "x.{m}")], "does not occur in the source name"),
            (vec![("h.{l}.a", "x.{l}"), ("h.0.a", "x")], "duplicate"),
            (vec![("h.{.a", "x")], "unclosed"),
        ] {
            let error = expanded(&mapping, &names).unwrap_err();
            assert!(error.message().contains(word), "{mapping:?}: {}", error.message());
        }
    }
}
