//! The nesting of a checkpoint: which container holds which tensors and values, as written. It is kept as
//! JSON beside the model unless the tensors' names alone imply it.

use apr_sdk::{Error, Result};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value as Json, json};

/// The most levels of nesting. 64: checkpoints have below 10, and walking recurses.
pub const DEEPEST: usize = 64;

/// One place of the nesting.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// A tensor of the model.
    Tensor(Leaf),
    /// A value under this key of the typed metadata.
    Value(String),
    /// Several, of one type, as a list (or tuple).
    Values(String, bool),
    /// A value that has no key of its own.
    Inline(Inline),
    /// A Python list.
    List(Vec<Tree>),
    /// A Python tuple.
    Tuple(Vec<Tree>),
    /// A Python set.
    Set(Vec<Tree>),
    /// A map: whether it is an `OrderedDict`, its entries, and what was set on the object itself.
    Map(bool, Vec<(Tree, Tree)>, Option<Box<Tree>>),
}

/// A tensor, by name.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Leaf {
    /// The name of the tensor in the model.
    pub name: String,
    /// Whether it is a `Parameter`.
    pub parameter: bool,
    /// Whether it asks for gradients.
    pub requires_grad: bool,
    /// What was set on the object itself, and that it is a `Buffer`, which is said so.
    pub state: Option<Box<Tree>>,
}

/// A value that stands in the tree itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Inline {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A larger one: two's complement, least significant byte first.
    Big(Vec<u8>),
    /// A floating-point number.
    Float(f64),
    /// A Python string.
    Text(String),
    /// A Python `bytes` object.
    Bytes(Vec<u8>),
    /// A complex number.
    Complex(f64, f64),
    /// A name of module `torch`: an element type or quantization scheme.
    Name(String),
}

/// The keys that say what a JSON object stands for.
const TENSOR: &str = "T";
const VALUE: &str = "v";
const VALUE_LIST: &str = "L";
const VALUE_TUPLE: &str = "U";
const LIST: &str = "l";
const TUPLE: &str = "t";
const SET: &str = "s";
const DICT: &str = "d";
const ORDERED: &str = "o";
const ATTRIBUTES: &str = "a";

impl Tree {
    /// A plain tensor, as most are.
    pub fn plain(name: &str) -> Tree {
        Tree::Tensor(Leaf { name: name.to_owned(), ..Leaf::default() })
    }

    /// Whether it is a map of plain tensors under their own names, which the names alone give back; and whether that is an
    /// `OrderedDict`.
    pub fn flat(&self) -> Option<bool> {
        let Tree::Map(ordered, entries, None) = self else { return None };
        let plain = entries.iter().all(|entry| match entry {
            (
                Tree::Inline(Inline::Text(key)),
                Tree::Tensor(Leaf { name, parameter: false, requires_grad: false, state: None }),
            ) => key == name,
            _ => false,
        });
        plain.then_some(*ordered)
    }

    /// The tensors' names, in their order.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.visit(&mut |tree| {
            if let Tree::Tensor(leaf) = tree {
                names.push(leaf.name.as_str());
            }
        });
        names
    }

    /// The keys of the typed metadata that it refers to.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys = Vec::new();
        self.visit(&mut |tree| {
            if let Tree::Value(key) | Tree::Values(key, _) = tree {
                keys.push(key.as_str());
            }
        });
        keys
    }

    fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t Tree)) {
        each(self);
        match self {
            Tree::Tensor(Leaf { state: Some(state), .. }) => state.visit(each),
            Tree::List(items) | Tree::Tuple(items) | Tree::Set(items) => {
                items.iter().for_each(|t| t.visit(each))
            }
            Tree::Map(_, entries, attributes) => {
                for (key, value) in entries {
                    key.visit(each);
                    value.visit(each);
                }
                if let Some(attributes) = attributes {
                    attributes.visit(each);
                }
            }
            _ => {}
        }
    }

    /// As JSON text. It is written as it is walked: an object in memory for each place would take ten times the place.
    ///
    /// # Errors
    /// Malformed if a value cannot stand in JSON, which none of these can.
    pub fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|_| wrong())
    }

    /// What [`Tree::to_text`] wrote.
    ///
    /// # Errors
    /// Malformed for anything else.
    pub fn from_json(json: &Json) -> Result<Tree> {
        from_json(json, 0)
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let (key, items) = match self {
            Tree::Inline(inline) => return inline.to_json().serialize(serializer),
            Tree::List(items) => (LIST, items),
            Tree::Tuple(items) => (TUPLE, items),
            Tree::Set(items) => (SET, items),
            _ => return self.object(serializer.serialize_map(None)?),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(key, items)?;
        map.end()
    }
}

