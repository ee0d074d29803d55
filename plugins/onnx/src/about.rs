//! What a model says besides tensors, as typed keys.
//!
//! | key | what |
//! | --- | --- |
//! | `onnx.ir_version`, `onnx.producer_name`, … | the scalar fields of `ModelProto`; may be set |
//! | `onnx.opset_import`, `onnx.graph.*`, `onnx.functions` | a description of the graph, for people; may not be set |
//! | `onnx.graph` | the graph itself (see `strip`) |
//! | any other | an entry of `metadata_props`; a key that starts with `onnx.` or `metadata_props.` is prefixed with `metadata_props.` |

use crate::layout::{graph, model, type_of_id, wire};
use crate::messages::{self, OperatorSetId, ValueInfo};
use crate::scan::{Field, Scan};
use crate::tensor::Range;
use crate::walk::Index;
use apr_sdk::{Error, Result, Value, ValueType, escape};
use std::collections::HashMap;

/// The key of the graph.
pub const GRAPH: &str = "onnx.graph";

/// Before the keys of this format's own records.
const OWN: &str = "onnx.";

/// Before the key of an entry that would look like one of those.
const PROPS: &str = "metadata_props.";

/// The scalar records: key, field, wire type.
pub const SCALARS: [(&str, u32, u8); 6] = [
    ("onnx.ir_version", model::IR_VERSION, wire::VARINT),
    ("onnx.producer_name", model::PRODUCER_NAME, wire::LEN),
    ("onnx.producer_version", model::PRODUCER_VERSION, wire::LEN),
    ("onnx.domain", model::DOMAIN, wire::LEN),
    ("onnx.model_version", model::MODEL_VERSION, wire::VARINT),
    ("onnx.doc_string", model::DOC_STRING, wire::LEN),
];

/// Scalar records, by their number in [`SCALARS`].
pub type Scalars = Vec<(usize, Value)>;

/// Entries of `metadata_props`.
pub type Props = Vec<(String, Vec<u8>)>;

/// What a model says of itself.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The scalar records that are there, in the order of [`SCALARS`]: the number there, the value, where it stands.
    pub scalars: Vec<(usize, Value, Vec<Range>)>,
    /// What the graph says, for people.
    pub derived: Vec<(String, Value)>,
    /// The entries of `metadata_props`, and where each stands; of two with one key the last counts. Those whose key is
    /// no text are left out.
    pub props: Vec<(String, Vec<u8>, Vec<Range>)>,
    /// What was left out.
    pub notes: Vec<String>,
}

impl About {
    /// Reads what `index` found.
    ///
    /// # Errors
    /// Malformed for records of a wrong kind; LimitExceeded; any error from reading.
    pub fn read(scan: &mut Scan<'_>, index: &Index) -> Result<About> {
        let mut about = About::default();
        for (number, &(_, field, kind)) in SCALARS.iter().enumerate() {
            about.scalar(scan, index, number, field, kind)?;
        }
        about.entries(scan, index)?;
        about.derive(scan, index)?;
        Ok(about)
    }

    /// The records that are keys of their own.
    pub fn records(&self) -> impl Iterator<Item = Range> {
        let scalars = self.scalars.iter().flat_map(|(_, _, places)| places.iter().copied());
        scalars.chain(self.props.iter().flat_map(|(_, _, places)| places.iter().copied()))
    }

    fn scalar(
        &mut self,
        scan: &mut Scan<'_>,
        index: &Index,
        number: usize,
        field: u32,
        kind: u8,
    ) -> Result<()> {
        let mut places = Vec::new();
        let mut last = None;
        for record in index.records.iter().filter(|record| record.number == field) {
            if record.wire != kind {
                let message =
                    format!("field {field} of the model has wire type {}, expected {kind}", record.wire);
                return Err(scan.error(record.at, message));
            }
            scan.limits().budget.charge(2 * size_of::<Range>() as u64)?;
            places.push((record.at, record.end));
            last = Some(*record);
        }
        let Some(record) = last else { return Ok(()) };
        let value = match kind {
            wire::VARINT => Value::from_i64(i64::from_le_bytes(record.value.to_le_bytes())),
            _ => Value::from_string(scan.bytes(&record)?),
        };
        self.scalars.push((number, value, places));
        Ok(())
    }

