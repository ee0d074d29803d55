//! Tensors that consist of another's rows for some tokens.

use super::passage::{Made, Passage, TokenIds};
use super::places::Group;
use crate::architecture::language::array::Box_;
use crate::architecture::language::change::Change;
use crate::architecture::table::Rule;
use apr_sdk::{Error, Result, escape};
use std::collections::BTreeMap;

/// The numbers of tokens, all of which a model must have.
///
/// # Errors
/// Unsupported, naming the first that it lacks.
pub(in crate::architecture) fn ids_of(tokens: &[String], ids: TokenIds<'_>) -> Result<Vec<u64>> {
    let all = tokens.iter().map(|token| {
        ids(token)?.ok_or_else(|| {
            let token = escape(token, 80);
            Error::unsupported(format!(
                "it consists of the rows of tokens, and the model's tokenizer has no `{token}`"
            ))
        })
    });
    all.collect()
}

/// The tensor `name` of a rule: the rows that the tensor `of` has for `tokens`.
///
/// # Errors
/// Unsupported for a token that the model lacks; Malformed if there is no such tensor, or no such row.
pub(super) fn rows_of<K>(
    passage: &Passage<'_>,
    rule: &Rule,
    name: &str,
    of: &str,
    tokens: &[String],
    groups: &BTreeMap<(usize, K), Group>,
) -> Result<Made> {
    let of_rule = |number: usize| passage.table.rules[number].members.iter().any(|own| own.text() == of);
    let mut sources = groups.iter().filter(|((number, _), _)| of_rule(*number));
    let source = sources.find_map(|(_, group)| group.found.values().next());
    let Some(&source) = source else {
        let message = format!("it consists of rows of `{}`, which is missing", escape(of, 120));
        return Err(Error::malformed(message));
    };
    let tensor = &passage.tensors[source];
    let info = tensor.dtype.require()?;
    let [rows, rest @ ..] = &tensor.shape[..] else {
        return Err(Error::malformed("it has no rows").tensor(&tensor.name));
    };
    let units = rest.iter().product::<u64>() / u64::from(info.block_elements).max(1);
    let mut boxes = Vec::with_capacity(tokens.len());
    for id in ids_of(tokens, passage.tokens)? {
        if id >= *rows {
            let message = format!("it has {rows} rows, and none for token {id}");
            return Err(Error::malformed(message).tensor(&tensor.name));
        }
        let start = id.saturating_mul(units);
        boxes.push(Box_ { tensor: Some(source), start, dims: vec![(units, 1)], change: Change::default() });
    }
    let shape = [&[boxes.len() as u64], rest].concat();
    let made = Made::new(name.to_owned(), tensor.dtype, shape, rule);
    Ok(Made { boxes, words: vec!["rows"], ..made })
}
