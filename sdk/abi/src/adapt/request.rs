//! Requests to a writer or quantizer, encoded as pairs: layout requests, facts about tensors and models,
//! assignments.

use crate::wire::pairs::{from_options, number, push, read, text, to_options};
use crate::wire::{DTypeNumber, PolicyNumber};
use apr_sdk::{
    Assignment, DType, DTypeChoice, ForeignPolicy, LayoutRequest, ModelFacts, Result, TensorFacts,
};

/// The policies and their wire numbers.
const POLICIES: [(ForeignPolicy, PolicyNumber); 4] = [
    (ForeignPolicy::Default, PolicyNumber::DEFAULT),
    (ForeignPolicy::Typed, PolicyNumber::TYPED),
    (ForeignPolicy::Keep, PolicyNumber::KEEP),
    (ForeignPolicy::Drop, PolicyNumber::DROP),
];

/// Encodes a layout request as pairs.
pub fn from_request(request: &LayoutRequest) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, "stem", request.stem.as_bytes());
    push(&mut out, "file_name", request.file_name.as_bytes());
    push(&mut out, "folder", &[u8::from(request.folder)]);
    if let Some(size) = request.max_shard_size {
        push(&mut out, "max_shard_size", &size.to_le_bytes());
    }
    if let Some(count) = request.max_shard_tensors {
        push(&mut out, "max_shard_tensors", &count.to_le_bytes());
    }
    let policy = POLICIES.iter().find(|(policy, _)| *policy == request.foreign);
    let number = policy.map_or(PolicyNumber::DEFAULT, |(_, number)| *number);
    push(&mut out, "foreign", &u64::from(number.0).to_le_bytes());
    push(&mut out, "options", &from_options(&request.options));
    for size in &request.inputs {
        push(&mut out, "input", &size.to_le_bytes());
    }
    for (name, version) in &request.versions {
        let mut pair = Vec::new();
        push(&mut pair, name, version.as_bytes());
        push(&mut out, "version", &pair);
    }
    for (name, value) in &request.source {
        let mut pair = Vec::new();
        push(&mut pair, name, value.as_bytes());
        push(&mut out, "source", &pair);
    }
    if !request.record.is_empty() {
        push(&mut out, "record", request.record.as_bytes());
    }
    out
}

/// Decodes a layout request from pairs.
///
/// # Errors
/// Plugin for bytes that are not a request.
pub fn to_request(bytes: &[u8]) -> Result<LayoutRequest> {
    let mut request = LayoutRequest::default();
    for (name, value) in read(bytes)? {
        match name {
            "stem" => request.stem = text(value)?.to_owned(),
            "file_name" => request.file_name = text(value)?.to_owned(),
            "folder" => request.folder = value == [1],
            "max_shard_size" => request.max_shard_size = Some(number(value)?),
            "max_shard_tensors" => request.max_shard_tensors = Some(number(value)?),
            "foreign" => {
                let number = number(value)?;
                let policy = POLICIES.iter().find(|(_, known)| u64::from(known.0) == number);
                request.foreign = policy.map(|(policy, _)| *policy).unwrap_or_default();
            }
            "options" => request.options = to_options(value)?,
            "input" => request.inputs.push(number(value)?),
            "version" => {
                for (name, version) in read(value)? {
                    request.versions.push((name.to_owned(), text(version)?.to_owned()));
                }
            }
            "source" => {
                for (name, fact) in read(value)? {
                    request.source.push((name.to_owned(), text(fact)?.to_owned()));
                }
            }
            "record" => request.record = text(value)?.to_owned(),
            // A question that only a newer host asks: ignore it.
            _ => {}
        }
    }
    Ok(request)
}

/// Encodes facts about tensors as pairs, one entry per tensor.
pub fn from_facts(facts: &[TensorFacts]) -> Vec<u8> {
    let mut out = Vec::new();
    for fact in facts {
        let mut record = Vec::new();
        push(&mut record, "name", fact.name.as_bytes());
        if let Some(role) = &fact.role {
            push(&mut record, "role", role.as_bytes());
        }
        for (dialect, name) in &fact.names {
            let mut pair = Vec::new();
            push(&mut pair, dialect, name.as_bytes());
            push(&mut record, "called", &pair);
        }
        for dimension in &fact.shape {
            push(&mut record, "dim", &dimension.to_le_bytes());
        }
        if let Some(dtype) = fact.dtype {
            push(&mut record, "dtype", &u64::from(dtype.0).to_le_bytes());
        }
        push(&mut record, "has_importance", &[u8::from(fact.has_importance)]);
        push(&mut out, "tensor", &record);
    }
    out
}

/// Decodes facts about tensors from pairs.
///
/// # Errors
/// Plugin for bytes that are not facts.
pub fn to_facts(bytes: &[u8]) -> Result<Vec<TensorFacts>> {
    read(bytes)?.into_iter().map(|(_, one)| to_fact(one)).collect()
}

fn to_fact(bytes: &[u8]) -> Result<TensorFacts> {
    let mut fact = TensorFacts::default();
    for (name, value) in read(bytes)? {
        match name {
            "name" => fact.name = text(value)?.to_owned(),
            "role" => fact.role = Some(text(value)?.to_owned()),
            "called" => {
                for (dialect, name) in read(value)? {
                    fact.names.push((dialect.to_owned(), text(name)?.to_owned()));
                }
            }
            "dim" => fact.shape.push(number(value)?),
            "dtype" => fact.dtype = u32::try_from(number(value)?).ok().map(DType),
            "has_importance" => fact.has_importance = value == [1],
            _ => {}
        }
    }
    Ok(fact)
}

