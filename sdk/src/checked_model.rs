//! The model as a writer gets it. Whatever the target format cannot hold was refused before, in one place for
//! host, plugins and tests.

use crate::manifest::{Carries, NameRule};
use crate::{DType, Error, Model, Payload, Tensor};
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;

/// A model that a format can hold: names are unique, every size is known and supported. Derefs to [`Model`].
///
/// Where the payload lies is no concern of a writer, so every tensor's payload is [`Payload::Sequential`],
/// whatever it was: writers cannot come to depend on it, and a new way to store payload breaks none of them.
#[derive(Clone, Debug)]
pub struct CheckedModel(Model);

impl CheckedModel {
    /// Checks `model` against what a format can hold, and drops the location of its payloads.
    ///
    /// # Errors
    /// The first thing the format cannot hold, with its tensor; see [`Carries::check`].
    pub fn new(mut model: Model, carries: &Carries) -> Result<CheckedModel, Refusal> {
        carries.check(&model)?;
        model.tensors.iter_mut().for_each(|tensor| tensor.payload = Payload::Sequential);
        Ok(CheckedModel(model))
    }

    /// Lets `change` edit everything but the tensors: it sees none, and any it adds are dropped.
    pub fn with_rest<T>(&mut self, change: impl FnOnce(&mut Model) -> T) -> T {
        let tensors = std::mem::take(&mut self.0.tensors);
        let value = change(&mut self.0);
        self.0.tensors = tensors;
        value
    }

    /// The model, for editing; it no longer counts as checked.
    pub fn into_inner(self) -> Model {
        self.0
    }
}

impl Deref for CheckedModel {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.0
    }
}

/// The reason why a format cannot hold a model.
#[derive(Debug)]
pub struct Refusal {
    /// The obstacle.
    pub obstacle: Obstacle,
    /// The refused tensor; `None` if the model as a whole is refused.
    pub tensor: Option<String>,
}

/// A property of the model or of one of its tensors that a format cannot hold.
#[derive(Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// The model has this many tensors, but a file of the format holds exactly one.
    Count(usize),
    /// The tensor has this type.
    DType(DType),
    /// The tensor has more dimensions than `limit`.
    Dims {
        /// The tensor's number of dimensions.
        have: usize,
        /// The most dimensions the format allows.
        limit: usize,
    },
    /// The tensor's name is longer than `limit`.
    NameBytes {
        /// The name's length in bytes.
        have: usize,
        /// The most bytes the format allows.
        limit: usize,
    },
    /// The tensor's name contains control characters.
    NameControls,
    /// The tensor has this shape, and one of its dimensions is 0.
    ZeroSize(Vec<u64>),
    /// The tensor is a scalar: it has no dimensions.
    Scalar,
    /// The tensor's size cannot be computed: it overflows, or is not a whole number of blocks. No format
    /// holds that.
    Size(Error),
    /// An earlier tensor has the same name. No format holds that.
    SameName,
}

impl Refusal {
    /// The error for the format called `format`, whose name begins the message. Malformed for sizes and names
    /// that no format holds, Unsupported for everything else.
    pub fn error(self, format: &str) -> Error {
        let error = match self.obstacle {
            Obstacle::Size(error) => error,
            Obstacle::SameName => Error::malformed("two tensors in the model have this name"),
            obstacle => Error::unsupported(format!("{format} {obstacle}")),
        };
        match self.tensor {
            Some(name) => error.tensor(&name),
            None => error,
        }
    }
}

impl fmt::Display for Obstacle {
    /// Writes the obstacle without the format's name: `cannot hold F64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Count(1) => f.write_str("holds exactly one tensor, but the model has 1 tensor"),
            Obstacle::Count(have) => write!(f, "holds exactly one tensor, but the model has {have} tensors"),
            Obstacle::DType(dtype) => write!(f, "cannot hold {dtype}"),
            Obstacle::Dims { have, limit } => write!(f, "holds at most {limit} dimensions, this has {have}"),
            Obstacle::NameBytes { have, limit } => {
                write!(f, "holds names of at most {limit} bytes, this has {have}")
            }
            Obstacle::NameControls => f.write_str("cannot hold control characters in a name"),
            Obstacle::ZeroSize(shape) => write!(f, "cannot hold a dimension of size 0, as in {shape:?}"),
            Obstacle::Scalar => f.write_str("cannot hold a tensor without dimensions"),
            Obstacle::Size(error) => write!(f, "cannot hold this: {}", error.message()),
            Obstacle::SameName => f.write_str("cannot hold two tensors with the same name"),
        }
    }
}

