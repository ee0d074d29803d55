//! Selects tensors of the source: `--include`, `--exclude` and `--drop`.

use super::glob::{Match, matches};
use crate::open::schemes::companions::{companions, relation};
use crate::planned::selection::Choice;
use crate::wording::n_of;
use apr_sdk::{Error, Result, Tensor, escape};
use std::sync::Arc;

impl Choice {
    /// Returns whether everything is selected.
    pub fn is_everything(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty() && self.drop.is_empty()
    }

    /// For each tensor the reason why it is left out; `None` if it is kept.
    ///
    /// # Errors
    /// As [`Choice::unmatched`]; InvalidArgument if scales would be separated from their codes.
    pub fn removed(&self, tensors: &[Tensor]) -> Result<Vec<Option<Arc<str>>>> {
        let removed = self.unmatched(tensors)?;
        together(tensors, &removed)?;
        Ok(removed)
    }

    /// Like [`Choice::removed`], but allows separating tensors that belong together, for tensors that are
    /// only inspected.
    ///
    /// # Errors
    /// InvalidArgument for a pattern that matches nothing, a tensor that is both included and dropped, and a
    /// selection that leaves nothing.
    pub fn unmatched(&self, tensors: &[Tensor]) -> Result<Vec<Option<Arc<str>>>> {
        let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let not_included: Arc<str> = "no --include matches it".into();
        let mut removed = vec![(!self.include.is_empty()).then_some(not_included); tensors.len()];
        let mut included: Vec<Option<&str>> = vec![None; tensors.len()];
        for pattern in &self.include {
            for Match { number, .. } in matches("--include", pattern, &names)? {
                removed[number] = None;
                included[number].get_or_insert(pattern);
            }
        }
        for (flag, patterns) in [("--exclude", &self.exclude), ("--drop", &self.drop)] {
            for pattern in patterns {
                let rule: Arc<str> = format!("{flag} '{}'", escape(pattern, 200)).into();
                for Match { number, .. } in matches(flag, pattern, &names)? {
                    if let Some(include) = included[number].filter(|_| flag == "--drop") {
                        let include = escape(include, 200);
                        let error = Error::invalid_argument(format!(
                            "--include '{include}' and {rule} both match it"
                        ));
                        let hint =
                            "narrow one of the two, or pass --exclude to leave out part of what is included";
                        return Err(error.tensor(&tensors[number].name).hint(hint));
                    }
                    removed[number].get_or_insert_with(|| Arc::clone(&rule));
                }
            }
        }
        if !removed.is_empty() && removed.iter().all(Option::is_some) {
            let what = n_of(tensors.len(), "tensor");
            let message = format!("no tensors are left ({what} left out)");
            let hint = if self.drop.is_empty() { "narrow --exclude" } else { "narrow --drop, or --exclude" };
            return Err(Error::invalid_argument(message).hint(hint));
        }
        Ok(removed)
    }
}

/// Fails if only one of two tensors that belong together would be left out.
fn together(tensors: &[Tensor], removed: &[Option<Arc<str>>]) -> Result<()> {
    if removed.iter().all(Option::is_none) {
        return Ok(());
    }
    for (a, b) in companions(tensors) {
        let (gone, rule) = match (&removed[a], &removed[b]) {
            (Some(rule), None) => (a, rule),
            (None, Some(rule)) => (b, rule),
            _ => continue,
        };
        let message = format!("it would be left out ({rule}), but {}", relation(&tensors[a], &tensors[b]));
        return Err(Error::invalid_argument(message)
            .tensor(&tensors[gone].name)
            .hint("include both or neither"));
    }
    Ok(())
}

/// Notes for the summary about tensors that are left out, one line per reason.
pub fn notes<'t>(left: impl Iterator<Item = (&'t str, &'t str)>) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, reason) in left {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let lines = reasons.into_iter().map(|(reason, names)| {
        let shown: Vec<String> = names.iter().take(3).map(|name| escape(name, 120)).collect();
        let more = if names.len() > shown.len() { ", ..." } else { "" };
        format!("left out: {} ({reason}): {}{more}", n_of(names.len(), "tensor"), shown.join(", "))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{DType, Payload};

    fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Tensor {
        Tensor { name: name.to_owned(), dtype, shape: shape.to_vec(), payload: Payload::Sequential }
    }

    fn removed(include: &[&str], exclude: &[&str], drop: &[&str]) -> Result<Vec<String>> {
        let [include, exclude, drop] =
            [include, exclude, drop].map(|patterns| patterns.iter().map(|one| (*one).to_owned()).collect());
        let choice = Choice { include, exclude, drop };
        let tensors = [
            tensor("a.0.w", DType::F32, &[2]),
            tensor("a.1.w", DType::F32, &[2]),
            tensor("q", DType::I8, &[2, 4]),
            tensor("q.scale", DType::F32, &[2]),
        ];
        let removed = tensors.iter().zip(choice.removed(&tensors)?);
        Ok(removed.filter_map(|(tensor, why)| Some(format!("{}: {}", tensor.name, why?))).collect())
    }

    #[test]
    fn what_is_left_out_has_its_reason() {
        assert_eq!(removed(&[], &[], &[]).unwrap(), [""; 0]);
        let dropped = removed(&[], &["a.0*"], &["a.*"]).unwrap();
        assert_eq!(dropped, ["a.0.w: --exclude 'a.0*'", "a.1.w: --drop 'a.*'"]);
        let included = removed(&["a.*", "q*"], &["*.1.w"], &[]).unwrap();
        assert_eq!(included, ["a.1.w: --exclude '*.1.w'"]);
        let included = removed(&["a.0.w"], &[], &["q*"]).unwrap();
        assert_eq!(included[0], "a.1.w: no --include matches it");
        assert_eq!(included.len(), 3);
    }

    #[test]
    fn choices_that_contradict_themselves_are_refused() {
        for (include, exclude, drop, word) in [
            (&["b*"][..], &[][..], &[][..], "--include 'b*' matches no tensor"),
            (&[], &["a.*", "z"], &[], "--exclude 'z' matches no tensor"),
            (&[], &[], &["a.[0"], "is not a valid pattern"),
            (&["a.*"], &[], &["a.1*"], "--include 'a.*' and --drop 'a.1*' both match it"),
            (&[], &["*"], &[], "no tensors are left"),
            (&["q*"], &["q"], &["a*", "q.*"], "both match it"),
            (&[], &["*scale"], &[], "`q.scale` scales the codes of `q`"),
            (&["q"], &[], &[], "`q.scale` scales the codes of `q`"),
            (&[], &[], &["q"], "`q.scale` scales the codes of `q`"),
        ] {
            let error = removed(include, exclude, drop).unwrap_err();
            assert_eq!(error.kind(), apr_sdk::ErrorKind::InvalidArgument);
            assert!(error.message().contains(word), "{word}: {}", error.message());
        }
    }
}
