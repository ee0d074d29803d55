//! The nodes of a model with quantized weights, with the scopes in which their names mean something: the graph, the bodies of `If`,
//! `Loop` and `Scan`, and functions. They are read only where some node computes with codes.

use crate::kinds::Kind;
use crate::layout::{attribute, function, graph, model, node, sparse, value_info, wire};
use crate::scan::{Field, Scan};
use crate::walk::Found;
use apr_sdk::{ErrorKind, Result};
use std::collections::HashMap;

/// The most numbers of a list in an attribute: more are not those of scales.
const MOST_NUMBERS: usize = 4096;

/// A name as a number: equal names are equal numbers, so that a long one is compared once.
pub type Name = usize;

/// The number of the empty name, which is nothing.
pub const EMPTY: Name = 0;

/// A node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The scope that it is in.
    pub scope: usize,
    /// Its operator, or the function that it calls.
    pub operator: String,
    /// The operator's domain.
    pub domain: String,
    /// Which of several functions of one name.
    pub overload: String,
    /// What it does.
    pub kind: Kind,
    /// What it reads.
    pub inputs: Vec<Name>,
    /// What it computes.
    pub outputs: Vec<Name>,
    /// Its attributes that are numbers or tensors.
    pub attributes: Vec<(Name, Attribute)>,
    /// The scopes of graphs in its attributes.
    pub inner: Vec<usize>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A whole number.
    Int(i64),
    /// A float, or a list of numbers.
    Numbers(Vec<f64>),
    /// A tensor of the model.
    Tensor(usize),
    /// The values of a sparse tensor, as a tensor of the model.
    Sparse(usize),
    /// That of the function's attribute of this name.
    OfFunction(Name),
}

/// Where names mean something.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The scope around it, whose names mean the same here.
    pub parent: Option<usize>,
    /// The node that it is an attribute of; `None` for a default of the function around it.
    pub owner: Option<usize>,
    /// The attribute that it is the value of.
    pub attribute: Name,
    /// The names of its inputs, in order; those of the outermost graph are left out.
    pub inputs: Vec<Name>,
    /// The names of its outputs likewise.
    pub outputs: Vec<Name>,
    /// The defaults of a function's attributes.
    pub defaults: Vec<(Name, Attribute)>,
    /// The tensors that names mean here.
    pub initializers: Vec<(Name, usize)>,
    /// The values of sparse tensors that names mean here.
    pub sparse: Vec<(Name, usize)>,
    /// Its nodes.
    pub nodes: Vec<usize>,
    /// The scopes within.
    pub inner: Vec<usize>,
}

/// All of them. Scope 0 is the outermost graph.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The scopes.
    pub scopes: Vec<Scope>,
    /// The scopes of functions, by domain, name and overload.
    pub functions: HashMap<[String; 3], usize>,
    /// The numbers of names.
    pub names: HashMap<String, Name>,
}

impl Nodes {
    /// The outermost scope around one: the graph, or a function.
    pub fn outermost(&self, mut scope: usize) -> usize {
        while let Some(parent) = self.scopes[scope].parent {
            scope = parent;
        }
        scope
    }
}

/// Reads the nodes of a file that [`crate::walk::walk`] found to be sound. Graphs for training are left out.
///
/// # Errors
/// LimitExceeded; any error from reading.
pub fn read(scan: &mut Scan<'_>, tensors: &[Found]) -> Result<Nodes> {
    let numbered = tensors.iter().enumerate().map(|(number, found)| (found.proto.body.0, number));
    scan.limits().budget.charge(40 * tensors.len() as u64)?;
    let nodes = Nodes {
        nodes: Vec::new(),
        scopes: vec![Scope::default()],
        functions: HashMap::new(),
        names: HashMap::from([(String::new(), EMPTY)]),
    };
    let mut reader = NodeReader { scan, tensors: numbered.collect(), found: tensors, nodes };
    let mut at = 0;
    while at < reader.scan.file_len() {
        let record = reader.scan.field(at, reader.scan.file_len())?;
        match record.number {
            model::GRAPH => reader.graph(&record, 0)?,
            model::FUNCTIONS => reader.function(&record)?,
            _ => {}
        }
        at = record.end;
    }
    Ok(reader.nodes)
}

struct NodeReader<'s, 'a> {
    scan: &'s mut Scan<'a>,
    /// The model's tensors by where their messages begin.
    tensors: HashMap<u64, usize>,
    found: &'s [Found],
    nodes: Nodes,
}

impl NodeReader<'_, '_> {
    /// The number of a name.
    fn number_of(&mut self, name: &str) -> Result<Name> {
        if let Some(known) = self.nodes.names.get(name) {
            return Ok(*known);
        }
        let cost = 2 * size_of::<(String, Name)>() + name.len();
        self.scan.limits().budget.charge(cost as u64)?;
        let number = self.nodes.names.len();
        self.nodes.names.insert(name.to_owned(), number);
        Ok(number)
    }

    /// The number of the name that a record holds.
    fn name(&mut self, field: &Field) -> Result<Name> {
        let name = text(self.scan, field)?;
        self.number_of(&name)
    }

