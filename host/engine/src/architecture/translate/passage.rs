//! The passage of a model's tensors from one dialect to another: what it starts from, and what it gives.

use crate::architecture::config::ConfigScope;
use crate::architecture::language::array::Box_;
use crate::architecture::language::change::Change;
use crate::architecture::table::{CANONICAL, Rule, Table};
use apr_sdk::{DType, Payload, Result, Tensor, TensorFacts};
use std::sync::Arc;

/// A tensor of the result.
#[derive(Clone, Debug)]
pub struct Made {
    /// The name in the target's dialect.
    pub name: String,
    /// The dtype, that of the source's tensors.
    pub dtype: DType,
    /// The shape, in elements.
    pub shape: Vec<u64>,
    /// The boxes it consists of, in row-major order.
    pub boxes: Vec<Box_>,
    /// The bytes of a computed tensor.
    pub bytes: Option<Vec<u8>>,
    /// The operations, in words.
    pub words: Vec<&'static str>,
    /// The facts passed to writers and recipes.
    pub facts: TensorFacts,
}

impl Made {
    /// A tensor of a rule without content, under its name in the target's dialect.
    pub(super) fn new(name: String, dtype: DType, shape: Vec<u64>, rule: &Rule) -> Made {
        let mut facts = TensorFacts::default();
        name.clone_into(&mut facts.name);
        facts.role.clone_from(&rule.role);
        facts.shape.clone_from(&shape);
        facts.dtype = Some(dtype);
        Made { name, dtype, shape, boxes: Vec::new(), bytes: None, words: Vec::new(), facts }
    }

    /// Returns whether any of its values are changed, not only moved.
    pub fn is_changed(&self) -> bool {
        self.boxes.iter().any(|part| !part.change.is_none())
    }

    /// The canonical name; empty if the facts do not state it.
    pub(super) fn canonical_name(&self) -> &str {
        let name = self.facts.names.iter().find(|(dialect, _)| dialect == CANONICAL);
        name.map_or("", |(_, name)| name)
    }

    /// The tensor's declaration, without payload.
    pub fn declaration(&self) -> Tensor {
        let payload = Payload::Sequential;
        Tensor { name: self.name.clone(), dtype: self.dtype, shape: self.shape.clone(), payload }
    }
}

/// The result of a translation.
#[derive(Clone, Debug, Default)]
pub struct Translated {
    /// The tensors, in output order.
    pub tensors: Vec<Made>,
    /// Tensors of the source that are dropped, and why.
    pub dropped: Vec<(String, String)>,
    /// Tensors in which some rows are zero because the source lacks them.
    pub padded: Vec<String>,
}

impl Translated {
    /// Names and bytes of the tensors that are computed from the configuration.
    pub fn computed(&self) -> Vec<(String, Vec<u8>)> {
        self.tensors.iter().filter_map(|tensor| Some((tensor.name.clone(), tensor.bytes.clone()?))).collect()
    }
}

/// The number of the token with a text, if the model has such a token.
pub type TokenIds<'a> = &'a dyn Fn(&str) -> Result<Option<u64>>;

/// The input of a translation.
pub struct Passage<'a> {
    /// The architecture's table.
    pub table: &'a Table,
    /// The configuration with its defaults.
    pub scope: &'a ConfigScope<'a>,
    /// The source's tensors, under the table's own names.
    pub tensors: &'a [Tensor],
    /// The source's tensors, under their own names.
    pub called: &'a [Tensor],
    /// The tensors that the user left out, under the table's own names.
    pub removed: &'a [Removed],
    /// The source's dialect.
    pub from: &'a str,
    /// The target's dialect.
    pub to: &'a str,
    /// Looks up the number of a token.
    pub tokens: TokenIds<'a>,
    /// True if tensors keep the source's order, regardless of the target's dialect.
    pub keep_order: bool,
}

/// A tensor of the source that the user left out.
#[derive(Clone, Debug)]
pub struct Removed {
    /// The tensor's declaration.
    pub tensor: Tensor,
    /// The flag that leaves it out: `--exclude 'x'`.
    pub rule: Arc<str>,
}

/// Returns whether a rule's tensors keep their names: both dialects use the members' names, whatever a file
/// calls them.
pub(super) fn is_kept(passage: &Passage<'_>, rule: &Rule) -> bool {
    let mut dialects = [passage.from, passage.to].into_iter();
    dialects.all(|dialect| passage.table.is_own(dialect) && rule.side(dialect).is_none())
}

/// All of a tensor.
pub(super) fn whole(number: usize, tensor: &Tensor) -> Result<Box_> {
    let units = tensor.payload_len()? / u64::from(tensor.dtype.require()?.block_bytes).max(1);
    Ok(Box_ { tensor: Some(number), start: 0, dims: vec![(units, 1)], change: Change::default() })
}
