//! Weights that the graph computes from stored codes: what `DequantizeLinear` yields from initializers, and what operators on
//! codes multiply by. Pairs around activations compute nothing from tensors of the model; their scales are told apart.
//!
//! Where something of it is not in the file, such as a scale that is computed, the codes are told with the reason.

use crate::about::GRAPH;
use crate::constants;
use crate::nodes;
use crate::operators::{Axis, Operand, Operator, Packing, Scale};
use crate::origin::{Graphs, Origin, Place};
use crate::packings::middle;
use crate::product;
use crate::scan::Scan;
use crate::stream::Numbers;
use crate::uses::Uses;
use crate::visit::{TOO_LONG, functions_that_compute};
use crate::walk::Index;
use apr_sdk::{
    Budget, DType, Derived, DerivedNumbers, DerivedUnknown, DerivedWeight, ErrorKind, FileId, Limits, Result,
    Source, Tensor, escape,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Ends of the names that onnxruntime gives to codes and scales of a weight.
const ENDS: [(&str, &str); 7] = [
    ("_quantized", "_scale"),
    ("_Q2", "_scales"),
    ("_Q4", "_scales"),
    ("_Q8", "_scales"),
    ("_DQ_Q2", "_DQ_scales"),
    ("_DQ_Q4", "_DQ_scales"),
    ("_DQ_Q8", "_DQ_scales"),
];

/// The most weights of one tensor of codes that are told: with more than one, it is refused.
const MOST_WEIGHTS: usize = 2;

/// Bytes of memory for a number of a description: as it is, as text, and as the host keeps it.
const NUMBER: usize = 24;

/// Why codes are unknown that are no bytes of the file.
const AS_LIST: &str = "they are stored as a list of numbers (`int32_data`), which does not allow random \
                       access; convert the model to ONNX with `apr convert` first";

/// Types that no codes have.
const VALUES: [DType; 9] = [
    DType::F64,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::U64,
    DType::BOOL,
    DType::C64,
    DType::C128,
];

/// Types of scales.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// A scale or zero point that does not depend on what the model is run on.
#[derive(Clone, Debug)]
pub enum Constant<'a> {
    /// A tensor, by its number.
    Tensor(usize),
    /// Numbers.
    Numbers(Cow<'a, [f64]>),
}

/// What is known of the model while it is described.
pub struct Describer<'a> {
    /// The graphs.
    pub graphs: Graphs<'a>,
    /// The model's tensors.
    pub tensors: &'a [Tensor],
    source: &'a dyn Source,
    lists: &'a HashMap<u64, Numbers>,
    derived: Derived,
    /// The weights of each tensor of codes.
    by_codes: HashMap<usize, Vec<usize>>,
    /// Tensors that are told already as scales, and codes whose values are unknown.
    told: HashSet<usize>,
    unknown: HashSet<usize>,
    /// The tensors by their names.
    names: HashMap<&'a str, usize>,
    pub(crate) uses: Uses,
    /// The functions that were visited.
    pub(crate) visited: HashSet<usize>,
    /// Whether it is told of all codes that they are unknown.
    pub(crate) is_all_unknown: bool,
}

/// Describes the weights that nodes compute; `None` if they compute none. What of the graph costs more time or memory than
/// its size allows is not looked at: then no value of any codes is known, and the model still opens.
///
/// # Errors
/// Any error from reading.
pub fn describe(
    source: &dyn Source,
    file: FileId,
    limits: &Limits,
    index: &Index,
    tensors: &[Tensor],
    lists: &HashMap<u64, Numbers>,
) -> Result<Option<Derived>> {
    if !index.has_codes {
        return Ok(None);
    }
    // The nodes are dropped when they are understood: nothing of what is left of the budget is used up.
    let own = Limits { budget: Budget::new(limits.budget.left()), ..Limits::default() };
    let own = Limits { name_bytes: limits.name_bytes, ..own };
    let derived = match describe_nodes(source, &mut Scan::new(source, file, &own)?, index, tensors, lists) {
        Err(error) if error.kind() == ErrorKind::LimitExceeded => None,
        derived => Some(derived?),
    };
    let mut derived = derived.flatten().unwrap_or_else(|| nothing_known(tensors));
    if derived.weights.is_empty() && derived.unknown.is_empty() {
        return Ok(None);
    }
    // The graph computes from codes what the model then has already.
    derived.keys.push(GRAPH.to_owned());
    Ok(Some(derived))
}