    fn entries(&mut self, scan: &mut Scan<'_>, index: &Index) -> Result<()> {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for record in index.records.iter().filter(|record| record.number == model::METADATA_PROPS) {
            let (key, value) = entry(scan, record)?;
            let cost = 3 * key.len() + 2 * size_of::<(String, Vec<u8>, Vec<Range>)>() + size_of::<Range>();
            scan.limits().budget.charge(cost as u64)?;
            let Ok(key) = String::from_utf8(key) else {
                let note = "an entry of metadata_props whose key is not valid UTF-8 stays in the graph";
                self.notes.push(note.to_owned());
                continue;
            };
            let place = (record.at, record.end);
            let number = *numbers.entry(key.clone()).or_insert(self.props.len());
            match self.props.get_mut(number) {
                Some((_, last, places)) => {
                    *last = value;
                    places.push(place);
                }
                None => self.props.push((key, value, vec![place])),
            }
        }
        Ok(())
    }

    fn derive(&mut self, scan: &mut Scan<'_>, index: &Index) -> Result<()> {
        let mut opsets = Vec::new();
        for record in index.records.iter().filter(|record| record.number == model::OPSET_IMPORT) {
            let set: OperatorSetId = messages::decode(scan, &message(scan, record)?)?;
            let domain = text(set.domain.as_deref());
            let domain = if domain.is_empty() { "ai.onnx" } else { &domain };
            opsets.push(format!("{domain} {}", set.version.unwrap_or_default()));
        }
        self.derived.push(("onnx.opset_import".to_owned(), Value::from_strings(&opsets)));
        if index.has_graph {
            let named = index.graph.iter().rev().find(|record| record.number == graph::NAME);
            if let Some(record) = named {
                let name = scan.bytes(&message(scan, record)?)?;
                self.derived.push(("onnx.graph.name".to_owned(), Value::from_string(name)));
            }
            for (key, number) in [("onnx.graph.inputs", graph::INPUT), ("onnx.graph.outputs", graph::OUTPUT)]
            {
                let mut shown = Vec::new();
                for record in index.graph.iter().filter(|record| record.number == number) {
                    let value: ValueInfo = messages::decode(scan, &message(scan, record)?)?;
                    shown.push(typed_name(&value));
                }
                self.derived.push((key.to_owned(), Value::from_strings(&shown)));
            }
            let nodes = i64::try_from(index.n_nodes).unwrap_or(i64::MAX);
            self.derived.push(("onnx.graph.nodes".to_owned(), Value::from_i64(nodes)));
        }
        for (key, count) in [("onnx.functions", index.n_functions), ("onnx.string_tensors", index.n_strings)]
        {
            if count > 0 {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                self.derived.push((key.to_owned(), Value::from_i64(count)));
            }
        }
        Ok(())
    }
}

/// A record that must be a message or text.
fn message(scan: &Scan<'_>, record: &Field) -> Result<Field> {
    if record.wire == wire::LEN {
        return Ok(*record);
    }
    let message = format!("field {} has wire type {}, expected 2 for a message", record.number, record.wire);
    Err(scan.error(record.at, message))
}

