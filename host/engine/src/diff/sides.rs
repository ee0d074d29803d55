//! Two models side by side: their tensors under common names, in common rows, read a run at a time. Where their dialects
//! differ and a table leads from one to the other, that one is read as the other would have it.

use crate::architecture::forward;
use crate::engine::Engine;
use crate::expression::making::{Making, Piece};
use crate::expression::spool::Spool;
use crate::expression::transcode::{Rows, Transcode};
use crate::expression::work::{Portion, Work};
use crate::open::OpenedModel;
use crate::registry::Registry;
use crate::wording::n_of;
use apr_sdk::manifest::DialectRule;
use apr_sdk::{Error, Extent, Payload, Result, Tensor, escape};
use std::borrow::Cow;
use std::collections::HashSet;

/// One of two models that are compared.
pub struct Side<'a> {
    /// The model as it is.
    pub opened: &'a OpenedModel,
    /// Its tensors, in the common dialect.
    pub tensors: Cow<'a, [Tensor]>,
    /// How each is made of the model's own; `None` if they are those.
    makings: Option<Vec<Making>>,
}

/// Two models.
pub struct Sides<'a> {
    /// The first.
    pub a: Side<'a>,
    /// The second.
    pub b: Side<'a>,
    /// Whether one is read in the other's dialect.
    pub translated: bool,
    /// What both say of their configuration, and differently: the name, a's value, b's value.
    pub differing: Vec<(String, String, String)>,
    /// What was assumed, or left out.
    pub notes: Vec<String>,
}

impl<'a> Sides<'a> {
    /// Both as they are.
    pub fn plain(a: &'a OpenedModel, b: &'a OpenedModel) -> Sides<'a> {
        let (a, b) = (Side::plain(a), Side::plain(b));
        Sides { a, b, translated: false, differing: Vec::new(), notes: Vec::new() }
    }

    /// Both in one dialect, if they are in two and a table leads from one to the other; else as they are, and why.
    ///
    /// # Errors
    /// What reading a model's configuration raises, but for what a table does not know.
    pub fn in_one_dialect(engine: &Engine, a: &'a OpenedModel, b: &'a OpenedModel) -> Result<Sides<'a>> {
        let mut sides = Sides::plain(a, b);
        let known = |opened: &OpenedModel| opened.model.dialect != "none";
        if a.model.dialect == b.model.dialect || !known(a) || !known(b) || same_names(a, b) {
            return Ok(sides);
        }
        // A format that has one dialect only is led to, not from: so values are made as they were when it was written.
        let always = |opened: &OpenedModel| {
            let format = engine.registry.format(&opened.format);
            format.is_ok_and(|format| matches!(format.manifest.dialect, DialectRule::Always(_)))
        };
        let order = if always(a) && !always(b) { [true, false] } else { [false, true] };
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
            (side.tensors, side.makings) = (Cow::Owned(done.tensors), Some(done.makings));
            sides.translated = true;
            let turned = |(name, own, other)| if of_b { (name, other, own) } else { (name, own, other) };
            sides.differing = done.differing.into_iter().map(turned).collect();
            let word = if of_b { "b" } else { "a" };
            let (own, other) = (&from.model.dialect, &to.model.dialect);
            sides.notes.push(format!(
                "{word} is in the dialect `{own}`: its names, rows and values are compared as `{other}` has them"
            ));
            sides.notes.extend(left_out(word, &done.dropped));
            return Ok(sides);
        }
        if let Some(error) = refused {
            let (one, two) = (&a.model.dialect, &b.model.dialect);
            let tensor = error.tensor_name().map(|name| format!(" ({})", escape(name, 120)));
            sides.notes.push(format!(
                "names are in the dialects `{one}` and `{two}`, and compared as they are: {}{}",
                error.message(),
                tensor.unwrap_or_default()
            ));
        }
        Ok(sides)
    }
}

fn same_names(a: &OpenedModel, b: &OpenedModel) -> bool {
    let names = |of: &'_ OpenedModel| -> HashSet<String> {
        of.model.tensors.iter().map(|tensor| tensor.name.clone()).collect()
    };
    a.model.tensors.len() == b.model.tensors.len() && names(a) == names(b)
}