/// As [`describe`]; `None` if there is no end to it.
fn describe_nodes(
    source: &dyn Source,
    scan: &mut Scan<'_>,
    index: &Index,
    tensors: &[Tensor],
    lists: &HashMap<u64, Numbers>,
) -> Result<Option<Derived>> {
    let nodes = nodes::read(scan, &index.tensors)?;
    let mut describer = Describer {
        graphs: Graphs::new(&nodes, scan.limits())?,
        tensors,
        source,
        lists,
        derived: Derived::default(),
        by_codes: HashMap::new(),
        told: HashSet::new(),
        unknown: HashSet::new(),
        names: tensors.iter().enumerate().map(|(number, tensor)| (tensor.name.as_str(), number)).collect(),
        uses: Uses::default(),
        visited: HashSet::new(),
        is_all_unknown: false,
    };
    let functions = functions_that_compute(&describer.graphs);
    describer.visit(Place { scope: 0, call: None }, &functions)?;
    let mut uncalled: Vec<usize> = functions.iter().copied().collect();
    uncalled.retain(|scope| *scope != 0 && !describer.visited.contains(scope));
    uncalled.sort_unstable();
    for scope in uncalled {
        describer.visit(Place { scope, call: None }, &functions)?;
    }
    describer.keep_scales_in_use()?;
    // What was not looked at may compute others from the same codes.
    Ok((!describer.graphs.is_at_end()).then_some(describer.derived))
}

/// What is told of a model whose nodes are not followed to their end.
fn nothing_known(tensors: &[Tensor]) -> Derived {
    let codes = tensors.iter().filter(|tensor| may_be_codes(tensor));
    let unknown = codes.map(|tensor| DerivedUnknown {
        codes: tensor.name.clone(),
        by: "the graph".to_owned(),
        why: TOO_LONG.to_owned(),
    });
    Derived { unknown: unknown.collect(), ..Derived::default() }
}

/// Whether a tensor may be codes, by its type.
fn may_be_codes(tensor: &Tensor) -> bool {
    !VALUES.contains(&tensor.dtype) && tensor.shape.iter().product::<u64>() > 0
}

impl<'a> Describer<'a> {
    /// Describes the weights of a node that computes with codes.
    pub(crate) fn node(&mut self, number: usize, place: Place, operator: &Operator) -> Result<()> {
        let inputs = self.graphs.node(number).inputs.len();
        let operands = operator.operands(inputs);
        let beside = |operand: &Operand| match operand.scale {
            Scale::Beside(at) => [Some(at), operand.zero],
            _ => [None, operand.zero],
        };
        let of_operands = operands.iter().flat_map(beside).flatten();
        for at in of_operands.chain(operator.beside.iter().copied()) {
            if let Origin::Stored { tensor, .. } = self.graphs.of_input(number, at, place)
                && self.told.insert(tensor)
            {
                self.derived.unused.push(self.tensors[tensor].name.clone());
            }
        }
        if operator.packing == Packing::Unknown {
            self.packed(number, place, operator.name, "the packing of that operator is not known");
        }
        operands.iter().try_for_each(|operand| self.operand(number, place, operator, operand))
    }

    /// The elements of a tensor.
    pub fn elements(&self, tensor: usize) -> u64 {
        self.tensors[tensor].shape.iter().product()
    }

    pub(crate) fn is_codes(&self, tensor: usize) -> bool {
        may_be_codes(&self.tensors[tensor])
    }

    /// Tells that the values of codes are unknown, and why.
    pub(crate) fn unknown_codes(&mut self, tensor: usize, by: &str, why: &str) {
        if self.unknown.insert(tensor) {
            let (codes, by, why) = (self.tensors[tensor].name.clone(), escape(by, 80), why.to_owned());
            self.derived.unknown.push(DerivedUnknown { codes, by, why });
        }
    }

