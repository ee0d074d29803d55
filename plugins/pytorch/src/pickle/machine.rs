//! The pickle interpreter: a stack, a memo, and the opcodes of protocols 0 to 5. It rebuilds tensors and
//! plain containers as inert records, and has no means of running anything.

use super::allow_list::{self, Global};
use super::decoder::{Decoder, Step};
use super::persistent::Persistent;
use super::value::{Arena, Dict, DictKind, Id, Node, Span};
use super::{left_out, text};
use apr_sdk::{Cursor, Error, Result, escape};
use std::collections::HashMap;

/// What every refusal of a call ends with.
pub const NOTHING: &str = "nothing was executed";

/// What a place on the stack costs.
const SLOT_COST: u64 = 8;
/// What a mark costs: more than the byte that sets it earns, since a compressed pickle may be nothing but marks.
const MARK_COST: u64 = 32;

/// What may stand in a pickle, besides plain values.
#[derive(Clone, Copy)]
pub struct Rules<'p> {
    /// Whether classes of TorchScript (`__torch__.…`) stand for records.
    pub script: bool,
    /// What persistent ids are.
    pub persistent: Persistent<'p>,
}

/// A pickle being read.
pub struct Machine<'m, 'c, 's> {
    pub(super) decoder: Decoder<'c, 's>,
    pub(super) arena: &'m mut Arena,
    pub(super) rules: Rules<'m>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    /// The memo's places in the order in which pickles number them.
    dense: Vec<Id>,
    /// The others.
    sparse: HashMap<i64, Id>,
}

/// Reads one pickle into the arena, up to its STOP; gives its value.
///
/// # Errors
/// Malformed for what is no pickle; Unsupported for what a pickle names and this machine does not know, with the name,
/// the offset and that nothing was executed; LimitExceeded.
pub fn run(cursor: &mut Cursor<'_>, arena: &mut Arena, rules: Rules<'_>) -> Result<Id> {
    let mut machine = Machine {
        decoder: Decoder::new(cursor),
        arena,
        rules,
        stack: Vec::new(),
        marks: Vec::new(),
        dense: Vec::new(),
        sparse: HashMap::new(),
    };
    loop {
        let step = machine.decoder.step()?;
        if step.opcode.code == b'.' {
            return machine.pop(&step);
        }
        machine.apply(&step).map_err(|e| machine.decoder.place(e, step.at))?;
    }
}