/// Encodes facts about the model as pairs.
pub fn from_model_facts(facts: &ModelFacts) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(architecture) = &facts.architecture {
        push(&mut out, "architecture", architecture.as_bytes());
    }
    push(&mut out, "config", facts.config.as_bytes());
    push(&mut out, "has_importance", &[u8::from(facts.has_importance)]);
    out
}

/// Decodes facts about the model from pairs.
///
/// # Errors
/// Plugin for bytes that are not facts.
pub fn to_model_facts(bytes: &[u8]) -> Result<ModelFacts> {
    let mut facts = ModelFacts::default();
    for (name, value) in read(bytes)? {
        match name {
            "architecture" => facts.architecture = Some(text(value)?.to_owned()),
            "config" => facts.config = text(value)?.to_owned(),
            "has_importance" => facts.has_importance = value == [1],
            _ => {}
        }
    }
    Ok(facts)
}

/// Encodes assignments as pairs, one entry per tensor.
pub fn from_assignments(assigned: &[Assignment]) -> Vec<u8> {
    let mut out = Vec::new();
    for assignment in assigned {
        let mut record = Vec::new();
        if let Some(dtype) = assignment.dtype {
            push(&mut record, "dtype", &u64::from(dtype.0).to_le_bytes());
        }
        push(&mut record, "needs_importance", &[u8::from(assignment.needs_importance)]);
        if let Some(note) = &assignment.note {
            push(&mut record, "note", note.as_bytes());
        }
        push(&mut out, "tensor", &record);
    }
    out
}

/// Decodes assignments from pairs.
///
/// # Errors
/// Plugin for bytes that are not assignments.
pub fn to_assignments(bytes: &[u8]) -> Result<Vec<Assignment>> {
    let mut assignments = Vec::new();
    for (_, one) in read(bytes)? {
        let mut assignment = Assignment::KEEP;
        for (name, value) in read(one)? {
            match name {
                "dtype" => assignment.dtype = u32::try_from(number(value)?).ok().map(DType),
                "needs_importance" => assignment.needs_importance = value == [1],
                "note" => assignment.note = Some(text(value)?.to_owned()),
                _ => {}
            }
        }
        assignments.push(assignment);
    }
    Ok(assignments)
}

/// Converts an optional dtype to the wire.
pub(crate) fn from_dtype(dtype: Option<DType>) -> DTypeNumber {
    dtype.map_or(DTypeNumber::KEEP, |dtype| DTypeNumber(dtype.0))
}

/// Converts a writer's choice to the wire. A choice unknown to this version keeps the tensor's dtype.
pub(crate) fn from_choice(choice: DTypeChoice) -> DTypeNumber {
    match choice {
        DTypeChoice::Cast(dtype) => DTypeNumber(dtype.0),
        DTypeChoice::NarrowIfExact(dtype) => DTypeNumber(dtype.0 | DTypeNumber::NARROW_IF_EXACT.0),
        _ => DTypeNumber::KEEP,
    }
}

/// Converts a writer's choice from the wire.
pub(crate) fn to_choice(number: DTypeNumber) -> DTypeChoice {
    let narrow = DTypeNumber::NARROW_IF_EXACT.0;
    match number {
        DTypeNumber::KEEP => DTypeChoice::Keep,
        DTypeNumber(n) if n & narrow != 0 => DTypeChoice::NarrowIfExact(DType(n & !narrow)),
        DTypeNumber(n) => DTypeChoice::Cast(DType(n)),
    }
}

/// Converts an optional dtype from the wire.
pub(crate) fn to_dtype(number: DTypeNumber) -> Option<DType> {
    (number != DTypeNumber::KEEP).then_some(DType(number.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::Options;

    #[test]
    fn choices_of_dtypes_cross_and_come_back() {
        let all = DType::ALL
            .iter()
            .flat_map(|row| [DTypeChoice::Cast(row.dtype), DTypeChoice::NarrowIfExact(row.dtype)]);
        for choice in all.chain([DTypeChoice::Keep]) {
            assert_eq!(to_choice(from_choice(choice)), choice);
        }
    }

    #[test]
    fn every_field_of_a_request_survives() {
        let mut request = LayoutRequest::file("a.b.c");
        assert_eq!(format!("{:?}", to_request(&from_request(&request)).unwrap()), format!("{request:?}"));
        request.folder = true;
        request.max_shard_size = Some(u64::MAX);
        request.max_shard_tensors = Some(128);
        request.options = Options::new().with("x", "y");
        request.inputs = vec![0, 7];
        request.versions = vec![("apr".into(), "1".into()), ("p\0".into(), String::new())];
        request.record = r#"{"options":{}}"#.into();
        request.source = vec![("licence".into(), "mit".into())];
        for (policy, _) in POLICIES {
            request.foreign = policy;
            assert_eq!(format!("{:?}", to_request(&from_request(&request)).unwrap()), format!("{request:?}"));
        }
    }

    #[test]
    fn every_field_of_the_facts_survives() {
        let mut full = TensorFacts::default();
        full.name = "t".into();
        full.role = Some("r".into());
        full.names = vec![("hf".into(), "n".into())];
        full.shape = vec![1, u64::MAX];
        full.dtype = Some(DType::BF16);
        full.has_importance = true;
        let facts = [TensorFacts::default(), full];
        assert_eq!(format!("{:?}", to_facts(&from_facts(&facts)).unwrap()), format!("{facts:?}"));
    }
}
