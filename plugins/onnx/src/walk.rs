//! The bounded walk: visits every message that can contain a tensor, and records what encloses each tensor.

use crate::layout::{DEEPEST, attribute, function, graph, model, node, sparse, training, wire};
use crate::names::{Names, Piece};
use crate::operators;
use crate::scan::{Field, Scan};
use crate::tensor::{self, TensorProto};
use apr_sdk::{Error, ErrorKind, Result};

/// Tensors of strings whose names are kept.
const NAMED: usize = 4;

/// A message with a length that encloses a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The number of the message around it, which is smaller; `None` for those of the file itself.
    pub parent: Option<usize>,
    /// Where its length begins.
    pub len_at: u64,
    /// Where it begins, behind its length.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

/// A tensor of the file.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its unique name in the model.
    pub name: String,
    /// The number of its own frame.
    pub frame: usize,
    /// What its message says.
    pub proto: TensorProto,
}

/// A sparse tensor: two of the file's, by their numbers, and the shape that it stands for.
#[derive(Clone, Debug)]
pub struct Sparse {
    /// Index of the tensor that holds the values.
    pub values: usize,
    /// Where they lie.
    pub indices: usize,
    /// Its shape.
    pub dims: Vec<u64>,
}

/// What the walk found.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The tensors, in the file's order; those of strings are left out.
    pub tensors: Vec<Found>,
    /// The sparse tensors that have values and indices.
    pub sparse: Vec<Sparse>,
    /// The messages around them, each behind the one around it.
    pub frames: Vec<Frame>,
    /// The records of the outermost message, but for `graph`, `functions` and `training_info`.
    pub records: Vec<Field>,
    /// What the outermost graphs say: name, inputs, outputs.
    pub graph: Vec<Field>,
    /// Whether any node computes with codes of weights.
    pub has_codes: bool,
    /// How many nodes the outermost graph has.
    pub n_nodes: u64,
    /// How many functions there are.
    pub n_functions: u64,
    /// How many tensors of strings there are.
    pub n_strings: u64,
    /// The names of the first of them that have one.
    pub strings: Vec<String>,
    /// Whether there is a graph.
    pub has_graph: bool,
}

impl Index {
    /// Whether there is anything that makes a model.
    pub fn is_model(&self) -> bool {
        let known = |field: &Field| (model::IR_VERSION..=model::OPSET_IMPORT).contains(&field.number);
        self.has_graph || self.n_functions > 0 || self.records.iter().any(known)
    }
}

/// Walks the whole of a file.
///
/// # Errors
/// Malformed for what is no model; Unsupported; LimitExceeded for what is nested too deep or needs too much memory;
/// any error from reading.
pub fn walk(scan: &mut Scan<'_>) -> Result<Index> {
    let mut walker = Walker { scan, index: Index::default(), parents: Vec::new(), names: Names::default() };
    walker.model()?;
    let Walker { scan, mut index, names, .. } = walker;
    let unique = names.unique(scan.limits())?;
    for (tensor, name) in index.tensors.iter_mut().zip(unique) {
        tensor.name = name;
    }
    Ok(index)
}

/// What a message is called on the way to a tensor. That it is no text matters only if there is a tensor.
fn piece(name: Result<String>) -> Result<Piece> {
    match name {
        Ok(name) => Ok(Piece::Text(name)),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Piece::NoText(error)),
        Err(error) => Err(error),
    }
}

struct Walker<'s, 'a> {
    scan: &'s mut Scan<'a>,
    index: Index,
    /// The numbers of the frames around the place of the walk.
    parents: Vec<usize>,
    names: Names,
}

impl Walker<'_, '_> {
    fn model(&mut self) -> Result<()> {
        let end = self.scan.file_len();
        let (mut n_functions, mut n_trainings, mut at) = (0, 0, 0);
        while at < end {
            let field = self.scan.field(at, end)?;
            match field.number {
                model::GRAPH => {
                    self.index.has_graph = true;
                    self.inside(&field, Piece::None, |walker, field| walker.graph(field, true))?;
                }
                model::FUNCTIONS => {
                    let name = self.function_name(&field);
                    self.inside(&field, piece(name)?, Walker::function)?;
                    n_functions += 1;
                }
                model::TRAINING_INFO => {
                    let name = format!("training_info/{n_trainings}");
                    self.inside(&field, Piece::Text(name), Walker::training)?;
                    n_trainings += 1;
                }
                _ => self.keep_record(field)?,
            }
            at = field.end;
        }
        self.index.n_functions = n_functions;
        Ok(())
    }

    fn keep_record(&mut self, field: Field) -> Result<()> {
        self.scan.limits().budget.charge(2 * size_of::<Field>() as u64)?;
        self.index.records.push(field);
        Ok(())
    }