    /// The name of an input or output of a scope.
    fn end(&mut self, field: &Field) -> Result<Name> {
        self.scan.limits().budget.charge(2 * size_of::<Name>() as u64)?;
        self.name(field)
    }

    /// A tensor, by the name that its own message says.
    fn named(&mut self, tensor: Option<usize>) -> Result<Option<(Name, usize)>> {
        let Some(tensor) = tensor else { return Ok(None) };
        self.scan.limits().budget.charge(2 * size_of::<(Name, usize)>() as u64)?;
        let name = &self.found[tensor].proto.name;
        Ok(Some((self.number_of(name)?, tensor)))
    }

    fn scope(&mut self, parent: Option<usize>, owner: Option<usize>) -> Result<usize> {
        self.scan.limits().budget.charge(2 * size_of::<Scope>() as u64)?;
        let number = self.nodes.scopes.len();
        self.nodes.scopes.push(Scope { parent, owner, ..Scope::default() });
        if let Some(parent) = parent {
            self.nodes.scopes[parent].inner.push(number);
        }
        Ok(number)
    }

    fn graph(&mut self, field: &Field, scope: usize) -> Result<()> {
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            match record.number {
                graph::NODE => self.node(&record, scope)?,
                graph::INITIALIZER => {
                    let tensor = self.named(self.tensors.get(&record.start).copied())?;
                    self.nodes.scopes[scope].initializers.extend(tensor);
                }
                graph::SPARSE_INITIALIZER => {
                    let values = self.values_of_sparse(&record)?;
                    let values = self.named(values)?;
                    self.nodes.scopes[scope].sparse.extend(values);
                }
                graph::INPUT | graph::OUTPUT if scope > 0 => {
                    if let Some(name) = first(self.scan, &record, value_info::NAME)? {
                        let name = self.end(&name)?;
                        let of = &mut self.nodes.scopes[scope];
                        if record.number == graph::INPUT { &mut of.inputs } else { &mut of.outputs }
                            .push(name);
                    }
                }
                _ => {}
            }
            at = record.end;
        }
        Ok(())
    }

    fn function(&mut self, field: &Field) -> Result<()> {
        let scope = self.scope(None, None)?;
        let mut key = [const { String::new() }; 3];
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            match record.number {
                function::NODE => self.node(&record, scope)?,
                function::INPUT => {
                    let name = self.end(&record)?;
                    self.nodes.scopes[scope].inputs.push(name);
                }
                function::OUTPUT => {
                    let name = self.end(&record)?;
                    self.nodes.scopes[scope].outputs.push(name);
                }
                function::DOMAIN => key[0] = text(self.scan, &record)?,
                function::NAME => key[1] = text(self.scan, &record)?,
                function::OVERLOAD => key[2] = text(self.scan, &record)?,
                function::ATTRIBUTE_PROTO => {
                    let default = self.attribute(&record)?;
                    self.scan.limits().budget.charge(2 * size_of::<(Name, Attribute)>() as u64)?;
                    self.nodes.scopes[scope].defaults.extend(default);
                    self.graphs(&record, scope, None)?;
                }
                _ => {}
            }
            at = record.end;
        }
        self.nodes.functions.insert(key, scope);
        Ok(())
    }

    /// A node, and the graphs in its attributes.
    fn node(&mut self, field: &Field, scope: usize) -> Result<()> {
        let mut found = Node { scope, ..Node::default() };
        for (number, out) in [(node::OP_TYPE, &mut found.operator), (node::DOMAIN, &mut found.domain)] {
            if let Some(record) = first(self.scan, field, number)? {
                *out = text(self.scan, &record)?;
            }
        }
        found.kind = Kind::of(&found.domain, &found.operator);
        let number = self.nodes.nodes.len();
        self.ends(field, &mut found)?;
        self.nodes.nodes.push(found);
        self.nodes.scopes[scope].nodes.push(number);
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            if record.number == node::ATTRIBUTE {
                self.graphs(&record, scope, Some(number))?;
            }
            at = record.end;
        }
        Ok(())
    }

    /// Inputs, outputs, numbers and tensors of a node.
    fn ends(&mut self, field: &Field, found: &mut Node) -> Result<()> {
        let mut cost = size_of::<Node>();
        let mut at = field.start;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            match record.number {
                node::INPUT => found.inputs.push(self.name(&record)?),
                node::OUTPUT => found.outputs.push(self.name(&record)?),
                node::OVERLOAD => found.overload = text(self.scan, &record)?,
                node::ATTRIBUTE => {
                    if let Some(attribute) = self.attribute(&record)? {
                        cost += size_of::<(Name, Attribute)>();
                        found.attributes.push(attribute);
                    }
                }
                _ => {}
            }
            at = record.end;
        }
        cost += (found.inputs.len() + found.outputs.len()) * size_of::<Name>();
        cost += found.operator.len() + found.domain.len() + found.overload.len();
        self.scan.limits().budget.charge(2 * cost as u64)
    }

    /// The graphs that an attribute holds, of a node or by default of a function.
    fn graphs(&mut self, field: &Field, scope: usize, owner: Option<usize>) -> Result<()> {
        let mut at = field.start;
        let mut name = None;
        while at < field.end {
            let record = self.scan.field(at, field.end)?;
            if let attribute::G | attribute::GRAPHS = record.number {
                let inner = self.scope(Some(scope), owner)?;
                let of = match name {
                    Some(name) => name,
                    None => match last(self.scan, field, attribute::NAME)? {
                        Some(record) => self.name(&record)?,
                        None => EMPTY,
                    },
                };
                name = Some(of);
                self.nodes.scopes[inner].attribute = of;
                if let Some(owner) = owner {
                    self.nodes.nodes[owner].inner.push(inner);
                }
                self.graph(&record, inner)?;
            }
            at = record.end;
        }
        Ok(())
    }

    /// The tensor of a sparse tensor's values.
    fn values_of_sparse(&mut self, field: &Field) -> Result<Option<usize>> {
        let values = first(self.scan, field, sparse::VALUES)?;
        Ok(values.and_then(|values| self.tensors.get(&values.start).copied()))
    }

    /// The name and the value of an attribute that is a number, a list of numbers or a tensor; `None` for another.
    fn attribute(&mut self, field: &Field) -> Result<Option<(Name, Attribute)>> {
        let (mut name, mut value) = (EMPTY, None);
        let (mut numbers, mut is_list) = (Vec::new(), false);
        let mut at = field.start;
        while field.wire == wire::LEN && at < field.end {
            let record = self.scan.field(at, field.end)?;
            match (record.number, record.wire) {
                (attribute::NAME, _) => name = self.name(&record)?,
                (attribute::I, wire::VARINT) => value = Some(Attribute::Int(record.value.cast_signed())),
                (attribute::F, wire::I32) => value = Some(Attribute::Numbers(floats(self.scan, &record)?)),
                (attribute::REF, wire::LEN) => {
                    value = Some(Attribute::OfFunction(self.name(&record)?));
                }
                (attribute::T, _) => {
                    value = self.tensors.get(&record.start).copied().map(Attribute::Tensor);
                }
                (attribute::SPARSE_TENSOR, _) => {
                    value = self.values_of_sparse(&record)?.map(Attribute::Sparse);
                }
                (attribute::FLOATS, wire::I32 | wire::LEN) if numbers.len() <= MOST_NUMBERS => {
                    is_list = true;
                    numbers.extend(floats(self.scan, &record)?);
                }
                (attribute::INTS, wire::VARINT) if numbers.len() <= MOST_NUMBERS => {
                    is_list = true;
                    numbers.push(whole(record.value));
                }
                (attribute::INTS, wire::LEN) => {
                    is_list = true;
                    let mut at = record.start;
                    while at < record.end && numbers.len() <= MOST_NUMBERS {
                        let (number, end) = self.scan.varint(at, record.end)?;
                        numbers.push(whole(number));
                        at = end;
                    }
                }
                _ => {}
            }
            at = record.end;
        }
        let list = (is_list && numbers.len() <= MOST_NUMBERS).then_some(Attribute::Numbers(numbers));
        if let Some(Attribute::Numbers(numbers)) = &list {
            self.scan.limits().budget.charge(8 * numbers.len() as u64)?;
        }
        Ok(value.or(list).map(|value| (name, value)))
    }
}

