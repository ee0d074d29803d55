//! The report `graph`: what a model computes besides its tensors, a line for each operator set, input, output and node. Two graphs
//! compute the same if they have the same lines. Names of nodes, texts for people and shapes between nodes are in none.

use crate::about::typed_name;
use crate::layout::{attribute, function, graph, model, node, tensor, wire};
use crate::messages::{self, OperatorSetId, ValueInfo};
use crate::scan::{Field, Scan};
use crate::tensor::read;
use apr_sdk::{Report, Result, escape};
use serde_json::json;
use sha2::{Digest, Sha256};

/// Bytes of a value that are shown; the sum of a longer one stands for the rest.
const SHOWN: usize = 64;

/// Bytes of a list of numbers that is read; of a longer one, its bytes are compared as they are.
const LONGEST_LIST: u64 = 4096;

/// The length up to which texts are shown: what is compared is not cut.
const WHOLE: usize = usize::MAX;

/// A line: the place, which does not count, and what is there.
type Line = (String, String);

/// Lists the graph of the file that `scan` reads, which [`crate::walk::walk`] found to be sound.
///
/// # Errors
/// LimitExceeded; any error from reading.
pub fn report(scan: &mut Scan<'_>) -> Result<Report> {
    let mut lister = Lister { scan, lines: Vec::new() };
    lister.model()?;
    let lines = lister.lines;
    let text: Vec<String> = lines.iter().map(|(place, is)| format!("{place}: {is}")).collect();
    let json = json!({ "schema": "onnx.graph/1", "lines": lines });
    Ok(Report { text: text.join("\n"), json: json.to_string(), passed: true })
}

struct Lister<'s, 'a> {
    scan: &'s mut Scan<'a>,
    lines: Vec<Line>,
}

impl Lister<'_, '_> {
    fn push(&mut self, place: String, is: String) -> Result<()> {
        // A line, its copies as text and JSON, and their escapes.
        let cost = 8 * (place.len() + is.len() + size_of::<Line>());
        self.scan.limits().budget.charge(cost as u64)?;
        self.lines.push((place, is));
        Ok(())
    }

    /// What is said in any order in a file is listed in one.
    fn model(&mut self) -> Result<()> {
        let end = self.scan.file_len();
        for wanted in [model::OPSET_IMPORT, model::GRAPH, model::FUNCTIONS] {
            let mut at = 0;
            while at < end {
                let record = self.scan.field(at, end)?;
                match record.number {
                    number if number != wanted => {}
                    model::OPSET_IMPORT => self.operator_set("", &record)?,
                    model::GRAPH => self.graph("", &record)?,
                    _ => self.function(&record)?,
                }
                at = record.end;
            }
            if wanted == model::OPSET_IMPORT {
                self.lines.sort();
            }
        }
        Ok(())
    }

    fn operator_set(&mut self, within: &str, record: &Field) -> Result<()> {
        let set: OperatorSetId = messages::decode(self.scan, record)?;
        let domain = String::from_utf8_lossy(set.domain.as_deref().unwrap_or_default()).into_owned();
        let domain = if domain.is_empty() { "ai.onnx" } else { &domain };
        let version = set.version.unwrap_or_default();
        self.push(format!("{within}operator set"), format!("{} {version}", escape(domain, WHOLE)))
    }