    /// Walks a message that may hold tensors: its frame is kept if it does.
    fn inside(
        &mut self,
        field: &Field,
        piece: Piece,
        walk: impl FnOnce(&mut Self, &Field) -> Result<()>,
    ) -> Result<()> {
        if field.wire != wire::LEN {
            let message =
                format!("field {} has wire type {}, expected 2 for a message", field.number, field.wire);
            return Err(self.scan.error(field.at, message));
        }
        if self.parents.len() >= DEEPEST {
            let message =
                format!("messages are nested more than {DEEPEST} levels deep, the limit of protobuf");
            return Err(self.scan.place(Error::limit(message), field.at));
        }
        let number = self.index.frames.len();
        let parent = self.parents.last().copied();
        let (len_at, start, end) = (field.len_at, field.start, field.end);
        self.index.frames.push(Frame { parent, len_at, start, end });
        self.parents.push(number);
        let is_named = self.names.enter(piece);
        let tensors = self.index.tensors.len();
        walk(self, field)?;
        self.names.leave(is_named);
        self.parents.pop();
        if self.index.tensors.len() == tensors {
            self.index.frames.truncate(number);
        } else {
            self.scan.limits().budget.charge(2 * size_of::<Frame>() as u64)?;
        }
        Ok(())
    }

    /// A graph; `outermost` for that of the model itself.
    fn graph(&mut self, field: &Field, outermost: bool) -> Result<()> {
        let mut n_nodes = 0;
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            match record.number {
                graph::NODE => {
                    let name = self.node_name(&record, n_nodes)?;
                    self.inside(&record, name, Walker::node)?;
                    n_nodes += 1;
                }
                graph::INITIALIZER => {
                    self.inside(&record, Piece::None, |walker, field| walker.tensor(field, None))?;
                }
                graph::SPARSE_INITIALIZER => {
                    self.inside(&record, Piece::None, Walker::sparse)?;
                }
                graph::NAME | graph::INPUT | graph::OUTPUT if outermost => {
                    self.scan.limits().budget.charge(2 * size_of::<Field>() as u64)?;
                    self.index.graph.push(record);
                }
                _ => {}
            }
            at = record.end;
        }
        if outermost {
            self.index.n_nodes += n_nodes;
        }
        Ok(())
    }

    /// The first value of field `number` in the message `field`, as a name.
    fn text(&mut self, field: &Field, number: u32) -> Result<Option<String>> {
        if field.wire != wire::LEN {
            return Ok(None);
        }
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            if record.number == number && record.wire == wire::LEN && record.len() > 0 {
                return self.scan.name(&record).map(Some);
            }
            at = record.end;
        }
        Ok(None)
    }

    /// A node is called by its name, else by its first output, else by its number.
    fn node_name(&mut self, field: &Field, number: u64) -> Result<Piece> {
        let mut name = Ok(None);
        for wanted in [node::NAME, node::OUTPUT] {
            if matches!(name, Ok(None)) {
                name = self.text(field, wanted);
            }
        }
        piece(name.map(|name| name.unwrap_or_else(|| format!("node.{number}"))))
    }

    fn node(&mut self, field: &Field) -> Result<()> {
        if !self.index.has_codes {
            let operator = self.text(field, node::OP_TYPE);
            self.index.has_codes = operator.is_ok_and(|name| name.is_some_and(|name| operators::has(&name)));
        }
        self.attributes(field, node::ATTRIBUTE)
    }

    /// The attributes in a message: of a node, or a function's defaults.
    fn attributes(&mut self, field: &Field, number: u32) -> Result<()> {
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            if record.number == number {
                let name = self.text(&record, attribute::NAME);
                let name = piece(name.map(|name| name.unwrap_or_else(|| "attribute".to_owned())))?;
                self.inside(&record, name, Walker::attribute)?;
            }
            at = record.end;
        }
        Ok(())
    }

    fn attribute(&mut self, field: &Field) -> Result<()> {
        let (mut n_tensors, mut n_graphs, mut n_sparse) = (0, 0, 0);
        let (mut has_tensor, mut has_sparse) = (false, false);
        let count = |n: &mut u64| {
            let piece = Piece::Text(n.to_string());
            *n += 1;
            piece
        };
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            match record.number {
                attribute::T | attribute::SPARSE_TENSOR => {
                    let is_tensor = record.number == attribute::T;
                    let before = if is_tensor { &mut has_tensor } else { &mut has_sparse };
                    if std::mem::replace(before, true) {
                        return Err(self.scan.error(record.at, "an attribute with two values"));
                    }
                    if is_tensor {
                        self.inside(&record, Piece::None, |walker, field| walker.tensor(field, Some("")))?;
                    } else {
                        self.inside(&record, Piece::None, Walker::sparse)?;
                    }
                }
                attribute::TENSORS => {
                    let piece = count(&mut n_tensors);
                    self.inside(&record, piece, |walker, field| walker.tensor(field, Some("")))?;
                }
                attribute::SPARSE_TENSORS => {
                    let piece = count(&mut n_sparse);
                    self.inside(&record, piece, Walker::sparse)?;
                }
                attribute::G => {
                    self.inside(&record, Piece::None, |walker, field| walker.graph(field, false))?
                }
                attribute::GRAPHS => {
                    let piece = count(&mut n_graphs);
                    self.inside(&record, piece, |walker, field| walker.graph(field, false))?;
                }
                _ => {}
            }
            at = record.end;
        }
        Ok(())
    }

    /// A sparse tensor is two: its values, which carry its name, and their indices.
    fn sparse(&mut self, field: &Field) -> Result<()> {
        let mut at = field.start;
        let name = self.sparse_name(field)?;
        let (mut values, mut indices, mut dims) = (None, None, Vec::new());
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            let next = self.index.tensors.len();
            let part = match record.number {
                sparse::VALUES => {
                    values = Some(next);
                    "values"
                }
                sparse::INDICES => {
                    indices = Some(next);
                    "indices"
                }
                _ => {
                    if record.number == sparse::DIMS {
                        self.sparse_dims(&record, &mut dims)?;
                    }
                    at = record.end;
                    continue;
                }
            };
            let own = if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
            self.inside(&record, Piece::None, |walker, field| walker.tensor(field, Some(&own)))?;
            at = record.end;
        }
        // One of texts is no tensor of the model, and has no number.
        let both = values.zip(indices).filter(|(a, b)| a != b && (*a).max(*b) < self.index.tensors.len());
        if let Some((values, indices)) = both {
            let cost = 2 * size_of::<Sparse>() + 8 * dims.len();
            self.scan.limits().budget.charge(cost as u64)?;
            self.index.sparse.push(Sparse { values, indices, dims });
        }
        Ok(())
    }

    /// Dimensions of a sparse tensor: one of them, or a packed run.
    fn sparse_dims(&mut self, field: &Field, dims: &mut Vec<u64>) -> Result<()> {
        let mut at = field.start;
        while at < field.end {
            let (value, end) = match field.wire {
                wire::VARINT => (field.value, field.end),
                wire::LEN => self.scan.varint(at, field.end)?,
                _ => return Err(self.scan.error(field.at, "dimensions that are not numbers")),
            };
            if value > i64::MAX.unsigned_abs() || dims.len() >= self.scan.limits().dims {
                return Err(self
                    .scan
                    .error(field.at, "a sparse tensor has a negative dimension, or too many dimensions"));
            }
            dims.push(value);
            at = end;
        }
        Ok(())
    }

    /// The name of a sparse tensor's values.
    fn sparse_name(&mut self, field: &Field) -> Result<String> {
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            if record.number == sparse::VALUES {
                return Ok(self.text(&record, crate::layout::tensor::NAME)?.unwrap_or_default());
            }
            at = record.end;
        }
        Ok(String::new())
    }

    /// A tensor, called by `called` or by its own name.
    fn tensor(&mut self, field: &Field, called: Option<&str>) -> Result<()> {
        let proto = tensor::read(self.scan, field)?;
        if proto.is_strings() {
            self.index.n_strings += 1;
            if self.index.strings.len() < NAMED && !proto.name.is_empty() {
                self.index.strings.push(proto.name);
            }
            return Ok(());
        }
        let limits = self.scan.limits();
        if self.index.tensors.len() as u64 >= limits.tensors {
            return Err(Error::limit(format!("the model has more than {} tensors", limits.tensors)));
        }
        // The record itself in a vector that doubles, its dimensions, and its name as it is and as it is looked for.
        let cost = 2 * size_of::<Found>() + 8 * proto.dims.len() + 2 * proto.name.len();
        limits.budget.charge(cost as u64).map_err(|e| self.scan.place(e, field.at))?;
        let own = called.or(proto.name_at.map(|_| proto.name.as_str()));
        self.names.add(own, limits).map_err(|e| self.scan.place(e, field.at))?;
        let frame = self.index.frames.len() - 1;
        self.index.tensors.push(Found { name: String::new(), frame, proto });
        Ok(())
    }

    /// `functions/DOMAIN.NAME` and the overload.
    fn function_name(&mut self, field: &Field) -> Result<String> {
        let mut name = "functions/".to_owned();
        for (number, before) in [(function::DOMAIN, ""), (function::NAME, "."), (function::OVERLOAD, ":")] {
            if let Some(text) = self.text(field, number)? {
                name += before;
                name += &text;
            }
        }
        Ok(name)
    }

    fn function(&mut self, field: &Field) -> Result<()> {
        self.attributes(field, function::ATTRIBUTE_PROTO)?;
        let (mut n_nodes, mut at) = (0, field.start);
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            if record.number == function::NODE {
                let name = self.node_name(&record, n_nodes)?;
                self.inside(&record, name, Walker::node)?;
                n_nodes += 1;
            }
            at = record.end;
        }
        Ok(())
    }

    fn training(&mut self, field: &Field) -> Result<()> {
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            let name = match record.number {
                training::INITIALIZATION => "initialization",
                training::ALGORITHM => "algorithm",
                _ => {
                    at = record.end;
                    continue;
                }
            };
            let piece = Piece::Text(name.to_owned());
            self.inside(&record, piece, |walker, field| walker.graph(field, false))?;
            at = record.end;
        }
        Ok(())
    }
}
