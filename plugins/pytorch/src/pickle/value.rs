//! The result of a pickle: inert values in one arena, by index, so that shared and self-containing values are
//! cheap and nothing is dropped recursively.

use super::allow_list::Global;
use super::left_out::LeftOut;
use super::numpy::NumpyType;
use apr_sdk::{Budget, DType, Result};
use std::collections::BTreeMap;

/// A value's number.
pub type Id = u32;

/// A run of the arena's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Its first byte.
    pub start: u32,
    /// How many bytes it has.
    pub len: u32,
}

/// A value on the interpreter's heap; others refer to it by id.
#[derive(Clone, Debug)]
pub enum Node {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number that fits.
    Int(i64),
    /// A whole number that does not: two's complement, least significant byte first.
    Big(Span),
    /// A floating-point number.
    Float(f64),
    /// UTF-8 text.
    Text(Span),
    /// A Python `bytes` object.
    Bytes(Span),
    /// A Python list, by the ids of its items.
    List(Vec<Id>),
    /// A Python tuple, by the ids of its items.
    Tuple(Box<[Id]>),
    /// A Python set, by the ids of its items.
    Set(Vec<Id>),
    /// A map, in its order.
    Dict(Box<Dict>),
    /// An allow-listed name.
    Global(Global),
    /// The class of a TorchScript record; by its full name.
    Class(Span),
    /// A storage, by its number.
    Storage(u32),
    /// A tensor, by its number.
    Tensor(u32),
    /// A complex number.
    Complex(Box<(f64, f64)>),
    /// An element type of NumPy.
    NumpyType(NumpyType),
    /// A name that nothing is known of, or what it made.
    LeftOut(Box<LeftOut>),
}

/// A map.
#[derive(Clone, Debug, Default)]
pub struct Dict {
    /// What sort of map.
    pub kind: DictKind,
    /// Keys and values.
    pub entries: Vec<(Id, Id)>,
    /// What was set on the object itself (`_metadata` of a state dict).
    pub attributes: Option<Id>,
}

/// The sorts of maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DictKind {
    /// `dict`, and what only counts or has a default.
    #[default]
    Plain,
    /// `collections.OrderedDict`.
    Ordered,
    /// A TorchScript object: its attributes.
    Record,
    /// An object of attributes.
    Object,
    /// A NumPy array: its type, shape, order and bytes.
    Array,
}

/// A storage as a persistent id names it.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// Its key: the record's name, or what the legacy stream lists.
    pub key: Span,
    /// Its elements; `None` for bytes without a type.
    pub dtype: Option<DType>,
    /// Elements, or bytes where it has no type.
    pub numel: u64,
    /// The first element's place in the whole storage, for views of the legacy stream.
    pub start: u64,
    /// The name of the class, which legacy streams share by key.
    pub at: u64,
}

/// A tensor as the pickle rebuilds it.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its storage's number.
    pub storage: u32,
    /// Its element type.
    pub dtype: DType,
    /// The first element, in elements.
    pub offset: u64,
    /// Its dimensions.
    pub size: Box<[u64]>,
    /// Its strides, in elements.
    pub stride: Box<[u64]>,
    /// Whether it asks for gradients.
    pub requires_grad: bool,
    /// Whether it is a `Parameter`.
    pub parameter: bool,
    /// How it is quantized.
    pub quantizer: Option<Box<Quantizer>>,
    /// What was set on the object itself: a dict, or a tuple of two.
    pub state: Option<Id>,
    /// Where the pickle rebuilds it.
    pub at: u64,
}

/// How a tensor is quantized.
#[derive(Clone, Debug)]
pub enum Quantizer {
    /// One scale and zero point.
    PerTensor {
        /// The scheme's name.
        scheme: &'static str,
        /// One scale for the whole tensor.
        scale: f64,
        /// One zero point for the whole tensor.
        zero_point: i64,
    },
    /// One scale and zero point for each index of one axis: tensors of their own.
    PerChannel {
        /// The scheme's name.
        scheme: &'static str,
        /// The scales' tensor.
        scales: u32,
        /// The zero points' tensor.
        zero_points: u32,
        /// The axis that the scales and zero points run along.
        axis: i64,
    },
}