/// A line for each reason why tensors have no counterpart.
fn left_out(word: &str, dropped: &[(String, String)]) -> Vec<String> {
    let mut reasons: Vec<&str> = dropped.iter().map(|(_, reason)| reason.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let line = |reason: &&str| {
        let n = dropped.iter().filter(|(_, r)| r == reason).count();
        format!("not compared: {} of {word} ({reason})", n_of(n, "tensor"))
    };
    reasons.iter().map(line).collect()
}

impl<'a> Side<'a> {
    fn plain(opened: &'a OpenedModel) -> Side<'a> {
        Side { opened, tensors: Cow::Borrowed(&opened.model.tensors), makings: None }
    }

    /// What a tensor is called where it lies: its own name if it is made of one tensor, else the common one.
    pub fn own_name(&self, number: usize) -> &str {
        let common = &self.tensors[number].name;
        let Some(makings) = &self.makings else { return common };
        let mut sources = makings[number].pieces.iter().filter_map(|piece| match piece {
            Piece::Box { tensor, .. } => Some(*tensor),
            Piece::Bytes(_) => None,
        });
        match sources.next() {
            Some(first) if sources.all(|other| other == first) => &self.opened.model.tensors[first].name,
            _ => common,
        }
    }

    /// How a tensor's bytes are made, if they can be had at any offset; `None` for a payload that only comes in order, whose
    /// number in the model is [`Side::in_order`].
    ///
    /// # Errors
    /// Unsupported for a payload that only comes in order and is wanted in another.
    pub fn portions(&self, number: usize, registry: &Registry) -> Result<Option<Vec<Portion>>> {
        let tensor = &self.tensors[number];
        let Some(makings) = &self.makings else {
            if !matches!(tensor.payload, Payload::Extent { .. }) {
                return Ok(None);
            }
            let (work, len) = (Work::new(tensor, number)?, tensor.payload_len()?);
            return Ok(Some(vec![Portion { work, source: Some(number), transcode: None, len }]));
        };
        let sources = &self.opened.model.tensors;
        makings[number].check(tensor, sources)?;
        let mut spool = Spool::default();
        let portions = makings[number].portions(tensor, sources, &mut spool, registry)?;
        let streamed = |portion: &Portion| matches!(portion.work, Work::Decode { .. } | Work::Stream { .. });
        if spool.len == 0 && !portions.iter().any(streamed) {
            return Ok(Some(portions));
        }
        match self.in_order(number) {
            Some(_) => Ok(None),
            None => {
                let message =
                    "its payload only comes in order, and its rows lie in another in the other model";
                let hint = "convert this model to one that is not compressed, and compare that";
                Err(Error::unsupported(message).tensor(self.own_name(number)).hint(hint))
            }
        }
    }

    /// The number in the model of the tensor whose payload is this one's as it is.
    pub fn in_order(&self, number: usize) -> Option<usize> {
        let Some(makings) = &self.makings else { return Some(number) };
        let making = &makings[number];
        match &making.pieces[..] {
            [Piece::Box { tensor, .. }] => {
                let copy = Making::copy(*tensor, &self.opened.model.tensors[*tensor]).ok()?;
                let same = copy.pieces == making.pieces && making.add.is_none();
                (same && making.source_dtype == self.tensors[number].dtype).then_some(*tensor)
            }
            _ => None,
        }
    }

    /// Fills `out` with the bytes at `at` of a tensor, whole elements of it.
    ///
    /// # Errors
    /// What reading raises, with the file as the user typed it and the tensor.
    pub fn fill(&self, number: usize, portions: &[Portion], at: u64, out: &mut [u8]) -> Result<()> {
        let read = |e: Extent, out: &mut [u8]| self.opened.files.read_at(e.file, e.offset, out);
        let placed = |e: Error| self.opened.files.show(e.tensor(self.own_name(number)));
        let place = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (mut start, end) = (0u64, at + out.len() as u64);
        for portion in portions {
            let (from, to) = (start.max(at), (start + portion.len).min(end));
            let begin = start;
            start += portion.len;
            if from >= to {
                continue;
            }
            let part = out.get_mut(place(from - at)..place(to - at)).unwrap_or_default();
            let within = from - begin;
            match &portion.transcode {
                None => drop(portion.work.fill(&read, within, part).map_err(placed)?),
                Some(transcode) => {
                    let mut before = vec![0; place(transcode.before(to - from))];
                    portion.work.fill(&read, transcode.before(within), &mut before).map_err(placed)?;
                    transcode.apply(&before, (within, part), &mut Rows::default()).map_err(placed)?;
                }
            }
        }
        Ok(())
    }
}

/// The most memory that a thread needs to fill a run of these, beside the run itself.
pub fn memory(portions: &[Portion]) -> u64 {
    let each = |portion: &Portion| {
        let gather = if matches!(portion.work, Work::Gather(_)) {
            crate::expression::gather::Gather::STRIP
        } else {
            0
        };
        gather + portion.transcode.as_deref().map_or(0, Transcode::memory)
    };
    portions.iter().map(each).max().unwrap_or(0)
}
