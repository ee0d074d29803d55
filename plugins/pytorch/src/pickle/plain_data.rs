//! Harmless values that programs save along with their tensors, read as data: a namespace becomes a map, a
//! NumPy scalar a number, a path or a date text. Nothing in the named classes is imported, let alone called.

use super::allow_list::Global;
use super::decoder::Step;
use super::machine::Machine;
use super::numpy::NumpyType;
use super::value::{DictKind, Id, Node};
use apr_sdk::{Error, Result};

/// How the arguments of a class become data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An object of attributes, or a map of its own class: a map.
    Object,
    /// What is made from one text: that text.
    Text,
    /// A path from its parts, with this between them.
    Path(char),
    /// `deque(items, maxlen)`: a list.
    List,
    /// `range(start, stop, step)` and `slice`: a tuple.
    Tuple,
    /// `date`, `time`, `datetime`, by the number of their bytes: text as ISO 8601 has it.
    Moment(usize),
    /// `timedelta(days, seconds, microseconds)`: seconds.
    Duration,
    /// `timezone(timedelta)`: `+02:00`.
    Zone,
    /// `numpy.dtype(code, ..)`.
    NumpyType,
    /// NumPy's `scalar(dtype, bytes)`: a number or text.
    NumpyScalar,
    /// `numpy.ndarray`, which only [`Shape::NumpyMake`] uses.
    NumpyArray,
    /// NumPy's `_reconstruct(ndarray, ..)`: an array yet without values.
    NumpyMake,
}

/// A class of plain values.
#[derive(Debug, PartialEq, Eq)]
pub struct Class {
    /// The module of the class, such as `argparse`.
    pub module: &'static str,
    /// The name of the class, such as `Namespace`.
    pub name: &'static str,
    /// What it becomes.
    pub shape: Shape,
}

const fn class(module: &'static str, name: &'static str, shape: Shape) -> Class {
    Class { module, name, shape }
}

/// All of them. Modules of Python 2 and of NumPy before 2 have their own lines.
#[rustfmt::skip] // a table
static CLASSES: [Class; 38] = [
    class("argparse", "Namespace", Shape::Object),
    class("types", "SimpleNamespace", Shape::Object),
    class("pytorch_lightning.utilities.parsing", "AttributeDict", Shape::Object),
    class("lightning_fabric.utilities.data", "AttributeDict", Shape::Object),
    class("lightning.fabric.utilities.data", "AttributeDict", Shape::Object),
    class("torch.torch_version", "TorchVersion", Shape::Text),
    class("decimal", "Decimal", Shape::Text),
    class("fractions", "Fraction", Shape::Text),
    class("pathlib", "Path", Shape::Path('/')),
    class("pathlib", "PurePath", Shape::Path('/')),
    class("pathlib", "PosixPath", Shape::Path('/')),
    class("pathlib", "PurePosixPath", Shape::Path('/')),
    class("pathlib", "WindowsPath", Shape::Path('\\')),
    class("pathlib", "PureWindowsPath", Shape::Path('\\')),
    class("pathlib._local", "Path", Shape::Path('/')),
    class("pathlib._local", "PurePath", Shape::Path('/')),
    class("pathlib._local", "PosixPath", Shape::Path('/')),
    class("pathlib._local", "PurePosixPath", Shape::Path('/')),
    class("pathlib._local", "WindowsPath", Shape::Path('\\')),
    class("pathlib._local", "PureWindowsPath", Shape::Path('\\')),
    class("collections", "deque", Shape::List),
    class("builtins", "range", Shape::Tuple),
    class("__builtin__", "range", Shape::Tuple),
    class("__builtin__", "xrange", Shape::Tuple),
    class("builtins", "slice", Shape::Tuple),
    class("__builtin__", "slice", Shape::Tuple),
    class("datetime", "date", Shape::Moment(4)),
    class("datetime", "time", Shape::Moment(6)),
    class("datetime", "datetime", Shape::Moment(10)),
    class("datetime", "timedelta", Shape::Duration),
    class("datetime", "timezone", Shape::Zone),
    class("numpy", "dtype", Shape::NumpyType),
    class("numpy", "ndarray", Shape::NumpyArray),
    class("numpy._core.multiarray", "scalar", Shape::NumpyScalar),
    class("numpy.core.multiarray", "scalar", Shape::NumpyScalar),
    class("numpy._core.multiarray", "_reconstruct", Shape::NumpyMake),
    class("numpy.core.multiarray", "_reconstruct", Shape::NumpyMake),
    class("numpy.core._multiarray_umath", "scalar", Shape::NumpyScalar),
];