/// The first record of a message with this number.
fn first(scan: &mut Scan<'_>, field: &Field, number: u32) -> Result<Option<Field>> {
    let mut at = field.start;
    while field.wire == wire::LEN && at < field.end {
        let record = scan.field(at, field.end)?;
        if record.number == number {
            return Ok(Some(record));
        }
        at = record.end;
    }
    Ok(None)
}

/// The last record of a message with this number: of several values of a field, protobuf takes that.
fn last(scan: &mut Scan<'_>, field: &Field, number: u32) -> Result<Option<Field>> {
    let (mut found, mut at) = (None, field.start);
    while field.wire == wire::LEN && at < field.end {
        let record = scan.field(at, field.end)?;
        if record.number == number {
            found = Some(record);
        }
        at = record.end;
    }
    Ok(found)
}

/// A text. What is none is not the name of a tensor either, and counts as empty.
fn text(scan: &mut Scan<'_>, field: &Field) -> Result<String> {
    if field.wire != wire::LEN {
        return Ok(String::new());
    }
    match scan.name(field) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(String::new()),
        name => name,
    }
}

#[allow(clippy::cast_precision_loss, reason = "a zero point beyond 2^53 is no code, and refused")]
fn whole(value: u64) -> f64 {
    value.cast_signed() as f64
}

/// The floats of a record. Too many of them, and what ends within one, are as many as no scales are.
fn floats(scan: &mut Scan<'_>, record: &Field) -> Result<Vec<f64>> {
    if record.len() > 4 * MOST_NUMBERS as u64 || !record.len().is_multiple_of(4) {
        return Ok(vec![0.0; MOST_NUMBERS + 1]);
    }
    let bytes = scan.bytes(record)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect())
}
