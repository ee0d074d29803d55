//! The computation of a model, as numbers: a table's `[decoder]` applied to a model's configuration. Nothing
//! of the table's language is left, so that whoever builds a program asks for nothing more.

mod difference;
mod resolve;
mod roles;
mod rope;
#[cfg(test)]
mod tests;

pub(in crate::architecture) use difference::refuse_differing;
pub use roles::Roles;
pub use rope::Rope;

use crate::architecture::config::ConfigScope;
use crate::architecture::config::omissions::refuse_unused;
use crate::architecture::description::{Known, kept, needed};
use crate::architecture::table::Table;
use crate::architecture::table::section::Section;
use crate::engine::Engine;
use apr_sdk::{Activation, Error, ExpertScore, Mask, Model, NormKind, Pooling, Result, escape};

/// The computation of a model. Widths are elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    /// The id of the architecture.
    pub architecture: String,
    /// The dialect of the tensors' names and rows.
    pub rows: String,
    /// The width of the hidden state.
    pub width: u32,
    /// Number of tokens in the vocabulary.
    pub vocabulary: u32,
    /// The positions that it was trained for; `None` if the model does not state it.
    pub context: Option<u32>,
    /// Its norms.
    pub norm: Norm,
    /// The computation from tokens to the first layer's input.
    pub input: Input,
    /// The layers, in order.
    pub layers: Vec<Layer>,
    /// The computation on the last layer's hidden state.
    pub output: Output,
    /// The tensors that belong to no layer.
    pub roles: Roles,
}

/// The norms of the hidden state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// The kind.
    pub kind: NormKind,
    /// Added under the root.
    pub epsilon: f32,
    /// Their place.
    pub place: NormPlace,
    /// True if they multiply by a gain.
    pub has_gain: bool,
}

/// The place of norms around attention and around the feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlace {
    /// Before each: x + f(norm(x)).
    Before,
    /// After each, before it is added: x + norm(f(x)).
    AfterBranch,
    /// Both: x + norm(f(norm(x))).
    Both,
    /// After each is added: norm(x + f(x)).
    AfterSum,
}

/// The computation from tokens to the first layer's input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// Multiplies the embeddings of tokens.
    pub scale: f32,
    /// True if embeddings of positions are added.
    pub positions: bool,
    /// True if the embedding of the first token type is added.
    pub types: bool,
    /// True if a norm follows.
    pub norm: bool,
}

/// The computation of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Attention.
    pub attention: Attention,
    /// The feed-forward network, unless there are experts only.
    pub feed_forward: FeedForward,
    /// Experts in its place.
    pub experts: Option<Experts>,
    /// True if attention and feed-forward network have the same input instead of following one another.
    pub parallel: bool,
    /// Multiplies what each of them adds to the hidden state.
    pub branch_scale: f32,
    /// Its tensors.
    pub roles: Roles,
}

/// The computation of attention.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Number of query heads.
    pub heads: u32,
    /// Number of key and value heads.
    pub key_heads: u32,
    /// The width of a key.
    pub key: u32,
    /// The width of a value.
    pub value: u32,
    /// Multiplies scores.
    pub scale: f32,
    /// The positions that are seen.
    pub mask: Mask,
    /// Number of positions seen, for a mask that is a window.
    pub window: u32,
    /// Bounds scores; 0 for none.
    pub soft_cap: f32,
    /// Bounds queries, keys and values; 0 for none.
    pub clamp: f32,
    /// Positions from which on it computes something else, which nothing here says; 0 for none.
    pub within: u32,
    /// ALiBi's slope of each head; empty for none.
    pub slopes: Vec<f32>,
    /// The span of a norm of queries and keys.
    pub qk_norm: QkNorm,
    /// True if that norm comes after the rotation.
    pub norm_after_rotation: bool,
    /// The rotation, if there is one.
    pub rope: Option<Rope>,
}

/// The span of a norm of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// There is none.
    None,
    /// Each head.
    Head,
    /// All heads together.
    All,
}

/// The computation of a feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedForward {
    /// Its width.
    pub width: u32,
    /// True if there is a gate.
    pub gated: bool,
    /// The activation function.
    pub activation: Activation,
    /// The slope of a clamped SwiGLU.
    pub alpha: f32,
    /// The bound of a clamped SwiGLU.
    pub limit: f32,
}

