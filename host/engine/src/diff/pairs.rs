//! Pairs the tensors of two models: by name, by the user's mapping, or by content.

use crate::crew::map;
use crate::diff::DiffOptions;
use crate::diff::sides::{Pair, Side, Sides};
use crate::engine::Engine;
use crate::expression::evaluate::read;
use crate::open::OpenedModel;
use crate::registry::Registry;
use crate::select::source_names::expand;
use apr_sdk::{DType, Error, Result};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};

/// The correspondence between the tensors of two models.
pub struct Matched {
    /// By name or by the user's mapping, in the order of a.
    pub pairs: Vec<Pair>,
    /// Different names, but equal type, shape and content.
    pub renamed: Vec<Pair>,
    /// The unpaired tensors of a.
    pub only_a: Vec<usize>,
    /// The unpaired tensors of b.
    pub only_b: Vec<usize>,
}

/// A digest of a payload.
type Sum = [u8; 32];

/// Pairs the tensors of two models, packed ones in types that can be compared.
///
/// # Errors
/// InvalidArgument for a mapping with an unknown name, or with one tensor twice; any error from reading.
pub fn matched(engine: &Engine, sides: &mut Sides<'_>, options: &DiffOptions) -> Result<Matched> {
    let mut matched = names_paired(sides, &options.mapping)?;
    if !options.unrounded {
        sides.unpack_alike(&engine.registry, &matched.pairs)?;
    }
    // Names of one dialect say which is which.
    if !sides.translated {
        by_content(engine, sides.a.opened, sides.b.opened, &mut matched)?;
    }
    Ok(matched)
}

/// The same by names alone: no payload is read, and nothing is found to be renamed. `mapping` has names in a and in b.
///
/// # Errors
/// InvalidArgument as [`matched`].
pub fn by_name(registry: &Registry, sides: &mut Sides<'_>, mapping: &[(String, String)]) -> Result<Matched> {
    let matched = names_paired(sides, mapping)?;
    sides.unpack_alike(registry, &matched.pairs)?;
    Ok(matched)
}

fn names_paired(sides: &Sides<'_>, mapping: &[(String, String)]) -> Result<Matched> {
    let a = sides.a.opened;
    let of_b = numbers(&sides.b);
    let mut wanted: HashMap<usize, usize> = HashMap::new();
    let mut taken: HashSet<usize> = HashSet::new();
    let names: Vec<&str> = sides.a.tensors().map(|tensor| tensor.name.as_str()).collect();
    let expanded = expand(mapping, &names).map_err(|e| e.in_file(a.path.display().to_string()))?;
    for (one, to) in expanded {
        let other = find(sides.b.opened, &of_b, &to)?;
        wanted.insert(one, other);
        if !taken.insert(other) {
            return Err(Error::invalid_argument("the tensor mapping maps two tensors to this one").tensor(to));
        }
    }
    let mut matched =
        Matched { pairs: Vec::new(), renamed: Vec::new(), only_a: Vec::new(), only_b: Vec::new() };
    for (number, tensor) in sides.a.tensors().enumerate() {
        let same_name = of_b.get(tensor.name.as_str()).filter(|other| !taken.contains(other));
        match wanted.get(&number).or(same_name) {
            Some(&other) => matched.pairs.push(Pair { a: number, b: other }),
            None => matched.only_a.push(number),
        }
    }
    let paired: HashSet<usize> = matched.pairs.iter().map(|pair| pair.b).collect();
    matched.only_b = (0..sides.b.n_tensors()).filter(|number| !paired.contains(number)).collect();
    Ok(matched)
}

fn numbers<'s>(side: &'s Side<'_>) -> HashMap<&'s str, usize> {
    side.tensors().enumerate().map(|(number, tensor)| (tensor.name.as_str(), number)).collect()
}

fn find(opened: &OpenedModel, numbers: &HashMap<&str, usize>, name: &str) -> Result<usize> {
    numbers.get(name).copied().ok_or_else(|| {
        Error::invalid_argument("the tensor mapping refers to a tensor that is not in the model")
            .in_file(opened.path.display().to_string())
            .tensor(name)
            .hint(format!("run `apr tensors {} -q` to list the names", opened.path.display()))
    })
}

/// Moves unpaired tensors of a and b that have equal content to `renamed`. Only reads those for which the
/// other side has a tensor of the same type and shape.
fn by_content(engine: &Engine, a: &OpenedModel, b: &OpenedModel, matched: &mut Matched) -> Result<()> {
    let kinds_a = kinds(a, &matched.only_a);
    let kinds_b = kinds(b, &matched.only_b);
    let from_a = matched.only_a.iter().filter(|&&n| kinds_b.contains(&kind(a, n))).map(|&n| (a, n));
    let from_b = matched.only_b.iter().filter(|&&n| kinds_a.contains(&kind(b, n))).map(|&n| (b, n));
    let wanted: Vec<(&OpenedModel, usize)> = from_a.clone().chain(from_b).collect();
    let n_of_a = from_a.count();
    let sums = digests(engine, &wanted)?;
    // Unpaired tensors of b by content, in the order of b; several with the same content are used in that
    // order.
    let mut places: HashMap<(DType, Vec<u64>, Sum), Vec<usize>> = HashMap::new();
    for (&(_, number), sum) in wanted.iter().zip(&sums).skip(n_of_a).rev() {
        let (dtype, shape) = kind(b, number);
        places.entry((dtype, shape, *sum)).or_default().push(number);
    }
    for (&(_, number), sum) in wanted.iter().zip(&sums).take(n_of_a) {
        let (dtype, shape) = kind(a, number);
        if let Some(other) = places.get_mut(&(dtype, shape, *sum)).and_then(Vec::pop) {
            matched.renamed.push(Pair { a: number, b: other });
        }
    }
    let gone_a: HashSet<usize> = matched.renamed.iter().map(|pair| pair.a).collect();
    let gone_b: HashSet<usize> = matched.renamed.iter().map(|pair| pair.b).collect();
    matched.only_a.retain(|number| !gone_a.contains(number));
    matched.only_b.retain(|number| !gone_b.contains(number));
    Ok(())
}

fn kind(opened: &OpenedModel, number: usize) -> (DType, Vec<u64>) {
    let tensor = &opened.model.tensors[number];
    (tensor.dtype, tensor.shape.clone())
}

fn kinds(opened: &OpenedModel, numbers: &[usize]) -> HashSet<(DType, Vec<u64>)> {
    numbers.iter().map(|&number| kind(opened, number)).collect()
}

/// The SHA-256 of each payload, read on all threads.
fn digests(engine: &Engine, wanted: &[(&OpenedModel, usize)]) -> Result<Vec<Sum>> {
    map(engine.crew.as_ref(), wanted.len(), &|_, at| {
        let (opened, number) = wanted[at];
        let mut hasher = Sha256::new();
        read::stream(engine, opened, number, &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        Ok(hasher.finalize().into())
    })
}