impl Tree {
    fn object<M: SerializeMap>(&self, mut map: M) -> std::result::Result<M::Ok, M::Error> {
        match self {
            Tree::Tensor(leaf) => {
                map.serialize_entry(TENSOR, &leaf.name)?;
                for (key, is) in [("p", leaf.parameter), ("g", leaf.requires_grad)] {
                    if is {
                        map.serialize_entry(key, &true)?;
                    }
                }
                if let Some(state) = &leaf.state {
                    map.serialize_entry(ATTRIBUTES, state)?;
                }
            }
            Tree::Value(key) => map.serialize_entry(VALUE, key)?,
            Tree::Values(key, tuple) => {
                map.serialize_entry(if *tuple { VALUE_TUPLE } else { VALUE_LIST }, key)?
            }
            Tree::Map(ordered, entries, attributes) => {
                map.serialize_entry(if *ordered { ORDERED } else { DICT }, entries)?;
                if let Some(attributes) = attributes {
                    map.serialize_entry(ATTRIBUTES, attributes)?;
                }
            }
            Tree::Inline(_) | Tree::List(_) | Tree::Tuple(_) | Tree::Set(_) => {}
        }
        map.end()
    }
}

fn wrong() -> Error {
    Error::malformed("the recorded nesting was not written by apr")
}

fn from_json(json: &Json, depth: usize) -> Result<Tree> {
    if depth > 2 * DEEPEST {
        return Err(wrong());
    }
    let Json::Object(map) = json else { return Inline::from_json(json).map(Tree::Inline) };
    let (key, value) = map.iter().next().ok_or_else(wrong)?;
    let text = || value.as_str().map(str::to_owned).ok_or_else(wrong);
    let items = || -> Result<Vec<Tree>> {
        value.as_array().ok_or_else(wrong)?.iter().map(|item| from_json(item, depth + 1)).collect()
    };
    let attributes = || map.get(ATTRIBUTES).map(|json| from_json(json, depth + 1).map(Box::new)).transpose();
    let flag = |name: &str| map.get(name).and_then(Json::as_bool).unwrap_or(false);
    match key.as_str() {
        TENSOR => Ok(Tree::Tensor(Leaf {
            name: text()?,
            parameter: flag("p"),
            requires_grad: flag("g"),
            state: attributes()?,
        })),
        VALUE => Ok(Tree::Value(text()?)),
        VALUE_LIST => Ok(Tree::Values(text()?, false)),
        VALUE_TUPLE => Ok(Tree::Values(text()?, true)),
        LIST => Ok(Tree::List(items()?)),
        TUPLE => Ok(Tree::Tuple(items()?)),
        SET => Ok(Tree::Set(items()?)),
        DICT | ORDERED => {
            let pair = |pair: &Json| match pair.as_array().map(Vec::as_slice) {
                Some([key, value]) => Ok((from_json(key, depth + 1)?, from_json(value, depth + 1)?)),
                _ => Err(wrong()),
            };
            let entries = value.as_array().ok_or_else(wrong)?.iter().map(pair).collect::<Result<_>>()?;
            Ok(Tree::Map(key == ORDERED, entries, attributes()?))
        }
        _ => Inline::from_json(json).map(Tree::Inline),
    }
}