/// The class `module.name`, if its values are plain.
pub fn find(module: &str, name: &str) -> Option<&'static Class> {
    CLASSES.iter().find(|class| (class.module, class.name) == (module, name))
}

/// What it is said to be that is read as something plainer; types of numbers only say what a number is.
pub fn told(class: &'static Class) -> Option<(&'static str, &'static str)> {
    match class.shape {
        Shape::NumpyType | Shape::NumpyArray => None,
        Shape::NumpyMake => Some(("numpy", "ndarray")),
        Shape::NumpyScalar => Some(("numpy", "scalar")),
        _ => Some((class.module, class.name)),
    }
}

impl Machine<'_, '_, '_> {
    /// What a class makes of these arguments, as data.
    pub(super) fn plain_data(&mut self, step: &Step, class: &'static Class, items: &[Id]) -> Result<Id> {
        let node = match (class.shape, items) {
            (Shape::Object, []) => return self.dict(DictKind::Object),
            (Shape::Text, &[text]) if self.arena.is_text(text) => return Ok(text),
            (Shape::Path(between), parts) => self.path(step, parts, between)?,
            (Shape::List, []) => Node::List(Vec::new()),
            (Shape::List, [items] | [items, _]) => match self.arena.items_of(*items) {
                Some(items) => {
                    self.charge(4 * items.len() as u64)?;
                    Node::List(items.to_vec())
                }
                None => return Err(self.wrong(step, "a deque from something other than a list")),
            },
            (Shape::Tuple, [_] | [_, _] | [_, _, _]) if items.iter().all(|&n| self.is_bound(n)) => {
                Node::Tuple(items.into())
            }
            (Shape::Moment(len), &[bytes]) => self.moment(step, len, bytes, None)?,
            (Shape::Moment(len), &[bytes, zone]) => self.moment(step, len, bytes, Some(zone))?,
            (Shape::Duration, &[days, seconds, micros]) => {
                let [days, seconds, micros] = [days, seconds, micros].map(|id| self.arena.int_of(id));
                match (days, seconds, micros) {
                    (Some(days), Some(seconds), Some(micros)) => {
                        #[allow(
                            clippy::cast_precision_loss,
                            reason = "Python's own `total_seconds` rounds so"
                        )]
                        let [days, seconds, micros] = [days, seconds, micros].map(|count| count as f64);
                        Node::Float(days * 86_400.0 + seconds + micros / 1e6)
                    }
                    _ => return Err(self.wrong(step, "a time span from something other than a number")),
                }
            }
            (Shape::Zone, &[offset] | &[offset, _]) => self.zone(step, offset)?,
            (Shape::NumpyType, &[code, ..]) => {
                let code = self.arena.short_text_of(code).and_then(NumpyType::parse);
                Node::NumpyType(code.ok_or_else(|| {
                    let hint = "save it as a number, as text, or as a tensor";
                    self.not_plain("a NumPy value that is neither a number nor text", hint)
                })?)
            }
            (Shape::NumpyScalar, &[dtype, bytes]) => self.numpy_scalar(step, dtype, bytes)?,
            (Shape::NumpyMake, &[made, _, _]) if self.is_numpy_array(made) => {
                return self.dict(DictKind::Array);
            }
            _ => {
                let what: Vec<_> = items.iter().take(8).map(|&item| self.arena.what(item)).collect();
                let message =
                    format!("`{}.{}` does not take ({})", class.module, class.name, what.join(", "));
                return Err(self.wrong(step, message));
            }
        };
        self.charge(4 * items.len() as u64)?;
        self.make(node)
    }

    fn is_bound(&self, id: Id) -> bool {
        matches!(self.arena.node(id), Node::Int(_) | Node::None)
    }

    fn is_numpy_array(&self, id: Id) -> bool {
        matches!(self.arena.node(id), Node::Global(Global::Data(class)) if class.shape == Shape::NumpyArray)
    }

    /// A text made here.
    pub(super) fn text_node(&mut self, text: &str) -> Result<Node> {
        Ok(Node::Text(self.store(text.as_bytes())?))
    }

    fn path(&mut self, step: &Step, parts: &[Id], between: char) -> Result<Node> {
        let mut path = String::new();
        for &part in parts {
            let text = self.arena.text_of(part);
            let text = text.ok_or_else(|| self.wrong(step, "a path from something other than a string"))?;
            self.charge(2 * text.len() as u64)?;
            if !path.is_empty() && !path.ends_with(between) {
                path.push(between);
            }
            path.push_str(text);
        }
        self.text_node(&path)
    }

    /// The bytes of a value, as Python 2 and 3 write them.
    pub(super) fn raw(&self, id: Id) -> Option<&[u8]> {
        match self.arena.node(id) {
            Node::Bytes(span) | Node::Text(span) => Some(self.arena.bytes(*span)),
            _ => None,
        }
    }

    /// `date`, `time` and `datetime`: year (two bytes), month, day; hour, minute, second, microseconds (three bytes).
    fn moment(&mut self, step: &Step, len: usize, bytes: Id, zone: Option<Id>) -> Result<Node> {
        let bytes = self.raw(bytes).filter(|bytes| bytes.len() == len);
        let bytes =
            bytes.ok_or_else(|| self.wrong(step, "a date or time from something other than bytes"))?;
        let (date, time) = bytes.split_at(if len == 6 { 0 } else { 4 });
        let mut text = String::new();
        if let [high, low, month, day] = *date {
            // The month's highest bit says which of two equal hours it is.
            text = format!("{:04}-{:02}-{day:02}", u16::from_be_bytes([high, low]), month & 0x7f);
        }
        if let [hour, minute, second, a, b, c] = *time {
            let between = if date.is_empty() { "" } else { "T" };
            text += &format!("{between}{:02}:{minute:02}:{second:02}", hour & 0x7f);
            match u32::from_be_bytes([0, a, b, c]) {
                0 => {}
                micros => text += &format!(".{micros:06}"),
            }
        }
        if let Some(zone) = zone {
            let zone = self.arena.short_text_of(zone);
            text += zone.ok_or_else(|| self.wrong(step, "an invalid time zone"))?;
        }
        self.text_node(&text)
    }

    fn zone(&mut self, step: &Step, offset: Id) -> Result<Node> {
        let Node::Float(offset) = *self.arena.node(offset) else {
            return Err(self.wrong(step, "a time zone from something other than a time span"));
        };
        if offset.abs() >= 86_400.0 {
            return Err(self.wrong(step, "a time zone of a day or more"));
        }
        #[allow(clippy::cast_possible_truncation, reason = "below 86,400")]
        let minutes = (offset / 60.0) as i32;
        let sign = if minutes < 0 { '-' } else { '+' };
        self.text_node(&format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60))
    }

    /// A map that holds nothing yet.
    pub(super) fn dict(&mut self, kind: DictKind) -> Result<Id> {
        self.charge(64)?;
        self.make(Node::Dict(Box::new(super::value::Dict { kind, ..Default::default() })))
    }

    /// Counts a value that is read as something plainer than it was.
    pub(super) fn simplified(&mut self, name: (&'static str, &'static str)) {
        *self.arena.simplified.entry(name).or_default() += 1;
    }

    /// What is said of a value that no plain one stands for.
    #[cold]
    pub(super) fn not_plain(&self, what: &str, hint: &str) -> Error {
        Error::unsupported(format!("{what}: {}", super::machine::NOTHING)).hint(hint)
    }
}
