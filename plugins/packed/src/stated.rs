//! What is stated of how a model's weights are packed comes before what its tensors look like: where a scheme is stated, weights are
//! of no other; and where one is stated that no scheme here knows, they are of none.

use crate::model::{Config, Found, Model};
use crate::scheme::{SCHEMES, Scheme, States};
use apr_sdk::{Error, PackedTensor, RECIPE, Result};
use serde_json::Value as Json;
use std::collections::HashSet;

/// What is stated of a model.
pub enum Stated {
    /// Nothing: names and shapes tell.
    Nothing,
    /// Schemes, and what the first statement calls them.
    Schemes {
        /// The names of the schemes.
        schemes: Vec<&'static str>,
        /// What states the first, for messages.
        by: String,
    },
    /// Something that is not known here.
    Unknown,
}

impl Stated {
    /// What the configuration and the marks of a model state.
    ///
    /// # Errors
    /// Unsupported if one of several statements is not known.
    pub fn of(model: &Model<'_>) -> Result<Stated> {
        let (mut schemes, mut known, mut unknown) = (Vec::new(), None, None);
        for config in model.configs.iter().filter(|config| config.key != RECIPE) {
            let before = schemes.len();
            schemes
                .extend(SCHEMES.iter().filter(|scheme| scheme.states.holds_of(config)).map(|one| one.name));
            let of = if schemes.len() > before { &mut known } else { &mut unknown };
            of.get_or_insert(config);
        }
        let mut by = known.map(|config| format!("the configuration states {}", config.method()));
        for scheme in SCHEMES.iter().filter(|scheme| scheme.states.is_marked(model)) {
            schemes.push(scheme.name);
            by.get_or_insert_with(|| format!("the tensors are marked as {}", scheme.name));
        }
        match (by, unknown) {
            (None, None) => Ok(Stated::Nothing),
            (None, Some(_)) => Ok(Stated::Unknown),
            (Some(by), None) => Ok(Stated::Schemes { schemes, by }),
            (Some(by), Some(config)) => {
                let message = format!("{} is not a known packing scheme, and {by}", config.method());
                Err(Error::unsupported(message).in_file(config.file))
            }
        }
    }

    /// Fails if a scheme has weights and another one is stated.
    ///
    /// # Errors
    /// Unsupported, with a tensor and what is stated.
    pub fn check(&self, model: &Model<'_>, found: &Found, scheme: &Scheme) -> Result<()> {
        let Stated::Schemes { schemes, by } = self else { return Ok(()) };
        let is_own = matches!(scheme.states, States::Itself) || schemes.contains(&scheme.name);
        let first = found.own().first().filter(|_| !is_own);
        let Some((number, _)) = first.and_then(|weight| weight.parts.first()) else { return Ok(()) };
        let message = format!("it looks like a weight of {}, but {by}", scheme.name);
        Err(Error::unsupported(message).tensor(&model.tensor(*number).name))
    }
}

/// Lists of modules that are not packed: transformers' and AutoAWQ's, vLLM's, bitsandbytes', ModelOpt's. What has a `*` is not
/// looked at.
const LEFT_OUT: [&str; 4] =
    ["modules_to_not_convert", "ignored_layers", "llm_int8_skip_modules", "exclude_modules"];

/// Fails if a packed weight is of a module that a configuration states not to be packed.
///
/// # Errors
/// Malformed, with the list, what it has, and a tensor.
pub fn refuse_left_out(model: &Model<'_>, found: &Found) -> Result<()> {
    for config in &model.configs {
        // MLX says it under the module's own name.
        let is_false =
            |weight: &&PackedTensor| config.json.get(module_of(weight)) == Some(&Json::Bool(false));
        if let Some(weight) = found.weights().iter().find(is_false) {
            let message =
                format!("it is packed, but the configuration has false for `{}`", module_of(weight));
            return Err(of_weight(message, model, config, weight));
        }
        for key in LEFT_OUT {
            let listed = config.json.get(key).and_then(Json::as_array).into_iter().flatten();
            let listed: HashSet<&str> = listed.filter_map(Json::as_str).collect();
            let weights = found.weights().iter().filter(|_| !listed.is_empty());
            for weight in weights {
                let entry = paths_in(module_of(weight)).find(|path| listed.contains(path));
                let Some(entry) = entry else { continue };
                let message = format!("it is packed, but the configuration's `{key}` lists `{entry}`");
                return Err(of_weight(message, model, config, weight));
            }
        }
    }
    Ok(())
}

fn module_of(weight: &PackedTensor) -> &str {
    weight.name.strip_suffix(".weight").unwrap_or(&weight.name)
}

fn of_weight(message: String, model: &Model<'_>, config: &Config<'_>, weight: &PackedTensor) -> Error {
    let tensor = weight.parts.first().map_or(&weight.name, |(part, _)| &model.tensor(*part).name);
    Error::malformed(message).in_file(config.file).tensor(tensor)
}

/// Every run of whole parts in a path: `a.b` has `a`, `a.b` and `b`.
fn paths_in(module: &str) -> impl Iterator<Item = &str> {
    let begins = std::iter::once(0).chain(module.match_indices('.').map(|(at, _)| at + 1)).take(DEEPEST);
    begins.flat_map(move |begin| {
        let rest = &module[begin..];
        let ends = rest.match_indices('.').map(|(at, _)| at).chain(std::iter::once(rest.len()));
        ends.take(DEEPEST).map(move |end| &rest[..end])
    })
}

/// Parts of a path that are looked at. 32: modules have about ten.
const DEEPEST: usize = 32;