impl Carries {
    /// Checks that the format can hold `model`: the number of tensors, and each tensor's dtype, dimensions,
    /// name and size. Metadata is checked where it is created.
    ///
    /// # Errors
    /// The first obstacle in the model's order; duplicate names come last.
    pub fn check(&self, model: &Model) -> Result<(), Refusal> {
        if self.one_tensor && model.tensors.len() != 1 {
            return Err(Refusal { obstacle: Obstacle::Count(model.tensors.len()), tensor: None });
        }
        for tensor in &model.tensors {
            if let Some(obstacle) = self.obstacle(tensor) {
                return Err(Refusal { obstacle, tensor: Some(tensor.name.clone()) });
            }
        }
        match same_name(&model.tensors) {
            Some(twice) => Err(Refusal { obstacle: Obstacle::SameName, tensor: Some(twice.name.clone()) }),
            None => Ok(()),
        }
    }

    fn obstacle(&self, tensor: &Tensor) -> Option<Obstacle> {
        let Tensor { name, dtype, shape, .. } = tensor;
        if !self.dtype(dtype.name()) {
            return Some(Obstacle::DType(*dtype));
        }
        if shape.len() > self.max_dims {
            return Some(Obstacle::Dims { have: shape.len(), limit: self.max_dims });
        }
        if name.len() > self.max_name_bytes {
            return Some(Obstacle::NameBytes { have: name.len(), limit: self.max_name_bytes });
        }
        let has_refused = match self.names {
            NameRule::NoNul => name.contains('\0'),
            NameRule::NoControl => name.contains(char::is_control),
            NameRule::Any => false,
        };
        if has_refused {
            return Some(Obstacle::NameControls);
        }
        if !self.zero_size && shape.contains(&0) {
            return Some(Obstacle::ZeroSize(shape.clone()));
        }
        if !self.scalars && shape.is_empty() {
            return Some(Obstacle::Scalar);
        }
        tensor.payload_len().err().map(Obstacle::Size)
    }
}