/// All values of one pickle.
#[derive(Debug, Default)]
pub struct Arena {
    /// The values.
    pub nodes: Vec<Node>,
    /// Text and bytes.
    pub text: Vec<u8>,
    /// The storages, as they were named.
    pub storages: Vec<Storage>,
    /// The tensors, as they were rebuilt.
    pub tensors: Vec<Tensor>,
    /// Modules and names of classes whose values are read as something plainer, and how many there were.
    pub simplified: BTreeMap<(&'static str, &'static str), u64>,
}

/// What a value costs: its record, with room for a vector that grows.
const NODE_COST: u64 = 48;

impl Arena {
    /// Adds a value.
    ///
    /// # Errors
    /// LimitExceeded if the budget does not allow it.
    pub fn push(&mut self, node: Node, budget: &Budget) -> Result<Id> {
        budget.charge(NODE_COST)?;
        let id = Id::try_from(self.nodes.len())
            .map_err(|_| apr_sdk::Error::limit("a pickle with more than 2^32 values"))?;
        self.nodes.push(node);
        Ok(id)
    }

    /// Adds text or bytes.
    ///
    /// # Errors
    /// LimitExceeded above 4 GiB or if the budget does not allow it.
    pub fn store(&mut self, bytes: &[u8], budget: &Budget) -> Result<Span> {
        budget.charge(2 * bytes.len() as u64)?;
        let far = || apr_sdk::Error::limit("a pickle with more than 4 GiB of text");
        let start = u32::try_from(self.text.len()).map_err(|_| far())?;
        let len = u32::try_from(bytes.len()).map_err(|_| far())?;
        start.checked_add(len).ok_or_else(far)?;
        self.text.extend_from_slice(bytes);
        Ok(Span { start, len })
    }

    /// The bytes of a run.
    pub fn bytes(&self, span: Span) -> &[u8] {
        let start = span.start as usize;
        self.text.get(start..start + span.len as usize).unwrap_or_default()
    }

    /// The text of a run that was checked to be UTF-8.
    pub fn str(&self, span: Span) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }

    /// Looks up a value by its id.
    pub fn node(&self, id: Id) -> &Node {
        self.nodes.get(id as usize).unwrap_or(&Node::None)
    }

    /// The text of a value, if it is text.
    pub fn text_of(&self, id: Id) -> Option<&str> {
        match self.node(id) {
            Node::Text(span) => Some(self.str(*span)),
            _ => None,
        }
    }

    /// The text of a value, if it is text of a few bytes. A long one is not looked at: it may be asked for often.
    pub fn short_text_of(&self, id: Id) -> Option<&str> {
        match self.node(id) {
            Node::Text(span) if span.len <= 32 => Some(self.str(*span)),
            _ => None,
        }
    }

    /// Whether a value is text. Unlike [`Arena::text_of`] it does not look at the text, which may be long and be asked
    /// for often.
    pub fn is_text(&self, id: Id) -> bool {
        matches!(self.node(id), Node::Text(_))
    }

    /// Whether a value is this very text, found without looking at one of another length.
    pub fn is(&self, id: Id, text: &str) -> bool {
        matches!(self.node(id), Node::Text(span) if self.bytes(*span) == text.as_bytes())
    }

    /// The number of a value, if it is a whole one.
    pub fn int_of(&self, id: Id) -> Option<i64> {
        match self.node(id) {
            Node::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The items of a tuple or list.
    pub fn items_of(&self, id: Id) -> Option<&[Id]> {
        match self.node(id) {
            Node::Tuple(items) => Some(items),
            Node::List(items) => Some(items),
            _ => None,
        }
    }

    /// What a value is called in messages.
    pub fn what(&self, id: Id) -> &'static str {
        match self.node(id) {
            Node::None => "None",
            Node::Bool(_) => "a truth value",
            Node::Int(_) | Node::Big(_) => "an integer",
            Node::Float(_) | Node::Complex(_) => "a floating-point number",
            Node::Text(_) => "text",
            Node::Bytes(_) => "bytes",
            Node::List(_) => "a list",
            Node::Tuple(_) => "a tuple",
            Node::Set(_) => "a set",
            Node::Dict(_) => "a dict",
            Node::Global(_) | Node::Class(_) | Node::NumpyType(_) => "a name",
            Node::Storage(_) => "a storage",
            Node::Tensor(_) => "a tensor",
            Node::LeftOut(_) => "a value of an unknown class",
        }
    }
}
