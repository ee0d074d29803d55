//! Tensors of the source that stand for several of the table's: what they stand for takes their place during the
//! translation, and boxes of it become boxes of them afterwards.

use super::passage::{Made, Passage};
use super::places::find_rule;
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::Stacked;
use apr_sdk::{Error, Payload, Result, Tensor};

/// More experts than any model has.
const MOST_ITEMS: u64 = 1 << 16;

/// The source's tensors, those that stand for others replaced.
pub(super) struct Stacks {
    /// The tensors under the table's own names.
    pub tensors: Vec<Tensor>,
    /// The tensors under the source's names: what is replaced has the name of what it is part of.
    pub called: Vec<Tensor>,
    /// For each, the index of the source's tensor, and of the first unit there.
    origins: Vec<(usize, u64)>,
}

impl Stacks {
    /// The tensors of a passage; `None` if none stands for others, or if the target's names are the table's own, so that a
    /// file's names stay.
    ///
    /// # Errors
    /// Malformed for a tensor whose shape cannot be divided; any error from conditions.
    pub fn find(passage: &Passage<'_>) -> Result<Option<Stacks>> {
        let dialect = passage.table.dialect(passage.from);
        let Some(dialect) = dialect.filter(|dialect| !dialect.stacked.is_empty()) else { return Ok(None) };
        if passage.table.is_own(passage.to) {
            return Ok(None);
        }
        let entries: Vec<Option<(&Stacked, Vec<u64>)>> = passage
            .tensors
            .iter()
            .map(|tensor| entry(passage, &dialect.stacked, tensor))
            .collect::<Result<_>>()?;
        if entries.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut stacks = Stacks { tensors: Vec::new(), called: Vec::new(), origins: Vec::new() };
        for (number, entry) in entries.into_iter().enumerate() {
            let (tensor, called) = (&passage.tensors[number], &passage.called[number]);
            match entry {
                Some((stacked, numbers)) => stacks.divide(stacked, &numbers, number, called)?,
                None => stacks.push(tensor.clone(), called.clone(), (number, 0)),
            }
        }
        Ok(Some(stacks))
    }

    fn push(&mut self, tensor: Tensor, called: Tensor, origin: (usize, u64)) {
        self.tensors.push(tensor);
        self.called.push(called);
        self.origins.push(origin);
    }

    /// Adds what a tensor stands for.
    fn divide(&mut self, stacked: &Stacked, numbers: &[u64], number: usize, called: &Tensor) -> Result<()> {
        let wrong = |what: &str| Error::malformed(what.to_owned()).tensor(&called.name);
        let n_parts = stacked.of.len() as u64;
        let (n_items, rows, rest) = match &called.shape[..] {
            [items, rows, rest @ ..] => (*items, *rows, rest),
            _ => {
                return Err(wrong(
                    "it holds the tensors of all experts and so requires two dimensions or more",
                ));
            }
        };
        if rows % n_parts != 0 || n_items > MOST_ITEMS {
            let shape = &called.shape;
            return Err(wrong(&format!(
                "its shape is {shape:?}, which does not hold {n_parts} tensors for each expert"
            )));
        }
        let mut shape = vec![rows / n_parts];
        shape.extend_from_slice(rest);
        let part = Tensor { name: String::new(), dtype: called.dtype, shape, payload: Payload::Sequential };
        let info = called.dtype.require()?;
        let units = part.payload_len()? / u64::from(info.block_bytes).max(1);
        for item in 0..n_items {
            for (n, pattern) in (0u64..).zip(&stacked.of) {
                let own = Tensor { name: part_name(stacked, pattern, numbers, item), ..part.clone() };
                let called = Tensor { name: called.name.clone(), ..part.clone() };
                self.push(own, called, (number, (item * n_parts + n) * units));
            }
        }
        Ok(())
    }

    /// Makes boxes of what was replaced boxes of the source's tensors.
    pub fn restore(&self, tensors: &mut [Made]) {
        for part in tensors.iter_mut().flat_map(|made| &mut made.boxes) {
            if let Some(&(number, start)) = part.tensor.and_then(|own| self.origins.get(own)) {
                part.tensor = Some(number);
                part.start += start;
            }
        }
    }
}

/// The entry for a tensor that no rule knows under its name but whose parts one does, with the numbers in its name.
fn entry<'a>(
    passage: &Passage<'_>,
    stacked: &'a [Stacked],
    tensor: &Tensor,
) -> Result<Option<(&'a Stacked, Vec<u64>)>> {
    let mut entries = stacked.iter().filter_map(|entry| Some((entry, entry.name.numbers(&tensor.name)?)));
    let Some((entry, numbers)) = entries.next() else { return Ok(None) };
    let first = part_name(entry, &entry.of[0], &numbers, 0);
    let stands = find_rule(passage, &tensor.name)?.is_none() && find_rule(passage, &first)?.is_some();
    Ok(stands.then_some((entry, numbers)))
}

/// The name of one of the tensors that a stacked one stands for, whose name has these numbers.
fn part_name(stacked: &Stacked, part: &Pattern, numbers: &[u64], item: u64) -> String {
    part.name(|place| match stacked.name.places().iter().position(|own| own == place) {
        Some(at) => numbers.get(at).copied().unwrap_or_default(),
        None => item,
    })
}
