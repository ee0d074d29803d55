//! What a scheme is: a way to announce, name and store packed weights.

use crate::model::{Found, Model};
use crate::{
    awq, bitnet, bitsandbytes, compressed_tensors, derived, factors, fp8, gptq, hqq, mlx, modelopt, mxfp4,
    refused, rows, torchao,
};
use apr_sdk::Result;

/// A scheme.
pub struct Scheme {
    /// Its name, for messages about tensors that two schemes claim.
    pub name: &'static str,
    /// Finds its weights.
    ///
    /// # Errors
    /// Malformed for parts that are missing or do not fit; Unsupported for what is recognised and not known.
    pub understand: fn(&Model<'_>, &mut Found) -> Result<()>,
}

/// All schemes, in the order in which they are asked: what a format says itself comes first; those that their configuration names come before those that names and
/// shapes tell.
pub static SCHEMES: &[&Scheme] = &[
    &derived::SCHEME,
    &refused::SCHEME,
    &factors::SCHEME,
    &compressed_tensors::SCHEME,
    &mxfp4::SCHEME,
    &bitsandbytes::SCHEME,
    &modelopt::SCHEME,
    &mlx::SCHEME,
    &hqq::SCHEME,
    &bitnet::SCHEME,
    &torchao::SCHEME,
    &gptq::SCHEME,
    &awq::SCHEME,
    &fp8::SCHEME,
    &rows::SCHEME,
];