    /// A graph; `within` is the place around it, with a space behind.
    fn graph(&mut self, within: &str, field: &Field) -> Result<()> {
        for (wanted, what) in [(graph::INPUT, "input"), (graph::OUTPUT, "output")] {
            let mut at = field.start;
            while at < field.end {
                let record = self.scan.field(at, field.end)?;
                if record.number == wanted {
                    let value: ValueInfo = messages::decode(self.scan, &record)?;
                    let is = escape(&typed_name(&value), WHOLE);
                    self.push(format!("{within}{what}"), is)?;
                }
                at = record.end;
            }
        }
        let (mut number, mut at) = (0, field.start);
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            match record.number {
                graph::NODE => {
                    self.node(within, number, &record)?;
                    number += 1;
                }
                graph::INITIALIZER => self.texts(within, &record)?,
                _ => {}
            }
            at = record.end;
        }
        Ok(())
    }

    /// A tensor of texts, which is none of the model's.
    fn texts(&mut self, within: &str, record: &Field) -> Result<()> {
        let found = read(self.scan, record)?;
        if !found.is_strings() {
            return Ok(());
        }
        let is = self.tensor(record)?;
        self.push(format!("{within}tensor `{}`", escape(&found.name, 120)), is)
    }

    fn function(&mut self, field: &Field) -> Result<()> {
        let mut name = [const { String::new() }; 3];
        for (text, number) in name.iter_mut().zip([function::DOMAIN, function::NAME, function::OVERLOAD]) {
            *text = self.last_text(field, number)?;
        }
        let [domain, name, overload] = name;
        let is = format!("{domain}.{name}:{overload}");
        self.push("function".to_owned(), is.clone())?;
        let within = format!("function {is} ");
        let (mut number, mut at) = (0, field.start);
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            match record.number {
                function::NODE => {
                    self.node(&within, number, &record)?;
                    number += 1;
                }
                function::INPUT | function::OUTPUT | function::ATTRIBUTE => {
                    let what = match record.number {
                        function::INPUT => "input",
                        function::OUTPUT => "output",
                        _ => "attribute",
                    };
                    let is = self.text(&record)?;
                    self.push(format!("{within}{what}"), is)?;
                }
                function::OPSET_IMPORT => self.operator_set(&within, &record)?,
                function::ATTRIBUTE_PROTO => {
                    let mut inner = Vec::new();
                    let is = self.attribute(&record, &mut inner)?;
                    self.push(format!("{within}attribute"), is)?;
                    self.graphs(&within, inner)?;
                }
                _ => {}
            }
            at = record.end;
        }
        Ok(())
    }

    /// A node, and the graphs in its attributes behind it.
    fn node(&mut self, within: &str, number: u64, field: &Field) -> Result<()> {
        let (mut inputs, mut outputs, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut inner, mut at) = (Vec::new(), field.start);
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            match record.number {
                node::INPUT => inputs.push(self.text(&record)?),
                node::OUTPUT => outputs.push(self.text(&record)?),
                node::ATTRIBUTE => attributes.push(self.attribute(&record, &mut inner)?),
                _ => {}
            }
            at = record.end;
        }
        let domain = self.last_text(field, node::DOMAIN)?;
        let overload = self.last_text(field, node::OVERLOAD)?;
        let mut is = if domain.is_empty() { String::new() } else { format!("{domain}.") };
        is += &self.last_text(field, node::OP_TYPE)?;
        if !overload.is_empty() {
            is += &format!(":{overload}");
        }
        is += &format!("({}) -> {}", inputs.join(", "), outputs.join(", "));
        // In whichever order they are.
        attributes.sort_unstable();
        attributes.iter().for_each(|one| is += &format!(", {one}"));
        let name = self.last_text(field, node::NAME)?;
        let name = if name.is_empty() { String::new() } else { format!(" `{name}`") };
        let place = format!("{within}node {number}{name}");
        self.push(place.clone(), is)?;
        self.graphs(&format!("{place} "), inner)
    }

    /// The graphs of a node's attributes, in the order of their names.
    fn graphs(&mut self, within: &str, mut inner: Vec<(String, Field)>) -> Result<()> {
        inner.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, field) in &inner {
            self.push(format!("{within}graph"), name.clone())?;
            self.graph(&format!("{within}{name} "), field)?;
        }
        Ok(())
    }

    /// `NAME = VALUE`; graphs are put into `inner` with the name.
    fn attribute(&mut self, field: &Field, inner: &mut Vec<(String, Field)>) -> Result<String> {
        let name = self.last_text(field, attribute::NAME)?;
        let mut values = Vec::new();
        // Lists of numbers may be one record or many.
        let (mut bytes, mut at) = (Vec::new(), field.start);
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            match (record.number, record.wire) {
                (attribute::NAME | attribute::DOC_STRING | attribute::TYPE, _) => {}
                (attribute::F, wire::I32) => {
                    let raw = self.scan.bytes(&record)?;
                    let raw = raw.first_chunk::<4>().copied().unwrap_or_default();
                    values.push(f32::from_le_bytes(raw).to_string());
                }
                (attribute::I | attribute::INTS, wire::VARINT) => {
                    values.push(record.value.cast_signed().to_string())
                }
                (attribute::INTS | attribute::FLOATS, wire::LEN) if record.len() > LONGEST_LIST => {
                    let raw = self.scan.bytes(&record)?;
                    values.push(shown(&raw));
                }
                (attribute::INTS, wire::LEN) => {
                    let mut at = record.start;
                    while at < record.end {
                        let (number, end) = self.scan.varint(at, record.end)?;
                        values.push(number.cast_signed().to_string());
                        at = end;
                    }
                }
                (attribute::FLOATS, wire::I32 | wire::LEN) => bytes.extend(self.scan.bytes(&record)?),
                (attribute::T | attribute::TENSORS, wire::LEN) => values.push(self.tensor(&record)?),
                (attribute::G | attribute::GRAPHS, wire::LEN) => {
                    values.push("a graph".to_owned());
                    inner.push((name.clone(), record));
                }
                (attribute::REF, wire::LEN) => values.push(format!("@{}", self.text(&record)?)),
                // Their parts are tensors of the model.
                (attribute::SPARSE_TENSOR | attribute::SPARSE_TENSORS, _) => {
                    values.push("a sparse tensor".to_owned())
                }
                (_, wire::LEN) => {
                    let raw = self.scan.bytes(&record)?;
                    values.push(shown(&raw));
                }
                _ => values.push(record.value.to_string()),
            }
            self.scan.limits().budget.charge(64)?;
            at = record.end;
        }
        let floats = bytes.as_chunks::<4>().0.iter().map(|raw| f32::from_le_bytes(*raw).to_string());
        values.extend(floats);
        let value = match &values[..] {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        Ok(format!("{name} = {}", if value.len() > 4 * SHOWN { shown(value.as_bytes()) } else { value }))
    }

    /// The type and shape of a tensor; of one of texts, what they are, too.
    fn tensor(&mut self, record: &Field) -> Result<String> {
        let found = read(self.scan, record)?;
        let dims = found.dims.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        if !found.is_strings() {
            return Ok(format!("tensor [{dims}]"));
        }
        let (mut sum, mut at) = (Sha256::new(), record.start);
        while at < record.end {
            let one = self.scan.field(at, record.end)?;
            if one.number == tensor::STRING_DATA {
                let bytes = self.scan.bytes(&one)?;
                sum.update((bytes.len() as u64).to_le_bytes());
                sum.update(&bytes);
            }
            at = one.end;
        }
        Ok(format!("texts [{dims}], sum {}", hex(&sum.finalize())))
    }

    /// The last text of a message under this number; empty if there is none.
    fn last_text(&mut self, field: &Field, number: u32) -> Result<String> {
        let (mut found, mut at) = (None, field.start);
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            if record.number == number {
                found = Some(record);
            }
            at = record.end;
        }
        found.map_or(Ok(String::new()), |record| self.text(&record))
    }

    fn text(&mut self, field: &Field) -> Result<String> {
        if field.wire != wire::LEN {
            return Ok(String::new());
        }
        let bytes = self.scan.bytes(field)?;
        Ok(escape(&String::from_utf8_lossy(&bytes), WHOLE))
    }
}

/// Bytes as text; of many, the first, their number and their sum.
fn shown(bytes: &[u8]) -> String {
    let first = &bytes[..bytes.len().min(SHOWN)];
    let text = escape(&String::from_utf8_lossy(first), WHOLE);
    if bytes.len() <= SHOWN && !text.contains('\u{fffd}') {
        return format!("\"{text}\"");
    }
    format!("\"{text}\"... ({} bytes, sum {})", bytes.len(), hex(&Sha256::digest(bytes)))
}

/// The first half of a digest.
fn hex(digest: &[u8]) -> String {
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
