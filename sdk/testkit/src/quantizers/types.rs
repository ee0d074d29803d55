//! What a quantizer lists, and what it does with any other type.

use super::Subject;
use super::subject::about;
use crate::Verdict;
use crate::subject::guarded;
use apr_sdk::{DType, DTypeKind, Error, Result, StoredModel, StoredTensor};

/// Checks that every type is a block type, listed once, and that none of the manifest's is missing.
pub(super) fn types(subject: &Subject<'_>) -> Result<Verdict> {
    for (n, of) in subject.listed.iter().enumerate() {
        if of.kind != DTypeKind::Block {
            return Err(about(of)(Error::failed(
                "it is no block type: casts between scalars are the host's",
            )));
        }
        if subject.listed[..n].contains(of) {
            return Err(about(of)(Error::failed("it is listed twice")));
        }
    }
    let is_listed = |name: &str| subject.listed.iter().any(|of| of.name == name);
    if let Some(missing) = subject.declared.iter().find(|block| !is_listed(block.name())) {
        let message = format!("{}: the manifest declares it, but `dtypes` does not list it", missing.name());
        return Err(Error::failed(message));
    }
    if subject.listed.is_empty() {
        return match guarded(|| Ok(subject.quantizer.schemes().is_some()))?? {
            true => Verdict::passed("no block types, only schemes of packed weights"),
            false => Err(Error::failed("it has neither block types nor schemes of packed weights")),
        };
    }
    let brought = subject.declared.len();
    Verdict::passed(format!("{} block types, {brought} of its own", subject.listed.len()))
}

/// Checks that a type that it does not list is refused.
pub(super) fn unknown_types(subject: &Subject<'_>) -> Result<Verdict> {
    for dtype in [DType::F32, DType::BOOL, DType(u32::MAX)] {
        let mut values = [0.0; 256];
        let mut blocks = [0; 1024];
        let decoded = guarded(|| subject.quantizer.decode(dtype, &blocks, 256, &mut values))?;
        let encoded = guarded(|| subject.quantizer.encode(dtype, &values, 256, None, &mut blocks))?;
        if decoded.is_ok() || encoded.is_ok() {
            let message = format!("it takes blocks of {dtype}, number {}, which it does not list", dtype.0);
            return Err(Error::failed(message));
        }
    }
    Verdict::passed("refused")
}

/// Checks that its schemes find no packed weights in models that have none.
pub(super) fn schemes(subject: &Subject<'_>) -> Result<Verdict> {
    let Some(schemes) = guarded(|| Ok(subject.quantizer.schemes()))?? else {
        return Verdict::skipped("it has no schemes of packed weights");
    };
    let mut plain = StoredModel::default();
    for (name, dtype, shape) in
        [("a.weight", DType::F16, vec![8, 16]), ("a.bias", DType::F16, vec![8]), ("ids", DType::I64, vec![4])]
    {
        plain.tensors.push(StoredTensor { name: name.to_owned(), dtype, shape });
    }
    for model in [StoredModel::default(), plain] {
        let understood = guarded(|| schemes.understand(&model))??;
        if let Some(first) = understood.packed.first() {
            let message = format!("finds the packed weight `{}` in a model without any", first.name);
            return Err(Error::failed(message));
        }
    }
    Verdict::passed("nothing is found in models without packed weights")
}