impl Machine<'_, '_, '_> {
    /// Carries out one opcode; [`super::operations`] has those of containers and calls.
    fn apply(&mut self, step: &Step) -> Result<()> {
        match step.opcode.code {
            b'(' => {
                self.charge(MARK_COST)?;
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop_any(step),
            b'1' => self.pop_mark(step).map(drop),
            b'2' => {
                let top = self.top(step)?;
                self.push(top)
            }
            b'N' => self.push_node(Node::None),
            0x88 => self.push_node(Node::Bool(true)),
            0x89 => self.push_node(Node::Bool(false)),
            b'J' | b'K' | b'M' => self.push_node(Node::Int(step.number)),
            b'G' => self.push_node(Node::Float(step.float)),
            b'I' | b'L' | b'F' => self.number_line(step),
            0x8a | 0x8b => self.long(),
            b'X' | 0x8c | 0x8d => {
                let bytes = std::mem::take(&mut self.decoder.bytes);
                let pushed = self.push_text(&bytes);
                self.decoder.bytes = bytes;
                pushed
            }
            b'V' => {
                let decoded = text::raw_unicode_escape(&self.decoder.bytes)?;
                self.push_text(decoded.as_bytes())
            }
            // Python 2 wrote its strings so: text where it is UTF-8, bytes otherwise.
            b'S' => {
                let decoded = text::quoted(&self.decoder.bytes)?;
                self.push_string(&decoded)
            }
            b'T' | b'U' => {
                let bytes = std::mem::take(&mut self.decoder.bytes);
                let pushed = self.push_string(&bytes);
                self.decoder.bytes = bytes;
                pushed
            }
            b'B' | b'C' | 0x8e | 0x96 => {
                let bytes = std::mem::take(&mut self.decoder.bytes);
                let span = self.store(&bytes)?;
                self.decoder.bytes = bytes;
                self.push_node(Node::Bytes(span))
            }
            b'c' => {
                let (module, name) = (self.line_text(false)?, self.line_text(true)?);
                self.global(step, &module, &name)
            }
            0x93 => self.stack_global(step),
            b'h' | b'j' => self.get(step, step.number),
            b'g' => {
                let number = self.place_line()?;
                self.get(step, number)
            }
            b'q' | b'r' => self.put(step, step.number),
            b'p' => {
                let number = self.place_line()?;
                self.put(step, number)
            }
            0x94 => {
                let number = i64::try_from(self.dense.len() + self.sparse.len()).unwrap_or(i64::MAX);
                self.put(step, number)
            }
            0x80 => match step.number {
                0..=5 => Ok(()),
                other => {
                    Err(Error::unsupported(format!("pickle protocol {other} is not supported, only 0 to 5")))
                }
            },
            0x95 => {
                let left = self.decoder.cursor().left();
                let len = u64::try_from(step.number).unwrap_or(u64::MAX);
                if len <= left {
                    return Ok(());
                }
                Err(Error::malformed(format!("a frame of {len} bytes, but only {left} are left")))
            }
            _ => self.operate(step),
        }
    }

    pub(super) fn charge(&self, cost: u64) -> Result<()> {
        self.decoder.limits().budget.charge(cost)
    }

    pub(super) fn push(&mut self, id: Id) -> Result<()> {
        self.charge(SLOT_COST)?;
        self.stack.push(id);
        Ok(())
    }

    pub(super) fn make(&mut self, node: Node) -> Result<Id> {
        let budget = &self.decoder.cursor().limits().budget;
        self.arena.push(node, budget)
    }

    pub(super) fn push_node(&mut self, node: Node) -> Result<()> {
        let id = self.make(node)?;
        self.push(id)
    }

    pub(super) fn store(&mut self, bytes: &[u8]) -> Result<Span> {
        let budget = &self.decoder.cursor().limits().budget;
        self.arena.store(bytes, budget)
    }

    pub(super) fn push_text(&mut self, bytes: &[u8]) -> Result<()> {
        if std::str::from_utf8(bytes).is_err() {
            return Err(Error::malformed("a string in the pickle is not valid UTF-8"));
        }
        let span = self.store(bytes)?;
        self.push_node(Node::Text(span))
    }

    fn push_string(&mut self, bytes: &[u8]) -> Result<()> {
        if std::str::from_utf8(bytes).is_ok() {
            return self.push_text(bytes);
        }
        let span = self.store(bytes)?;
        self.push_node(Node::Bytes(span))
    }

    /// What is refused for want of operands.
    #[cold]
    fn empty(&self, step: &Step) -> Error {
        Error::malformed(format!("stack underflow in {}: {NOTHING}", step.opcode.name)).at(step.at)
    }

    /// The lowest place of the stack that belongs to the innermost mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    pub(super) fn pop(&mut self, step: &Step) -> Result<Id> {
        if self.stack.len() <= self.floor() {
            return Err(self.decoder.place(self.empty(step), step.at));
        }
        self.stack.pop().ok_or_else(|| self.empty(step))
    }

    pub(super) fn top(&self, step: &Step) -> Result<Id> {
        if self.stack.len() <= self.floor() {
            return Err(self.empty(step));
        }
        self.stack.last().copied().ok_or_else(|| self.empty(step))
    }

    /// POP takes a value, or the mark on top.
    fn pop_any(&mut self, step: &Step) -> Result<()> {
        if !self.marks.is_empty() && self.stack.len() == self.floor() {
            self.marks.pop();
            return Ok(());
        }
        self.pop(step).map(drop)
    }

    /// The values above the innermost mark, which goes too.
    pub(super) fn pop_mark(&mut self, step: &Step) -> Result<Vec<Id>> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(self.stack.split_off(mark)),
            _ => Err(Error::malformed(format!("{} without a mark: {NOTHING}", step.opcode.name))),
        }
    }

    fn get(&mut self, step: &Step, number: i64) -> Result<()> {
        let dense = usize::try_from(number).ok().and_then(|n| self.dense.get(n)).copied();
        let id = dense.or_else(|| self.sparse.get(&number).copied());
        let id = id.ok_or_else(|| {
            Error::malformed(format!("{} of memo index {number}, which is not set", step.opcode.name))
        })?;
        self.push(id)
    }

    fn put(&mut self, step: &Step, number: i64) -> Result<()> {
        let id = self.top(step)?;
        let place = usize::try_from(number).map_err(|_| Error::malformed("negative memo index"))?;
        if let Some(slot) = self.dense.get_mut(place) {
            *slot = id;
        } else if place == self.dense.len() && !self.sparse.contains_key(&number) {
            self.charge(SLOT_COST)?;
            self.dense.push(id);
        } else {
            // 48 bytes: a map's entry with the room it keeps free.
            self.charge(48)?;
            self.sparse.insert(number, id);
        }
        Ok(())
    }

    fn place_line(&self) -> Result<i64> {
        let line = text::ascii(&self.decoder.bytes)?;
        line.trim()
            .parse()
            .map_err(|_| Error::malformed(format!("`{}` is not a memo index", escape(line, 40))))
    }

    fn number_line(&mut self, step: &Step) -> Result<()> {
        let line = text::ascii(&self.decoder.bytes)?.trim();
        let odd = || Error::malformed(format!("`{}` is not a number", escape(line, 40)));
        let node = match (step.opcode.code, line) {
            (b'I', "01") => Node::Bool(true),
            (b'I', "00") => Node::Bool(false),
            (b'F', _) => Node::Float(line.parse().map_err(|_| odd())?),
            _ => {
                let digits = line.strip_suffix('L').unwrap_or(line);
                if !digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(odd());
                }
                match digits.parse() {
                    Ok(number) => Node::Int(number),
                    Err(_) => {
                        let long = text::long_number(digits)?;
                        Node::Big(self.store(&long)?)
                    }
                }
            }
        };
        self.push_node(node)
    }

    /// LONG1 and LONG4: two's complement, least significant byte first.
    fn long(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.decoder.bytes);
        let node = if bytes.len() <= 8 {
            let fill = if bytes.last().is_some_and(|&b| b >= 0x80) { 0xff } else { 0 };
            let mut raw = [fill; 8];
            raw[..bytes.len()].copy_from_slice(&bytes);
            Node::Int(i64::from_le_bytes(raw))
        } else {
            Node::Big(self.store(&bytes)?)
        };
        self.decoder.bytes = bytes;
        self.push_node(node)
    }

    fn line_text(&self, second: bool) -> Result<String> {
        let bytes = if second { &self.decoder.second } else { &self.decoder.bytes };
        // A name that is no text cannot be on the list; it is shown as well as it can be.
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    fn stack_global(&mut self, step: &Step) -> Result<()> {
        let (name, module) = (self.pop(step)?, self.pop(step)?);
        let (Some(module), Some(name)) = (self.arena.text_of(module), self.arena.text_of(name)) else {
            let what = (self.arena.what(module), self.arena.what(name));
            let message =
                format!("STACK_GLOBAL of {} and {}, expected two strings: {NOTHING}", what.0, what.1);
            return Err(Error::malformed(message));
        };
        let (module, name) = (module.to_owned(), name.to_owned());
        self.global(step, &module, &name)
    }

    fn global(&mut self, step: &Step, module: &str, name: &str) -> Result<()> {
        if let Some(global) = allow_list::find(module, name) {
            let script_only = matches!(global, Global::ScriptList | Global::TypeTag);
            if self.rules.script || !script_only {
                return self.push_node(Node::Global(global));
            }
        }
        if self.rules.script && (module == "__torch__" || module.starts_with("__torch__.")) {
            let span = self.store(format!("{module}.{name}").as_bytes())?;
            return self.push_node(Node::Class(span));
        }
        if left_out::may_be(module, name) {
            let node = self.unknown(step.at, module, name)?;
            return self.push_node(node);
        }
        Err(refused(step, module, name))
    }

    /// A map that holds nothing yet.
    pub(super) fn push_dict(&mut self, kind: DictKind) -> Result<()> {
        self.charge(64)?;
        self.push_node(Node::Dict(Box::new(Dict { kind, ..Dict::default() })))
    }
}

/// What is said of a name that is not on the list.
#[cold]
pub fn refused(step: &Step, module: &str, name: &str) -> Error {
    let (module, name) = (escape(module, 120), escape(name, 120));
    let message = format!(
        "the pickle refers to `{module}.{name}` ({}), which creates neither a tensor nor a plain value: \
         {NOTHING}",
        step.opcode.name
    );
    Error::unsupported(message).hint(
        "run `apr scan FILE` to list everything it would import and call; if you trust it, load it in \
         Python and save only its tensors: `torch.save(model.state_dict(), OUT)`",
    )
}
