//! Renames tensors of the output: `--rename OLD=NEW`, after names were translated.

use super::glob::{Match, matches, n_stars};
use crate::open::schemes::companions::{companions, first_parted, named_after, relation};
use crate::planned::PlannedModel;
use crate::planned::coverage::Renamed;
use crate::wording::n_of;
use apr_sdk::{Error, Result, Tensor, escape};
use std::collections::HashMap;

/// Renames tensors by `renames`: (pattern, new name). Each `*` of a new name is replaced by what the
/// corresponding `*` of the pattern matched.
///
/// # Errors
/// InvalidArgument for a pattern that matches nothing, two that match one tensor, new names that are empty or
/// not unique, and scales that could no longer be found by their codes.
pub fn rename(planned: &mut PlannedModel, renames: &[(String, String)]) -> Result<Vec<Renamed>> {
    if renames.is_empty() {
        return Ok(Vec::new());
    }
    let before = &planned.model().tensors;
    let mut renamed = new_names(before, renames)?;
    follow_codes(before, &mut renamed);
    let mut after = before.clone();
    for tensor in renamed.values() {
        after[tensor.number].name.clone_from(&tensor.to);
    }
    refuse_same_names(before, &after, &renamed)?;
    if let Some((a, b)) = first_parted(&companions(before), &companions(&after)) {
        let lone = if renamed.contains_key(&a) { b } else { a };
        let rule = renamed.get(&a).or(renamed.get(&b)).map_or("", |tensor| tensor.rule.as_str());
        let what = relation(&before[a], &before[b]);
        let message = format!("{rule} would separate related tensors: {what}");
        let hint = "rename them in the same way, as with --rename 'OLD*=NEW*'";
        return Err(Error::invalid_argument(message).tensor(&before[lone].name).hint(hint));
    }
    let mut renamed: Vec<Renamed> = renamed.into_values().collect();
    renamed.sort_by_key(|tensor| tensor.number);
    let mut all = renamed.iter().peekable();
    for handle in planned.computations().handles() {
        if let Some(tensor) = all.next_if(|tensor| tensor.number == handle.index()) {
            planned.rename(handle, &tensor.to);
        }
    }
    Ok(renamed)
}

/// The tensors that the patterns match, by index.
fn new_names(tensors: &[Tensor], renames: &[(String, String)]) -> Result<HashMap<usize, Renamed>> {
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut renamed: HashMap<usize, Renamed> = HashMap::new();
    for (old, new) in renames {
        let rule = format!("--rename '{}={}'", escape(old, 200), escape(new, 200));
        let pieces = pieces(new).map_err(|what| Error::invalid_argument(format!("{rule}: {what}")))?;
        let matched = matches("--rename", old, &names)?;
        let have = pieces.len() - 1;
        let want = n_stars(old);
        if have != want {
            let message = format!("{rule}: the new name has {have} `*`, but the pattern has {want}");
            let hint = "use the same number of `*` on both sides: each stands for the text matched by the \
                        `*` in the same position";
            return Err(Error::invalid_argument(message).hint(hint));
        }
        for Match { number, stars } in matched {
            let name = names[number].to_owned();
            if let Some(other) = renamed.get(&number) {
                let message = format!("{} and {rule} both match it", other.rule);
                return Err(Error::invalid_argument(message).tensor(&name).hint("narrow one of the two"));
            }
            let stars = stars.iter().copied().chain([""]);
            let to: String = pieces
                .iter()
                .map(String::as_str)
                .zip(stars)
                .flat_map(|(piece, star)| [piece, star])
                .collect();
            if to.is_empty() {
                let message = format!("{rule} leaves it with an empty name");
                return Err(Error::invalid_argument(message)
                    .tensor(&name)
                    .hint("choose a new name that is not empty"));
            }
            renamed.insert(number, Renamed { name, to, rule: rule.clone(), number });
        }
    }
    renamed.retain(|_, one| one.name != one.to);
    Ok(renamed)
}

/// Splits a new name at each `*`.
fn pieces(new: &str) -> std::result::Result<Vec<String>, &'static str> {
    let mut pieces = vec![String::new()];
    let mut letters = new.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '*' => {
                pieces.push(String::new());
                continue;
            }
            '?' => {
                return Err(
                    "a new name cannot contain `?`; use `*` for the text matched by a `*`, `\\?` for a \
                     literal question mark",
                );
            }
            '\\' => letters.next().ok_or("the new name ends with a backslash")?,
            letter => letter,
        };
        if let Some(last) = pieces.last_mut() {
            last.push(letter);
        }
    }
    Ok(pieces)
}

/// Scales that are called after their codes: rename them too.
fn follow_codes(tensors: &[Tensor], renamed: &mut HashMap<usize, Renamed>) {
    for (codes, number) in named_after(tensors) {
        let Some(one) = renamed.get(&codes).cloned() else { continue };
        let name = tensors[number].name.clone();
        let to = name.strip_prefix(one.name.as_str()).map_or(name.clone(), |suffix| one.to + suffix);
        renamed.entry(number).or_insert(Renamed { name, to, rule: one.rule, number });
    }
}