impl Inline {
    fn to_json(&self) -> Json {
        match self {
            Inline::None => Json::Null,
            Inline::Bool(value) => Json::from(*value),
            Inline::Int(number) => Json::from(*number),
            Inline::Big(bytes) => json!({ "n": hex(bytes) }),
            Inline::Float(number) => json!({ "f": hex(&number.to_bits().to_be_bytes()) }),
            Inline::Text(text) => Json::from(text.as_str()),
            Inline::Bytes(bytes) => json!({ "b": hex(bytes) }),
            Inline::Complex(a, b) => {
                json!({ "c": format!("{}{}", hex(&a.to_bits().to_be_bytes()), hex(&b.to_bits().to_be_bytes())) })
            }
            Inline::Name(name) => json!({ "g": name }),
        }
    }

    fn from_json(json: &Json) -> Result<Inline> {
        match json {
            Json::Null => Ok(Inline::None),
            Json::Bool(value) => Ok(Inline::Bool(*value)),
            Json::Number(number) => number.as_i64().map(Inline::Int).ok_or_else(wrong),
            Json::String(text) => Ok(Inline::Text(text.clone())),
            Json::Object(map) => {
                let (key, value) = map.iter().next().ok_or_else(wrong)?;
                let text = value.as_str().ok_or_else(wrong)?;
                let float = |bytes: &[u8]| bytes.try_into().map(f64::from_be_bytes).map_err(|_| wrong());
                match key.as_str() {
                    "n" => Ok(Inline::Big(unhex(text)?)),
                    "b" => Ok(Inline::Bytes(unhex(text)?)),
                    "f" => Ok(Inline::Float(float(&unhex(text)?)?)),
                    "c" => {
                        let bytes = unhex(text)?;
                        let (a, b) = bytes.split_at_checked(8).ok_or_else(wrong)?;
                        Ok(Inline::Complex(float(a)?, float(b)?))
                    }
                    "g" => Ok(Inline::Name(text.to_owned())),
                    _ => Err(wrong()),
                }
            }
            Json::Array(_) => Err(wrong()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    if !text.is_ascii() || !digits.remainder().is_empty() {
        return Err(wrong());
    }
    digits
        .map(|pair| {
            let text = std::str::from_utf8(pair).map_err(|_| wrong())?;
            u8::from_str_radix(text, 16).map_err(|_| wrong())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_survives_json() {
        let tree = Tree::Map(
            true,
            vec![
                (Tree::Inline(Inline::Text("a".into())), Tree::plain("a")),
                (Tree::Inline(Inline::Int(-3)), Tree::Value("k".into())),
                (Tree::Inline(Inline::None), Tree::Values("v".into(), true)),
                (
                    Tree::Inline(Inline::Bool(true)),
                    Tree::Tuple(vec![
                        Tree::Inline(Inline::Float(f64::NEG_INFINITY)),
                        Tree::Inline(Inline::Big(vec![0xff, 1])),
                        Tree::Inline(Inline::Complex(1.0, -0.0)),
                        Tree::Inline(Inline::Bytes(vec![0, 0x80])),
                        Tree::Inline(Inline::Name("float32".into())),
                        Tree::Set(vec![Tree::List(Vec::new())]),
                        Tree::Map(false, Vec::new(), None),
                        Tree::Tensor(Leaf {
                            name: "p".into(),
                            parameter: true,
                            requires_grad: true,
                            state: Some(Box::new(Tree::List(vec![Tree::plain("q")]))),
                        }),
                    ]),
                ),
            ],
            Some(Box::new(Tree::Values("w".into(), false))),
        );
        let text = tree.to_text().unwrap();
        assert_eq!(Tree::from_json(&serde_json::from_str(&text).unwrap()).unwrap(), tree);
        assert_eq!(tree.names(), ["a", "p", "q"]);
        assert_eq!(tree.keys(), ["k", "v", "w"]);
        assert_eq!(tree.flat(), None);
    }

    #[test]
    fn what_apr_does_not_write_is_refused() {
        for text in
            ["[]", "{}", "{\"x\":1}", "{\"l\":1}", "{\"d\":[[1]]}", "{\"f\":\"00\"}", "{\"b\":\"é1\"}", "1.5"]
        {
            assert!(Tree::from_json(&serde_json::from_str(text).unwrap()).is_err(), "{text}");
        }
        let deep = format!("{}{}", "{\"l\":[".repeat(60), "]}".repeat(60));
        assert!(Tree::from_json(&serde_json::from_str(&deep).unwrap()).is_ok());
    }
}
