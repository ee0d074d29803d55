//! Two models side by side: their tensors under common names and with common row orders, readable in runs. If
//! their dialects differ and a table translates one into the other, that one is read in the other's dialect.

use crate::architecture::forward;
use crate::engine::Engine;
use crate::expression::gather::Gather;
use crate::expression::{Access, Expression, Granule, PlannedTensor};
use crate::open::OpenedModel;
use crate::registry::Registry;
use crate::wording::n_of;
use apr_sdk::manifest::DialectRule;
use apr_sdk::{DType, DTypeKind, Error, Extent, Result, Tensor, escape};
use std::collections::{HashMap, HashSet};

/// Two tensors of the same shape, by their indices.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Index in model a.
    pub a: usize,
    /// Index in model b.
    pub b: usize,
}

/// One of two models to compare.
pub struct Side<'a> {
    /// The model, untranslated.
    pub opened: &'a OpenedModel,
    /// Its tensors in the common dialect; `None` if they are the model's own.
    translated: Option<Vec<PlannedTensor>>,
    /// Packed tensors whose values are read in the type of their counterparts.
    unpacked: HashMap<usize, PlannedTensor>,
}

/// Two models to compare.
pub struct Sides<'a> {
    /// The first model.
    pub a: Side<'a>,
    /// The second model.
    pub b: Side<'a>,
    /// True if one is read in the other's dialect.
    pub translated: bool,
    /// Configuration values that both state, but differently: (name, a's value, b's value).
    pub differing: Vec<(String, String, String)>,
    /// Assumptions, and content that was left out.
    pub notes: Vec<String>,
}

impl<'a> Sides<'a> {
    /// Both models, untranslated.
    pub fn plain(a: &'a OpenedModel, b: &'a OpenedModel) -> Sides<'a> {
        let a = Side::plain(a);
        Sides { a, b: Side::plain(b), translated: false, differing: Vec::new(), notes: Vec::new() }
    }

    /// Both models in one dialect, if they have two and a table translates one into the other; otherwise
    /// untranslated, with the reason.
    ///
    /// # Errors
    /// Any error from reading a model's configuration, except for what a table does not know.
    pub fn in_one_dialect(engine: &Engine, a: &'a OpenedModel, b: &'a OpenedModel) -> Result<Sides<'a>> {
        let mut sides = Sides::plain(a, b);
        let is_known = a.model.dialect != "none" && b.model.dialect != "none";
        if a.model.dialect == b.model.dialect || !is_known || same_names(a, b) {
            return Ok(sides);
        }
        // Translate into the dialect of a format that has only one, not from it: values are then computed as
        // when it was written.
        let always = [a, b].map(|opened| {
            let format = engine.registry.format(&opened.format);
            format.is_ok_and(|format| matches!(format.manifest.dialect, DialectRule::Always(_)))
        });
        let order = if always == [true, false] { [true, false] } else { [false, true] };
        let mut refused = None;
        for of_b in order {
            let (from, to) = if of_b { (b, a) } else { (a, b) };
            let done = match forward(engine, from, &to.model) {
                Ok(done) => done,
                Err(error) if error.kind() == apr_sdk::ErrorKind::Cancelled => return Err(error),
                Err(error) => {
                    refused.get_or_insert(error);
                    continue;
                }
            };
            let side = if of_b { &mut sides.b } else { &mut sides.a };
            side.translated = Some(done.tensors);
            sides.translated = true;
            sides.differing = done.differing;
            if of_b {
                for (_, own, other) in &mut sides.differing {
                    std::mem::swap(own, other);
                }
            }
            let word = if of_b { "b" } else { "a" };
            let [own, other] = [from, to].map(|of| &of.model.dialect);
            sides.notes.push(format!(
                "{word} is in the dialect `{own}`: its names, rows and values are compared in the dialect \
                 `{other}`"
            ));
            sides.notes.extend(left_out(word, &done.dropped));
            return Ok(sides);
        }
        if let Some(error) = refused {
            let [one, two] = [a, b].map(|of| &of.model.dialect);
            let tensor = error.tensor_name().map(|name| format!(" ({})", escape(name, 120)));
            sides.notes.push(format!(
                "names are in the dialects `{one}` and `{two}` and are compared without translation: {}{}",
                error.message(),
                tensor.unwrap_or_default()
            ));
        }
        Ok(sides)
    }

    /// Reads two packed tensors in F32: rounded to the type that they were packed from, unequal values may be the same.
    fn unpack_both(&mut self, registry: &Registry, pair: Pair) -> Result<()> {
        let expressions = [self.a.expression(pair.a)?, self.b.expression(pair.b)?];
        if !expressions.iter().all(is_unpacked) {
            return Ok(());
        }
        let sides = [(&mut self.a, pair.a), (&mut self.b, pair.b)];
        for ((side, number), expression) in sides.into_iter().zip(expressions) {
            let mut unpacked = PlannedTensor::new(side.tensor(number).clone(), expression);
            unpacked.retype(DType::F32, registry);
            side.unpacked.insert(number, unpacked);
        }
        Ok(())
    }

    /// Reads packed tensors in the types of the floats that they are compared with: their values are stored in none.
    ///
    /// # Errors
    /// Unsupported for an unknown kind of payload.
    pub(super) fn unpack_alike(&mut self, registry: &Registry, pairs: &[Pair]) -> Result<()> {
        for pair in pairs {
            let [left, right] = [self.a.tensor(pair.a).dtype, self.b.tensor(pair.b).dtype];
            if left == right {
                self.unpack_both(registry, *pair)?;
                continue;
            }
            for (side, number, to) in [(&mut self.a, pair.a, right), (&mut self.b, pair.b, left)] {
                let expression = side.expression(number)?;
                let is_float = to.info().is_some_and(|info| info.kind == DTypeKind::Float) && !to.is_block();
                if is_float && is_unpacked(&expression) {
                    let mut unpacked = PlannedTensor::new(side.tensor(number).clone(), expression);
                    unpacked.retype(to, registry);
                    side.unpacked.insert(number, unpacked);
                    break;
                }
            }
        }
        Ok(())
    }
}

