//! What is stated of how a model's weights are packed comes before what its tensors look like: where a scheme is stated, weights are
//! of no other; and where one is stated that no scheme here knows, they are of none.

use crate::model::{Config, Found, Model};
use crate::scheme::{SCHEMES, Scheme, States};
use crate::{compressed_tensors, stars};
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

/// Lists of modules that are not packed: transformers' and AutoAWQ's, vLLM's, bitsandbytes', ModelOpt's in either of its files.
/// That of compressed-tensors is its own scheme's.
const LEFT_OUT: [&str; 5] =
    ["modules_to_not_convert", "ignored_layers", "llm_int8_skip_modules", "exclude_modules", IGNORE];

/// The list that compressed-tensors has too, with patterns of its own.
const IGNORE: &str = "ignore";

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
        let has_own = compressed_tensors::is_ours(config);
        for key in LEFT_OUT.into_iter().filter(|key| *key != IGNORE || !has_own) {
            let listed = LeftOut::of(config, key);
            let mut of_weights = found.weights().iter().filter(|_| !listed.is_empty());
            let entry = of_weights.find_map(|weight| Some((weight, listed.entry(module_of(weight))?)));
            if let Some((weight, entry)) = entry {
                let message = format!("it is packed, but the configuration's `{key}` lists `{entry}`");
                return Err(of_weight(message, model, config, weight));
            }
        }
    }
    Ok(())
}

/// The entries of such a list.
struct LeftOut<'c> {
    /// Paths, or runs of their parts.
    names: HashSet<&'c str>,
    /// Those in which a `*` stands for any text.
    patterns: Vec<&'c str>,
}

impl<'c> LeftOut<'c> {
    fn of(config: &'c Config<'_>, key: &str) -> LeftOut<'c> {
        let listed = config.setting(key).and_then(Json::as_array).into_iter().flatten();
        let (patterns, names): (Vec<_>, Vec<_>) =
            listed.filter_map(Json::as_str).partition(|entry| entry.contains('*'));
        LeftOut { names: names.into_iter().collect(), patterns }
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.patterns.is_empty()
    }

    /// The entry that a module is in the list by.
    fn entry(&self, module: &str) -> Option<&'c str> {
        let by_name = paths_in(module).find_map(|path| self.names.get(path).copied());
        let is_of = |pattern: &&&str| {
            let ends = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
            ends.take(DEEPEST).any(|end| stars::is_of(pattern, &module[..end]))
        };
        by_name.or_else(|| self.patterns.iter().find(is_of).copied())
    }
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