/// The computation of experts. Each is a feed-forward network of the layer's form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// Number of experts.
    pub count: u32,
    /// Number of experts that a token uses.
    pub used: u32,
    /// The width of each.
    pub width: u32,
    /// The function that turns scores into weights.
    pub score: ExpertScore,
    /// True if the weights of the chosen are divided by their sum.
    pub normalize: bool,
    /// Multiplies the weights.
    pub scale: f32,
    /// Number of groups that the experts fall into.
    pub groups: u32,
    /// Number of groups that the chosen come from; 0 for all.
    pub groups_used: u32,
    /// The expert that every token uses.
    pub shared: Option<Shared>,
}

/// An expert that every token uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Its width.
    pub width: u32,
    /// True if the sigmoid of a score of its own multiplies it.
    pub gated: bool,
}

/// The computation on the last layer's hidden state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// Multiplies logits.
    pub scale: f32,
    /// Bounds logits, after scaling; 0 for none.
    pub soft_cap: f32,
    /// The way a text's hidden states become one, for models that embed texts.
    pub pooling: Option<Pooling>,
}

/// Resolves the computation of a model. `tensors` are the names and shapes of its tensors in the dialect that the table's
/// `[decoder]` speaks of (see [`decoder_rows`]); the model itself may be in another. `arch` is the architecture that the user
/// named.
///
/// # Errors
/// Unsupported for a model without a table, or whose table does not say how it computes, or which computes something that
/// cannot be; InvalidArgument for a table whose values do not fit; Malformed for a model that does not state what is needed.
pub fn decoder(
    engine: &Engine,
    model: &Model,
    arch: Option<&str>,
    tensors: &[(String, Vec<u64>)],
) -> Result<Decoder> {
    let known = needed(engine, model, arch)?.ok_or_else(|| no_table(engine, model))?;
    let section = section_of(known.table)?;
    known.refuse_uncovered(model)?;
    refuse_what_is_not_computed(&known, section, model)?;
    resolve::resolve(known.table, section, &known.config, tensors).map_err(|error| {
        let said = format!("architecture `{}`: {}", escape(&known.table.id, 80), error.message());
        error.with_message(said)
    })
}

/// Refuses a model that states what neither `[decoder]` uses nor its dialect can say, as a translation to it would.
fn refuse_what_is_not_computed(known: &Known<'_>, section: &Section, model: &Model) -> Result<()> {
    let Some(rows) = known.table.dialect(&section.rows).filter(|rows| rows.id != known.dialect) else {
        return Ok(());
    };
    let dimensions = known.dimensions(model);
    refuse_unused(&ConfigScope::new(known.table, &known.config, &dimensions), rows, &section.names())
}

/// The dialect over which a model's table says how it computes: tensors must be in it, names and rows.
///
/// # Errors
/// Unsupported for a model without a table, or whose table does not say how it computes.
pub fn decoder_rows(engine: &Engine, model: &Model, arch: Option<&str>) -> Result<String> {
    let known = needed(engine, model, arch)?.ok_or_else(|| no_table(engine, model))?;
    section_of(known.table).map(|section| section.rows.clone())
}

fn no_table(engine: &Engine, model: &Model) -> Error {
    if let Some(table) = kept(engine, model) {
        let id = table.map_or("ID", |table| table.id.as_str());
        let error = Error::unsupported(
            "the model kept its original names when it was converted (`--arch none`, or no table fitted), so it states no architecture and apr cannot run it",
        );
        return error.hint(format!(
            "specify the architecture with `--arch {}`, or convert its source again without `--arch none`",
            escape(id, 80)
        ));
    }
    Error::unsupported("no architecture table covers this model, so apr cannot run it")
        .hint("specify the architecture with --arch ID (see `apr arch list`)")
}

/// The reason why models of a table cannot be run; `None` if they can.
pub fn not_run(table: &Table) -> Option<&str> {
    match &table.decoder {
        None => Some("its table has no [decoder] section, which describes the computation"),
        Some(section) => section.refused.as_deref(),
    }
}

fn section_of(table: &Table) -> Result<&Section> {
    match (&table.decoder, not_run(table)) {
        (Some(section), None) => Ok(section),
        (_, reason) => {
            let id = escape(&table.id, 80);
            let reason = reason.unwrap_or_default();
            let hint =
                "convert it for a program that can run it, or add a [decoder] section to your own table";
            Err(Error::unsupported(format!("models of architecture `{id}` cannot be run: {reason}"))
                .hint(hint))
        }
    }
}