    /// What an input is, if it is the same however the model is run.
    pub fn constant(&self, node: usize, at: usize, place: Place) -> Option<Constant<'a>> {
        match self.graphs.of_input(node, at, place) {
            Origin::Stored { tensor, is_whole: true, .. } => Some(Constant::Tensor(tensor)),
            Origin::Numbers(numbers) => Some(Constant::Numbers(numbers)),
            _ => None,
        }
    }

    /// How many numbers a constant has.
    pub fn len(&self, constant: &Constant<'_>) -> u64 {
        match constant {
            Constant::Tensor(tensor) => self.elements(*tensor),
            Constant::Numbers(numbers) => numbers.len() as u64,
        }
    }

    /// The numbers of a constant; `None` if there are too many, or of a type that scales do not have.
    fn numbers(&self, constant: &Constant<'a>) -> Result<Option<Cow<'a, [f64]>>> {
        match constant {
            Constant::Numbers(numbers) => Ok(Some(numbers.clone())),
            // Reading one takes about as long as some steps.
            Constant::Tensor(tensor) if self.graphs.spend(64 + self.few(*tensor) / 8) => {
                let list = self.lists.get(&(*tensor as u64));
                Ok(constants::read(self.source, list, &self.tensors[*tensor])?.map(Cow::from))
            }
            Constant::Tensor(_) => Ok(None),
        }
    }

    /// How many elements a tensor has, as far as they are read.
    fn few(&self, tensor: usize) -> usize {
        usize::try_from(self.elements(tensor)).unwrap_or(usize::MAX).min(4096)
    }

    fn operand(&mut self, node: usize, place: Place, operator: &Operator, operand: &Operand) -> Result<()> {
        let (codes, mover) = match self.graphs.of_input(node, operand.codes, place) {
            Origin::Stored { tensor, .. } if !self.is_codes(tensor) => return Ok(()),
            Origin::Stored { tensor, .. } if self.is_uncalled(place) => {
                self.unknown_codes(tensor, operator.name, "it is in a function that no node calls");
                return Ok(());
            }
            Origin::Stored { tensor, mover, .. } => (tensor, mover),
            Origin::Sparse(_) => {
                self.behind(node, operand.codes, place, operator, "they are the values of a sparse tensor");
                return Ok(());
            }
            Origin::Looped(..) => {
                self.behind(node, operand.codes, place, operator, "the body of a loop takes it as an input");
                return Ok(());
            }
            Origin::Far => {
                self.behind(node, operand.codes, place, operator, TOO_LONG);
                return Ok(());
            }
            Origin::Computed(by, _, _) => {
                let by = escape(&self.graphs.node(by).operator, 80);
                let why = format!("`{by}` changes them before they are scaled");
                self.behind(node, operand.codes, place, operator, &why);
                return Ok(());
            }
            Origin::Numbers(_) | Origin::Elsewhere(..) | Origin::Nothing => return Ok(()),
        };
        match self.weight(node, place, operator, operand, codes)? {
            Ok(weight) if mover.is_some() && (weight.axis.is_some() || weight.packing.is_some()) => {
                let why =
                    format!("`{}` moves them before, and they have several scales", mover.unwrap_or(""));
                self.unknown_codes(codes, operator.name, &why);
            }
            Ok(weight) => {
                // Graphs repeat a node for each reader of its result.
                let known = self.by_codes.entry(codes).or_default();
                let is_same = |at: &usize| {
                    let other = &self.derived.weights[*at];
                    DerivedWeight { by: other.by.clone(), name: other.name.clone(), ..weight.clone() }
                        == *other
                };
                if known.len() < MOST_WEIGHTS && !known.iter().any(is_same) {
                    known.push(self.derived.weights.len());
                    self.graphs.hold(4 * size_of::<DerivedWeight>() + 3 * len_of_names(&weight));
                    self.derived.weights.push(weight);
                }
            }
            Err(why) => self.unknown_codes(codes, operator.name, &why),
        }
        Ok(())
    }

    /// The weight that codes are of; or why that is unknown.
    fn weight(
        &mut self,
        node: usize,
        place: Place,
        operator: &Operator,
        operand: &Operand,
        codes: usize,
    ) -> Result<std::result::Result<DerivedWeight, String>> {
        // Names may be long.
        if !self.graphs.spend(16 + self.tensors[codes].name.len() / 16) {
            return Ok(Err(TOO_LONG.to_owned()));
        }
        if self.lists.contains_key(&(codes as u64)) {
            return Ok(Err(AS_LIST.to_owned()));
        }
        let mut weight = DerivedWeight {
            by: operator.name.to_owned(),
            codes: self.tensors[codes].name.clone(),
            ..DerivedWeight::default()
        };
        let computed = |what: &str| Ok(Err(format!("their {what} are computed while the model runs")));
        let scale = match operand.scale {
            Scale::Beside(at) => match self.constant(node, at, place) {
                Some(scale) => scale,
                None => return computed("scales"),
            },
            Scale::Product(one, other) => {
                let both = self.constant(node, one, place).zip(self.constant(node, other, place));
                let Some((one, other)) = both else { return computed("scales") };
                let alpha = self.graphs.float(node, place, "alpha");
                // One for each code at most: else a few bytes would stand for many numbers.
                let is_few = self.len(&one).max(self.len(&other)) <= self.elements(codes);
                let both = if is_few { self.numbers(&one)?.zip(self.numbers(&other)?) } else { None };
                match both.and_then(|(a, b)| product::of(alpha, &a, &b)) {
                    Some(product) => Constant::Numbers(product.into()),
                    None => return Ok(Err("their scales are products of too many numbers".to_owned())),
                }
            }
            Scale::Follows(other) => {
                let of = product::Factor { node, place, other, codes, axis: operand.axis };
                match product::follows(self, &of) {
                    Some((scale, other)) => {
                        self.uses.follow(scale);
                        other.into_iter().for_each(|other| self.uses.follow(other));
                        Constant::Tensor(scale)
                    }
                    None => return Ok(Err("the scale of their product is not known for certain".to_owned())),
                }
            }
        };
        let zero = match operand.zero.map(|at| self.graphs.of_input(node, at, place)) {
            None | Some(Origin::Nothing) => None,
            Some(_) => match operand.zero.and_then(|at| self.constant(node, at, place)) {
                Some(zero) => Some(zero),
                None => return computed("zero points"),
            },
        };
        weight.name = self.name(&weight.codes, &scale);
        let is_single = self.len(&scale) == 1 && zero.as_ref().is_none_or(|zero| self.len(zero) == 1);
        match operator.packing {
            Packing::None => {
                let block = self.graphs.whole(node, place, "block_size").filter(|block| *block != 0);
                if let Some(block) = block.filter(|_| matches!(operand.axis, Axis::OfNode)) {
                    weight.block = Some(u64::try_from(block).unwrap_or(0));
                }
                weight.axis = match operand.axis {
                    _ if is_single && weight.block.is_none() => None,
                    Axis::OfNode => Some(self.graphs.whole(node, place, "axis").unwrap_or(1)),
                    Axis::Fixed(axis) => Some(axis),
                    Axis::Columns => {
                        let is_transposed =
                            self.graphs.whole(node, place, "transB").is_some_and(|is| is != 0);
                        Some(if is_transposed { 0 } else { 1 })
                    }
                    Axis::Directions if self.tensors[codes].shape.first() == Some(&self.len(&scale)) => {
                        Some(0)
                    }
                    Axis::Directions => {
                        // Channels share a scale along what lies between.
                        weight.block = self.tensors[codes].shape.get(1).copied();
                        Some(1)
                    }
                    Axis::One => {
                        return Ok(Err("they have several scales along unknown axes".to_owned()));
                    }
                };
            }
            Packing::Matrix => {
                if let Err(why) = self.matrix(node, place, &mut weight) {
                    return Ok(Err(why));
                }
            }
            Packing::Table => {
                if let Err(why) = self.table(node, place, codes, is_single, &mut weight) {
                    return Ok(Err(why));
                }
            }
            Packing::Unknown => return Ok(Err("the packing of that operator is not known".to_owned())),
        }
        weight.scales = self.side(scale, &weight.codes, &mut weight.beside)?.unwrap_or_default();
        if let Some(zero) = zero {
            weight.zeros = self.side(zero, &weight.codes, &mut weight.beside)?;
        } else if let Some(packing) = &weight.packing {
            // Packed codes have their zero point in the middle.
            weight.zeros = Some(DerivedNumbers::Values(vec![middle(packing.codes)]));
        }
        Ok(Ok(weight))
    }

    /// The numbers of a scale or zero point of these codes, which has one for each at most: else a few bytes would stand for many.
    fn numbers_of(&self, tensor: usize, codes: &str) -> Result<Option<Vec<f64>>> {
        let n_codes = self.names.get(codes).map_or(0, |codes| self.elements(*codes));
        // Each weight that has them repeats them, in numbers and as text.
        if self.elements(tensor) > n_codes || !self.graphs.hold(NUMBER * self.few(tensor)) {
            return Ok(None);
        }
        Ok(self.numbers(&Constant::Tensor(tensor))?.map(Cow::into_owned))
    }

    /// Scales or zero points as they are told: a list of numbers has no place in the file, and is repeated.
    fn side(
        &self,
        constant: Constant<'_>,
        codes: &str,
        beside: &mut Vec<String>,
    ) -> Result<Option<DerivedNumbers>> {
        let tensor = match constant {
            Constant::Numbers(numbers) => {
                // What there is no memory for is told nowhere: see the end of [`describe_nodes`].
                let may = self.graphs.spend(numbers.len() / 8) && self.graphs.hold(NUMBER * numbers.len());
                return Ok(may.then(|| DerivedNumbers::Values(numbers.into_owned())));
            }
            Constant::Tensor(tensor) => tensor,
        };
        // In the description, as text, and where the host keeps it.
        let len = self.tensors[tensor].name.len();
        if !self.graphs.spend(len / 16) {
            return Ok(None);
        }
        let name = self.tensors[tensor].name.clone();
        if !self.lists.contains_key(&(tensor as u64)) {
            return Ok(Some(DerivedNumbers::Tensor(name)));
        }
        Ok(Some(match self.numbers_of(tensor, codes)? {
            Some(numbers) => {
                beside.push(name);
                DerivedNumbers::Values(numbers)
            }
            None => DerivedNumbers::Tensor(name),
        }))
    }

    /// Scales that are also computed with otherwise are repeated, and stay tensors of the model.
    fn keep_scales_in_use(&mut self) -> Result<()> {
        let (names, uses) = (&self.names, &self.uses);
        let in_use = |name: &String| {
            let number = names.get(name.as_str()).copied();
            number.filter(|number| uses.has(*number) && FLOATS.contains(&self.tensors[*number].dtype))
        };
        let mut derived = std::mem::take(&mut self.derived);
        derived.unused.retain(|name| in_use(name).is_none());
        let mut too_many = Vec::new();
        for (at, weight) in derived.weights.iter_mut().enumerate() {
            weight.beside.retain(|name| in_use(name).is_none());
            let DerivedNumbers::Tensor(name) = &weight.scales else { continue };
            let Some(scales) = in_use(name) else { continue };
            match self.numbers_of(scales, &weight.codes)? {
                Some(numbers) => weight.scales = DerivedNumbers::Values(numbers),
                None => too_many.push(at),
            }
        }
        self.derived = derived;
        for at in too_many {
            let DerivedWeight { codes, by, .. } = self.derived.weights[at].clone();
            if let Some(codes) = self.names.get(codes.as_str()) {
                self.unknown_codes(
                    *codes,
                    &by,
                    "they have too many scales to keep with them, and the graph needs them too",
                );
            }
        }
        Ok(())
    }

    /// A weight is called as its codes are, or as it was before onnxruntime quantized it.
    fn name(&self, codes: &str, scale: &Constant<'_>) -> String {
        let scale = match scale {
            Constant::Tensor(tensor) => Some(self.tensors[*tensor].name.as_str()),
            // That of a bias is a product, and has no name.
            Constant::Numbers(_) => None,
        };
        let before = ENDS.iter().find_map(|(of_codes, of_scale)| {
            let before = codes.strip_suffix(of_codes).filter(|name| !name.is_empty())?;
            // The scale of a bias is called after its codes.
            let is_its =
                |scale: &str| scale.strip_suffix(of_scale).is_some_and(|of| of == before || of == codes);
            scale.map_or(*of_codes == ENDS[0].0, is_its).then_some(before)
        });
        before.filter(|name| !self.names.contains_key(name)).unwrap_or(codes).to_owned()
    }
}

/// The bytes of all names that a weight repeats.
fn len_of_names(weight: &DerivedWeight) -> usize {
    let of = |numbers: &DerivedNumbers| match numbers {
        DerivedNumbers::Tensor(name) => name.len(),
        DerivedNumbers::Values(_) => 0,
    };
    let beside = weight.beside.iter().map(String::len).sum::<usize>();
    weight.name.len() + weight.codes.len() + of(&weight.scales) + weight.zeros.as_ref().map_or(0, of) + beside
}
