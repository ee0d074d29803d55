//! Values and weights of a program while it is built.

use super::{Built, Request, WeightOf};
use apr_engine::architecture::Roles;
use apr_engine::hints;
use apr_sdk::{
    DType, Error, Operation, PagedState, Program, Result, RowsOf, Slice, State, ValueSpec, WeightPart, escape,
};
use std::collections::{HashMap, HashSet};

/// A program in the making.
pub(super) struct Builder<'a> {
    pub(super) request: Request<'a>,
    program: Program,
    weights: Vec<WeightOf>,
    /// The weight of each tensor.
    by_name: HashMap<String, u32>,
    taps: Vec<(String, u32)>,
    /// Names of each operation's results.
    names: Vec<Vec<String>>,
    /// Names that were given to slices and that no operation's result has taken yet, the next one last.
    promised: Vec<(Slice, String)>,
    /// Values by what they hold, for the next layer to write over.
    by_purpose: HashMap<String, u32>,
    /// Prefix of the names of values.
    place: String,
    /// Tensors that the program uses.
    used: HashSet<String>,
}

/// The number as a number in a program.
fn number(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::limit("the program has more than 2^32 parts"))
}

/// The product of two widths.
pub(super) fn product(a: u32, b: u32) -> Result<u32> {
    a.checked_mul(b).ok_or_else(|| Error::limit(format!("a row of {a} x {b} elements is too wide")))
}

/// The sum of widths.
pub(super) fn sum(widths: &[u32]) -> Result<u32> {
    let sum = widths.iter().try_fold(0u32, |sum, width| sum.checked_add(*width));
    sum.ok_or_else(|| Error::limit("a row is too wide"))
}

/// A part of a slice.
pub(super) fn part_of(slice: Slice, first: u32, width: u32) -> Slice {
    Slice { value: slice.value, first: slice.first + first, width }
}