/// Key and value of an entry, which may be longer than a message that is decoded whole.
fn entry(scan: &mut Scan<'_>, record: &Field) -> Result<(Vec<u8>, Vec<u8>)> {
    let record = message(scan, record)?;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut at = record.start;
    while at < record.end {
        let field = scan.field(at, record.end)?;
        match field.number {
            1 => {
                let field = message(scan, &field)?;
                let limit = scan.limits().name_bytes;
                if field.len() > limit {
                    let message = format!("a name of {} bytes, more than the limit of {limit}", field.len());
                    return Err(scan.place(Error::limit(message), field.at));
                }
                key = scan.bytes(&field)?;
            }
            2 => value = scan.bytes(&message(scan, &field)?)?,
            _ => {}
        }
        at = field.end;
    }
    Ok((key, value))
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

/// `x: FLOAT[1,3,height]`.
pub fn typed_name(value: &ValueInfo) -> String {
    let mut shown = text(value.name.as_deref());
    let Some(tensor) = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref()) else { return shown };
    let id = u64::try_from(tensor.elem_type.unwrap_or_default()).unwrap_or_default();
    shown += ": ";
    shown += match id {
        crate::layout::STRING => "STRING",
        id => type_of_id(id).map_or("?", |row| row.name),
    };
    if let Some(shape) = &tensor.shape {
        let dims = shape.dim.iter().map(|dim| match (dim.dim_value, &dim.dim_param) {
            (Some(size), _) => size.to_string(),
            (None, Some(name)) => text(Some(name)),
            (None, None) => "?".to_owned(),
        });
        shown += &format!("[{}]", dims.collect::<Vec<_>>().join(","));
    }
    shown
}

/// The typed key of an entry of `metadata_props`.
pub fn key_of_prop(key: &str) -> String {
    if key.starts_with(OWN) || key.starts_with(PROPS) { format!("{PROPS}{key}") } else { key.to_owned() }
}

/// The entry of `metadata_props` that a typed key stands for; `None` for this format's own records.
pub fn prop_of_key(key: &str) -> Option<&str> {
    match key.strip_prefix(PROPS) {
        Some(inner) if inner.starts_with(OWN) || inner.starts_with(PROPS) => Some(inner),
        _ if key.starts_with(OWN) => None,
        _ => Some(key),
    }
}

/// Splits typed keys into the scalar records, by their number in [`SCALARS`], and the entries of `metadata_props`.
///
/// # Errors
/// InvalidArgument for a record of another type, or a key of this format that it does not know; Unsupported for an entry
/// that is no text.
pub fn split(typed: &[(String, Value)]) -> Result<(Scalars, Props)> {
    let (mut scalars, mut props) = (Vec::new(), Vec::new());
    for (key, value) in typed {
        let shown = || escape(key, 120);
        if let Some(prop) = prop_of_key(key) {
            let text = value.as_bytes().ok_or_else(|| {
                let kind = value.kind.name().unwrap_or("?");
                Error::unsupported(format!(
                    "metadata key `{}`: metadata_props can only hold text, not {kind}",
                    shown()
                ))
            })?;
            props.push((prop.to_owned(), text.to_vec()));
        } else if let Some(number) = SCALARS.iter().position(|(name, ..)| name == key) {
            let wanted = if SCALARS[number].2 == wire::VARINT { ValueType::I64 } else { ValueType::STRING };
            if value.kind != wanted {
                let word = wanted.name().unwrap_or("?");
                return Err(Error::invalid_argument(format!(
                    "metadata key `{}` must have type {word}",
                    shown()
                )));
            }
            scalars.push((number, value.clone()));
        }
    }
    scalars.sort_by_key(|(number, _)| *number);
    Ok((scalars, props))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_a_key_of_its_own() {
        for key in
            ["author", "", "onnx.graph", "metadata_props.a", "metadata_props.onnx.x", "onnx", "apr.foreign"]
        {
            let typed = key_of_prop(key);
            assert_eq!(prop_of_key(&typed), Some(key));
            assert!(SCALARS.iter().all(|(name, ..)| *name != typed) && typed != GRAPH);
        }
        assert_eq!(prop_of_key("onnx.ir_version"), None);
        assert_eq!(prop_of_key("metadata_props.a"), Some("metadata_props.a"));
    }
}