/// Fails if two tensors would have the same name, one of them because it was renamed.
fn refuse_same_names(before: &[Tensor], after: &[Tensor], renamed: &HashMap<usize, Renamed>) -> Result<()> {
    let mut named: HashMap<&str, usize> = HashMap::with_capacity(after.len());
    for (number, tensor) in after.iter().enumerate() {
        let Some(other) = named.insert(&tensor.name, number) else { continue };
        let Some(one) = renamed.get(&number).or(renamed.get(&other)) else { continue };
        let [first, second] = if renamed.contains_key(&other) { [other, number] } else { [number, other] };
        let stays = if renamed.contains_key(&second) { "" } else { ", which keeps its name" };
        let [first, second] = [first, second].map(|number| escape(&before[number].name, 120));
        let message =
            format!("{} gives two tensors the same name: `{first}` and `{second}`{stays}", one.rule);
        return Err(Error::invalid_argument(message)
            .tensor(&tensor.name)
            .hint("choose a different name for each"));
    }
    Ok(())
}

/// Notes for the summary, one line per rule.
pub fn notes(renamed: &[Renamed]) -> Vec<String> {
    let mut rules: Vec<(&str, Vec<&Renamed>)> = Vec::new();
    for tensor in renamed {
        match rules.iter_mut().find(|(rule, _)| *rule == tensor.rule) {
            Some((_, of)) => of.push(tensor),
            None => rules.push((&tensor.rule, vec![tensor])),
        }
    }
    let mut lines = Vec::with_capacity(rules.len());
    for (rule, of) in rules {
        let shown = of.iter().take(3);
        let shown =
            shown.map(|tensor| format!("{} -> {}", escape(&tensor.name, 120), escape(&tensor.to, 120)));
        let shown = shown.collect::<Vec<String>>().join(", ");
        let more = if of.len() > 3 { ", ..." } else { "" };
        lines.push(format!("renamed: {} ({rule}): {shown}{more}", n_of(of.len(), "tensor")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Expression, PlannedTensor};
    use apr_sdk::{DType, Model, Payload};

    fn planned(name: &str, dtype: DType, shape: &[u64]) -> PlannedTensor {
        let tensor =
            Tensor { name: name.to_owned(), dtype, shape: shape.to_vec(), payload: Payload::Sequential };
        PlannedTensor::new(tensor, Expression::fill(dtype, &[0; 8]))
    }

    fn renamed(renames: &[(&str, &str)]) -> Result<Vec<String>> {
        let tensors = vec![
            planned("blk.0.a.w", DType::F32, &[2]),
            planned("blk.1.a.w", DType::F32, &[2]),
            planned("q", DType::I8, &[2, 4]),
            planned("q.scale", DType::F32, &[2]),
        ];
        let renames: Vec<_> = renames.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let mut planned = PlannedModel::new(Model::default(), tensors);
        rename(&mut planned, &renames)?;
        Ok(planned.model().tensors.iter().map(|tensor| tensor.name.clone()).collect())
    }

    #[test]
    fn stars_are_used_again_in_their_order() {
        assert_eq!(renamed(&[("blk.*.*", "l.*.x.*")]).unwrap()[..2], ["l.0.x.a.w", "l.1.x.a.w"]);
        assert_eq!(
            renamed(&[("blk.0.a.w", "blk.1.a.w"), ("blk.1.a.w", "blk.0.a.w")]).unwrap()[0],
            "blk.1.a.w"
        );
        assert_eq!(renamed(&[("blk.0.*", r"\*\?[*]")]).unwrap()[0], "*?[a.w]");
        assert_eq!(renamed(&[("blk.0.a.w", "blk.0.a.w")]).unwrap()[0], "blk.0.a.w");
    }

    #[test]
    fn scales_follow_their_codes_and_never_leave_them() {
        assert_eq!(renamed(&[("q", "r")]).unwrap()[2..], ["r", "r.scale"]);
        assert_eq!(renamed(&[("q*", "r*")]).unwrap()[2..], ["r", "r.scale"]);
        let error = renamed(&[("q.scale", "s")]).unwrap_err();
        assert!(error.message().contains("would separate related tensors"), "{}", error.message());
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for (renames, word) in [
            (&[("b", "x")][..], "--rename 'b' matches no tensor"),
            (&[("blk.*.a.w", "x")], "the new name has 0 `*`, but the pattern has 1"),
            (&[("q", "x*")], "the new name has 1 `*`, but the pattern has 0"),
            (&[("q", "x?")], "cannot contain `?`"),
            (&[("q", r"x\")], "ends with a backslash"),
            (&[("q", "")], "leaves it with an empty name"),
            (&[("{blk.*,none}", "x")], "gives two tensors the same name: `blk.0.a.w` and `blk.1.a.w`"),
            (&[("blk.1*", "blk.0*")], "`blk.1.a.w` and `blk.0.a.w`, which keeps its name"),
            (&[("blk.1*", "x*"), ("*.w", "y*")], "--rename 'blk.1*=x*' and --rename '*.w=y*' both match it"),
        ] {
            let error = renamed(renames).unwrap_err();
            assert!(error.message().contains(word), "{word}: {}", error.message());
        }
    }
}
