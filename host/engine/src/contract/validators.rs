//! Tensors that have been examined and found valid. Only its validator can create each type, so that whoever
//! holds a value need not check again (FALSIFY-002).
//!
//! There is no other way to get one. The fields are private:
//!
//! ```compile_fail,E0451
//! use apr_engine::contract::{Receipt, ValidatedEmbedding};
//! fn forge(tensor: apr_sdk::Tensor, receipt: Receipt) -> ValidatedEmbedding {
//!     ValidatedEmbedding { tensor, receipt }
//! }
//! ```
//!
//! there is no constructor and no default:
//!
//! ```compile_fail,E0599
//! let embedding = apr_engine::contract::ValidatedEmbedding::new(vec![0.1f32; 1000], 100, 10);
//! ```
//!
//! ```compile_fail,E0277
//! fn make<T: Default>() -> T {
//!     T::default()
//! }
//! let weight: apr_engine::contract::ValidatedWeight = make();
//! ```
//!
//! a receipt cannot be made up:
//!
//! ```compile_fail,E0423
//! let receipt = apr_engine::contract::Receipt(apr_engine::contract::Statistics::default());
//! ```
//!
//! plain numbers cannot stand in for one:
//!
//! ```compile_fail,E0308
//! struct Loaded {
//!     embedding: apr_engine::contract::ValidatedEmbedding,
//! }
//! let loaded = Loaded { embedding: vec![0.1f32; 1000] };
//! ```
//!
//! nor can one type for another:
//!
//! ```compile_fail,E0308
//! use apr_engine::contract::{ValidatedEmbedding, ValidatedWeight};
//! fn give(weight: ValidatedWeight) -> ValidatedEmbedding {
//!     weight
//! }
//! ```
//!
//! and a validator can be finished only once:
//!
//! ```compile_fail,E0382
//! use apr_engine::contract::{ValidatedVector, Validator};
//! fn twice(validator: Validator<ValidatedVector>) {
//!     let first = validator.finish();
//!     let second = validator.finish();
//! }
//! ```
//!
//! The proper way:
//!
//! ```
//! use apr_engine::contract::Validator;
//! use apr_sdk::{DType, Extent, Payload, Tensor};
//! let payload = Payload::Extent { extent: Extent::new(0, 0, 8), view: None };
//! let norm = Tensor { name: "norm".to_owned(), dtype: DType::F32, shape: vec![2], payload };
//! let validator = Validator::vector(&norm, 2)?;
//! validator.see(0, &[1.0f32, 0.5].map(f32::to_le_bytes).concat());
//! let norm = validator.finish()?;
//! assert_eq!(norm.receipt().statistics().mean, Some(0.75));
//! # Ok::<(), apr_sdk::Error>(())
//! ```

use super::rules::{Kind, judge, shape_rule};
use super::statistics::{Statistics, StatisticsBuilder};
use apr_sdk::{Error, Result, Tensor};
use std::marker::PhantomData;

/// The streaming validator's statistics of a tensor that breaks no rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt(Statistics);

impl Receipt {
    /// The statistics.
    pub fn statistics(&self) -> &Statistics {
        &self.0
    }
}

/// Examines a tensor while its bytes pass through; [`finish`](Validator::<ValidatedEmbedding>::finish)
/// returns a `V` if it breaks no rule. The tensor itself is not held in memory.
pub struct Validator<V> {
    tensor: Tensor,
    kind: Kind,
    builder: StatisticsBuilder,
    gives: PhantomData<fn() -> V>,
}

impl<V> Validator<V> {
    fn new(tensor: &Tensor, kind: Kind) -> Result<Validator<V>> {
        let builder = StatisticsBuilder::new(tensor, kind == Kind::Embedding)?;
        Ok(Validator { tensor: tensor.clone(), kind, builder, gives: PhantomData })
    }

    /// Examines the bytes at offset `at` of the payload, row-major and little-endian. Each byte must come
    /// exactly once; pieces may come in any order and be cut anywhere.
    pub fn see(&self, at: u64, bytes: &[u8]) {
        self.builder.see(at, bytes);
    }

    fn judged(self) -> Result<(Tensor, Receipt)> {
        let statistics = self.builder.build().map_err(|e| e.tensor(&self.tensor.name))?;
        match judge(self.kind, &statistics).into_iter().next() {
            Some(broken) => Err(Error::failed(broken.what).code(broken.code).tensor(&self.tensor.name)),
            None => Ok((self.tensor, Receipt(statistics))),
        }
    }
}

macro_rules! validated {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            tensor: Tensor,
            receipt: Receipt,
        }

        impl $name {
            /// The tensor's declaration: name, dtype, shape, and where its payload is.
            pub fn tensor(&self) -> &Tensor {
                &self.tensor
            }

            /// The validator's statistics.
            pub fn receipt(&self) -> &Receipt {
                &self.receipt
            }
        }

        impl Validator<$name> {
            /// Returns the tensor with its receipt.
            ///
            /// # Errors
            /// Failed, with the code of the first rule that it breaks, or if some of its bytes were not seen.
            pub fn finish(self) -> Result<$name> {
                let (tensor, receipt) = self.judged()?;
                Ok($name { tensor, receipt })
            }
        }
    };
}

validated! {
    /// A token embedding of `[vocabulary, hidden]`: finite, less than half zeros, less than a quarter dead
    /// rows.
    ValidatedEmbedding
}
validated! {
    /// A weight of `[out, in]`: finite, less than 80 % zeros.
    ValidatedWeight
}
validated! {
    /// A vector of a given length: finite.
    ValidatedVector
}

impl Validator<ValidatedEmbedding> {
    /// A validator for a token embedding.
    ///
    /// # Errors
    /// Failed for a different shape; Unsupported for a type that cannot be examined.
    pub fn embedding(tensor: &Tensor, vocabulary: u64, hidden: u64) -> Result<Self> {
        check_shape(tensor, Some("embedding"), &[vocabulary, hidden])?;
        Validator::new(tensor, Kind::Embedding)
    }
}

impl Validator<ValidatedWeight> {
    /// A validator for a weight that a kernel reads as `[out, in]`. A wrong shape breaks a rule of its own
    /// for the role `output`.
    ///
    /// # Errors
    /// Failed for a different shape; Unsupported for a type that cannot be examined.
    pub fn weight(tensor: &Tensor, role: Option<&str>, out_size: u64, in_size: u64) -> Result<Self> {
        check_shape(tensor, role, &[out_size, in_size])?;
        Validator::new(tensor, Kind::Weight)
    }
}

impl Validator<ValidatedVector> {
    /// A validator for a vector, such as a norm or a bias.
    ///
    /// # Errors
    /// Failed for a different shape or no elements (PMAT-332); Unsupported for a type that cannot be
    /// examined.
    pub fn vector(tensor: &Tensor, len: u64) -> Result<Self> {
        check_shape(tensor, None, &[len])?;
        Validator::new(tensor, Kind::Vector)
    }
}

fn check_shape(tensor: &Tensor, role: Option<&str>, want: &[u64]) -> Result<()> {
    if tensor.shape == want && !want.contains(&0) {
        return Ok(());
    }
    let message = match want.contains(&0) {
        true => format!("its shape has no elements, expected {want:?}"),
        false => format!("its shape is {:?}, expected {want:?}", tensor.shape),
    };
    Err(Error::failed(message).code(shape_rule(role, want.len())).tensor(&tensor.name))
}