impl<'a> Builder<'a> {
    pub(super) fn new(request: Request<'a>) -> Builder<'a> {
        Builder {
            request,
            program: Program::default(),
            weights: Vec::new(),
            by_name: HashMap::new(),
            taps: Vec::new(),
            names: Vec::new(),
            promised: Vec::new(),
            by_purpose: HashMap::new(),
            place: String::new(),
            used: HashSet::new(),
        }
    }

    /// From here on, names of values begin with this.
    pub(super) fn at(&mut self, place: String) {
        self.place = place;
    }

    /// Appends an operation.
    pub(super) fn push(&mut self, operation: impl Into<Operation>) {
        let operation = operation.into();
        let writes = operation.writes();
        let mut names: Vec<String> = writes.iter().map(|slice| self.take_name(*slice)).collect();
        if names.is_empty() {
            names.push(format!("{}{}", self.place, operation.code().0.name()));
        }
        self.names.push(names);
        self.program.operations.push(operation);
    }

    /// Names what the next operation that writes a slice leaves there.
    pub(super) fn name(&mut self, slice: Slice, purpose: &str) {
        self.promised.push((slice, format!("{}{purpose}", self.place)));
    }

    /// The name for what an operation leaves in a slice. A slice that was named twice is written twice: the last name goes to
    /// the first result.
    fn take_name(&mut self, slice: Slice) -> String {
        match self.promised.iter().rposition(|(named, _)| *named == slice) {
            Some(at) => self.promised.remove(at).1,
            None => format!("{}value {}", self.place, slice.value),
        }
    }

    /// A value for a row of the batch.
    pub(super) fn value(&mut self, purpose: &str, width: u32) -> Result<Slice> {
        self.value_of(purpose, width, RowsOf::BATCH)
    }

    /// A value: the one that held the same in the layer before, unless every value keeps its own.
    pub(super) fn value_of(&mut self, purpose: &str, width: u32, rows: RowsOf) -> Result<Slice> {
        let spec = ValueSpec { width, rows };
        let known = self.by_purpose.get(purpose).copied().filter(|value| {
            let at = usize::try_from(*value).unwrap_or(usize::MAX);
            self.program.values.get(at) == Some(&spec)
        });
        if let Some(value) = known.filter(|_| !self.request.taps) {
            let slice = Slice { value, first: 0, width };
            self.name(slice, purpose);
            return Ok(slice);
        }
        let value = number(self.program.values.len())?;
        self.program.values.push(spec);
        let slice = Slice { value, first: 0, width };
        self.name(slice, purpose);
        if self.request.taps {
            self.taps.push((format!("{}{purpose}", self.place), value));
        } else {
            self.by_purpose.insert(purpose.to_owned(), value);
        }
        Ok(slice)
    }

    /// The slice for the result of an operation that may write over its input.
    pub(super) fn over(&mut self, input: Slice, purpose: &str) -> Result<Slice> {
        if self.request.taps {
            let at = usize::try_from(input.value).unwrap_or(usize::MAX);
            let rows = self.program.values.get(at).map_or(RowsOf::BATCH, |spec| spec.rows);
            return self.value_of(purpose, input.width, rows);
        }
        self.name(input, purpose);
        Ok(input)
    }

    /// A cache for a layer's keys and values.
    pub(super) fn state(&mut self, state: PagedState) -> Result<u32> {
        let at = number(self.program.states.len())?;
        self.program.states.push(State::Paged(state));
        Ok(at)
    }

    /// The cache's type.
    pub(super) fn cache(&self) -> DType {
        self.request.cache
    }

    /// Returns whether the model has the tensor with a role.
    pub(super) fn has(&self, roles: &Roles, role: &str) -> bool {
        roles.name(role).is_some_and(|name| (self.request.tensors)(name).is_some())
    }

    /// The weight of a role, which must have these dimensions; `None` if the model has no such tensor.
    ///
    /// # Errors
    /// Malformed for other dimensions, naming the tensor.
    pub(super) fn maybe(&mut self, roles: &Roles, role: &str, shape: &[u32]) -> Result<Option<u32>> {
        let Some(name) = roles.name(role) else { return Ok(None) };
        let Some(tensor) = (self.request.tensors)(name) else { return Ok(None) };
        let ones =
            tensor.shape.iter().take_while(|size| **size == 1).count().min(tensor.shape.len().max(1) - 1);
        let wanted_ones = shape.iter().take_while(|size| **size == 1).count().min(shape.len().max(1) - 1);
        if !tensor.shape[ones..].iter().copied().eq(shape[wanted_ones..].iter().map(|size| u64::from(*size)))
        {
            let expected: Vec<u64> = shape.iter().copied().map(u64::from).collect();
            let message = hints::shape_mismatch(Some(role), &tensor.shape, &expected);
            return Err(Error::malformed(message).tensor(name));
        }
        self.weight(name).map(Some)
    }

    /// The weight of a role that is needed.
    ///
    /// # Errors
    /// As [`Builder::maybe`]; Malformed if the model has no such tensor.
    pub(super) fn needs(&mut self, roles: &Roles, role: &str, shape: &[u32]) -> Result<u32> {
        let weight = self.maybe(roles, role, shape)?;
        weight.ok_or_else(|| match roles.name(role) {
            Some(name) => Error::malformed("the model has no such tensor").tensor(name),
            None => Error::invalid_argument(format!(
                "the [decoder] section of the architecture's table requires the role `{}`, but no tensor \
                 with its own name has it",
                escape(role, 80)
            )),
        })
    }

    /// The bias of a role: of `role.bias`.
    pub(super) fn bias(&mut self, roles: &Roles, role: &str, shape: &[u32]) -> Result<Option<u32>> {
        self.maybe(roles, &format!("{role}.bias"), shape)
    }

    /// WeightPart of a linear operation: the whole matrix of a role, with its bias.
    pub(super) fn part(&mut self, roles: &Roles, role: &str, columns: u32, out: Slice) -> Result<WeightPart> {
        let weight = self.needs(roles, role, &[out.width, columns])?;
        Ok(WeightPart { weight, first_row: 0, bias: self.bias(roles, role, &[out.width])?, out })
    }

    /// The weight of a tensor, as a matrix.
    pub(super) fn weight(&mut self, name: &str) -> Result<u32> {
        if let Some(known) = self.by_name.get(name) {
            return Ok(*known);
        }
        let at = number(self.weights.len())?;
        self.weights.push(WeightOf::Tensor(name.to_owned()));
        self.by_name.insert(name.to_owned(), at);
        self.used.insert(name.to_owned());
        Ok(at)
    }

    /// The elements of a tensor as one vector.
    ///
    /// # Errors
    /// Any error from reading; Malformed if it has another number of elements.
    pub(super) fn vector(&mut self, name: &str, columns: u32) -> Result<u32> {
        let values = (self.request.floats)(name)?;
        if u32::try_from(values.len()) != Ok(columns) {
            let message = format!("expected {columns} elements, found {}", values.len());
            return Err(Error::malformed(message).tensor(name));
        }
        let at = number(self.weights.len())?;
        self.weights.push(WeightOf::Literal { columns, values });
        self.used.insert(name.to_owned());
        Ok(at)
    }

    /// The tensor of a role among those that are read as numbers.
    pub(super) fn reads(&mut self, name: &str) -> Result<Vec<f32>> {
        self.used.insert(name.to_owned());
        (self.request.floats)(name)
    }

    /// Checks that a layer's program uses all its tensors, and that none is missing.
    ///
    /// # Errors
    /// Malformed for a tensor that every model of the architecture has but this one; Unsupported for one that is not used.
    pub(super) fn finish_layer(&self, roles: &Roles) -> Result<()> {
        for (role, name, required) in roles.all() {
            match (self.request.tensors)(name) {
                None if required => {
                    return Err(Error::malformed("the model has no such tensor").tensor(name));
                }
                Some(_) if !self.used.contains(name) => {
                    return Err(Error::unsupported(format!(
                        "the [decoder] section of the architecture's table does not use the role `{}`",
                        escape(role, 80)
                    ))
                    .tensor(name));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn build(self, output: u32) -> Built {
        Built { program: self.program, weights: self.weights, taps: self.taps, names: self.names, output }
    }
}