/// The first tensor whose name an earlier one has. Names are compared by hash: a million of them cost 8 MB.
fn same_name(tensors: &[Tensor]) -> Option<&Tensor> {
    let keys = RandomState::new();
    let mut hashes: Vec<u64> = tensors.iter().map(|tensor| keys.hash_one(&tensor.name)).collect();
    hashes.sort_unstable();
    if hashes.windows(2).all(|pair| pair[0] != pair[1]) {
        return None;
    }
    let mut names = HashSet::with_capacity(tensors.len());
    tensors.iter().find(|tensor| !names.insert(tensor.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Extent};

    fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Tensor {
        let payload = Payload::Extent { extent: Extent::new(3, 5, 8), view: None };
        Tensor { name: name.to_owned(), dtype, shape: shape.to_vec(), payload }
    }

    fn model(tensors: &[Tensor]) -> Model {
        Model { tensors: tensors.to_vec(), ..Model::default() }
    }

    /// The refusal of `tensors` by `carries`: kind, message and tensor, without the hint.
    fn refused(tensors: &[Tensor], carries: &Carries) -> (ErrorKind, String, Option<String>) {
        let error = CheckedModel::new(model(tensors), carries).unwrap_err().error("Toy");
        (error.kind(), error.message().to_owned(), error.tensor_name().map(str::to_owned))
    }

    /// The message for `odd` when it follows a tensor that is accepted.
    fn refused_one(odd: Tensor, carries: &Carries) -> String {
        let name = odd.name.clone();
        let (kind, message, tensor) = refused(&[tensor("held", DType::F32, &[2]), odd], carries);
        assert_eq!((kind, tensor), (ErrorKind::Unsupported, Some(name)));
        message
    }

    #[test]
    fn a_held_model_has_everything_but_its_payloads() {
        let given = Model { dialect: "hf".into(), ..model(&[tensor("a", DType::F32, &[2])]) };
        let checked = CheckedModel::new(given, &Carries::default()).unwrap();
        assert_eq!((checked.dialect.as_str(), checked.tensors[0].payload_len().unwrap()), ("hf", 8));
        assert_eq!(checked.tensors[0].payload, Payload::Sequential);
        assert_eq!(checked.into_inner().tensors[0].shape, [2]);
    }

    #[test]
    fn everything_but_its_tensors_may_change() {
        let mut checked =
            CheckedModel::new(model(&[tensor("a", DType::F32, &[2])]), &Carries::default()).unwrap();
        let seen = checked.with_rest(|rest| {
            let seen = rest.tensors.len();
            rest.tensors.push(tensor("b", DType::F32, &[2]));
            rest.dialect = "hf".into();
            seen
        });
        let names: Vec<_> = checked.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!((seen, checked.dialect.as_str(), names), (0, "hf", vec!["a"]));
    }

    #[test]
    fn rejects_another_number_of_tensors_than_one() {
        let carries = Carries { one_tensor: true, ..Carries::default() };
        let two = [tensor("a", DType::F32, &[2]), tensor("b", DType::F32, &[2])];
        let (kind, message, tensor) = refused(&two, &carries);
        assert_eq!(message, "Toy holds exactly one tensor, but the model has 2 tensors");
        assert_eq!((kind, tensor), (ErrorKind::Unsupported, None));
        assert_eq!(refused(&[], &carries).1, "Toy holds exactly one tensor, but the model has 0 tensors");
        CheckedModel::new(model(&two[..1]), &carries).unwrap();
    }

    #[test]
    fn rejects_two_tensors_of_one_name() {
        let tensors = ["a", "b", "c", "b"].map(|name| tensor(name, DType::F32, &[2]));
        let (kind, message, tensor) = refused(&tensors, &Carries::default());
        assert_eq!((kind, tensor.as_deref()), (ErrorKind::Malformed, Some("b")));
        assert_eq!(message, "two tensors in the model have this name");
    }

    #[test]
    fn rejects_sizes_that_overflow_or_are_no_whole_blocks() {
        for (odd, want) in [
            (tensor("big", DType::F32, &[1 << 40, 1 << 40]), "more than"),
            (
                tensor("odd", DType::Q8_0, &[2, 33]),
                "rows of 33 elements are not a multiple of the Q8_0 block size 32",
            ),
            (tensor("no", DType(1 << 30), &[2]), "dtype number 1073741824 is not in this version's table"),
        ] {
            let name = odd.name.clone();
            let (_, message, tensor) = refused(&[odd], &Carries::default());
            assert_eq!(tensor, Some(name));
            assert!(message.contains(want), "{message}");
        }
    }

    #[test]
    fn rejects_what_the_manifest_does_not_carry() {
        let carries = Carries {
            dtypes: Some(vec!["F32".into()]),
            max_dims: 2,
            max_name_bytes: 5,
            names: NameRule::NoControl,
            zero_size: false,
            scalars: false,
            ..Carries::default()
        };
        for (odd, want) in [
            (tensor("a", DType::F16, &[2]), "Toy cannot hold F16"),
            (tensor("a", DType::F32, &[1, 1, 2]), "Toy holds at most 2 dimensions, this has 3"),
            (tensor("abcdef", DType::F32, &[2]), "Toy holds names of at most 5 bytes, this has 6"),
            (tensor("a\nb", DType::F32, &[2]), "Toy cannot hold control characters in a name"),
            (tensor("a", DType::F32, &[2, 0]), "Toy cannot hold a dimension of size 0, as in [2, 0]"),
            (tensor("a", DType::F32, &[]), "Toy cannot hold a tensor without dimensions"),
        ] {
            assert_eq!(refused_one(odd, &carries), want);
        }
    }

    #[test]
    fn rejects_nul_alone_where_that_is_the_rule() {
        let carries = Carries { names: NameRule::NoNul, ..Carries::default() };
        let refused = refused_one(tensor("a\0b", DType::F32, &[2]), &carries);
        assert_eq!(refused, "Toy cannot hold control characters in a name");
        CheckedModel::new(model(&[tensor("a\nb", DType::F32, &[2])]), &carries).unwrap();
    }
}