fn same_names(a: &OpenedModel, b: &OpenedModel) -> bool {
    a.model.tensors.len() == b.model.tensors.len() && names(a) == names(b)
}

fn names(of: &OpenedModel) -> HashSet<&str> {
    of.model.tensors.iter().map(|tensor| tensor.name.as_str()).collect()
}

/// One line for each reason why tensors have no counterpart.
fn left_out(word: &str, dropped: &[(String, String)]) -> Vec<String> {
    let mut reasons: Vec<&str> = dropped.iter().map(|(_, reason)| reason.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let lines = reasons.into_iter().map(|reason| {
        let n = dropped.iter().filter(|(_, r)| r == reason).count();
        format!("not compared: {} of {word} ({reason})", n_of(n, "tensor"))
    });
    lines.collect()
}

impl<'a> Side<'a> {
    fn plain(opened: &'a OpenedModel) -> Side<'a> {
        Side { opened, translated: None, unpacked: HashMap::new() }
    }

    /// Returns whether it is read as the other's dialect has it.
    pub fn is_translated(&self) -> bool {
        self.translated.is_some()
    }

    /// Returns whether a packed tensor is read in another type than it is listed with.
    pub fn is_retyped(&self, number: usize) -> bool {
        self.unpacked.contains_key(&number)
    }

    /// A tensor in the common dialect, in the type that it is compared in.
    pub fn tensor(&self, number: usize) -> &Tensor {
        self.unpacked.get(&number).map_or_else(|| self.listed(number), |unpacked| &unpacked.tensor)
    }

    /// A tensor in the common dialect, in the type that its model lists it with.
    pub fn listed(&self, number: usize) -> &Tensor {
        match &self.translated {
            Some(tensors) => &tensors[number].tensor,
            None => &self.opened.model.tensors[number],
        }
    }

    /// The number of tensors in the common dialect.
    pub fn n_tensors(&self) -> usize {
        self.translated.as_ref().map_or(self.opened.model.tensors.len(), Vec::len)
    }

    /// All tensors in the common dialect.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        (0..self.n_tensors()).map(|number| self.tensor(number))
    }

    /// The tensor's name in its file if it comes from one tensor, otherwise the common name.
    pub fn own_name(&self, number: usize) -> &str {
        let common = &self.tensor(number).name;
        let Some(translated) = &self.translated else { return common };
        let mut sources = Vec::new();
        translated[number].expression.sources(&mut |source| sources.extend(source.tensor));
        match sources.split_first() {
            Some((first, rest)) if rest.iter().all(|other| other == first) => {
                &self.opened.model.tensors[*first].name
            }
            _ => common,
        }
    }

    /// The expression that computes a tensor.
    ///
    /// # Errors
    /// Unsupported for an unknown kind of payload.
    fn expression(&self, number: usize) -> Result<Expression> {
        match (self.unpacked.get(&number), &self.translated) {
            (Some(unpacked), _) => Ok(unpacked.expression.clone()),
            (None, Some(tensors)) => Ok(tensors[number].expression.clone()),
            (None, None) => Expression::of(number, &self.opened.model.tensors[number]),
        }
    }

    /// The expression that computes a tensor, if its bytes are available at any offset; `None` for sequential
    /// payload, whose index in the model is [`Side::in_order`].
    ///
    /// # Errors
    /// Unsupported for sequential payload that is needed in another order.
    pub fn random(&self, number: usize, registry: &Registry) -> Result<Option<Expression>> {
        let expression = self.expression(number)?;
        expression.check(self.tensor(number), registry)?;
        if expression.is_random()? {
            return Ok(Some(expression));
        }
        match self.in_order(number) {
            Some(_) => Ok(None),
            None => {
                let message = "its payload can only be read sequentially, and its rows are in a different \
                               order in the other model";
                let hint = "convert this model to an uncompressed file and compare that";
                Err(Error::unsupported(message).tensor(self.own_name(number)).hint(hint))
            }
        }
    }

    /// The index in the model of the tensor whose payload is this one's, unchanged.
    pub fn in_order(&self, number: usize) -> Option<usize> {
        let Some(translated) = &self.translated else { return Some(number) };
        let expression = &translated[number].expression;
        let tensor = expression.is_leaf().then(|| expression.source_tensor()).flatten()?;
        let whole = Expression::of(tensor, self.opened.model.tensors.get(tensor)?).ok()?;
        (*expression == whole).then_some(tensor)
    }

    /// Fills `out` with the bytes at offset `at` of a tensor, whole elements of it.
    ///
    /// # Errors
    /// Any error from reading, with the file as the user typed it and the tensor.
    pub fn fill(
        &self,
        engine: &Engine,
        number: usize,
        expression: &Expression,
        at: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let read = |extent: Extent, out: &mut [u8]| self.opened.read_at(engine, extent, out);
        let filled = expression.fill_at(&engine.registry, &read, at, out);
        filled.map_err(|e: Error| self.opened.files.show(e.tensor(self.own_name(number))))
    }
}

/// Returns whether any part of it is gathered from many places.
pub fn is_gathered(expression: &Expression) -> bool {
    expression.parts().iter().any(|part| matches!(part.access(), Ok(Access::Gather(_))))
}

/// Whether any part of it is unpacked.
fn is_unpacked(expression: &Expression) -> bool {
    expression.parts().iter().any(|part| matches!(part.access(), Ok(Access::Unpack(_))))
}

/// The most memory that a thread needs to fill a run, besides the run itself.
pub fn memory(expression: &Expression) -> u64 {
    let each = expression.parts().iter().map(|part| {
        let reading = match part.access() {
            Ok(Access::Gather(_)) => Gather::STRIP,
            // Rows of packed weights are not shared here.
            Ok(access @ Access::Unpack(_)) => access.memory().saturating_add(access.shared(1)),
            _ => 0,
        };
        let changing =
            if part.is_leaf() { 0 } else { Granule::of(part).map_or(0, |granule| granule.memory()) };
        reading.saturating_add(changing)
    });
    each.max().unwrap_or(0)
}
