//! The flag sets that every conversion is tried with, as data.

use crate::inputs::Input;
use apr_engine::registry::Format;
use apr_host::convert::ConvertOptions;
use apr_sdk::{DType, ForeignPolicy};

/// What a flag set is asked of.
pub struct Case<'a> {
    /// The model.
    pub input: &'a Input,
    /// The format to be written.
    pub target: &'a Format,
}

/// What is done with the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The model is converted.
    Convert,
    /// The conversion is planned.
    Plan,
}

/// Which models are tried with a flag set. All with all would take twice the time, and a list twice as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Every model.
    All,
    /// All but the large ones.
    Small,
    /// A third of the fixtures and of the golden models, whose names decide; and those that are made for a purpose.
    Some,
}

impl Of {
    /// Whether it is this one.
    pub fn has(self, input: &Input) -> bool {
        match self {
            Of::All => true,
            Of::Small => !input.is_large,
            Of::Some => {
                let is_of_the_third = crc32fast::hash(input.name.as_bytes()).is_multiple_of(3);
                !input.is_large && (is_of_the_third || !input.is_one_of_many)
            }
        }
    }
}

/// A set of flags that every applicable model is converted with.
pub struct FlagSet {
    /// Its name in the list.
    pub name: &'static str,
    /// What is done with it.
    pub verb: Verb,
    /// Which models are tried with it.
    pub of: Of,
    /// Adds the flags; `false` where they do not apply.
    pub ask: fn(&mut ConvertOptions, &Case<'_>) -> bool,
}

const fn set(name: &'static str, of: Of, ask: fn(&mut ConvertOptions, &Case<'_>) -> bool) -> FlagSet {
    FlagSet { name, verb: Verb::Convert, of, ask }
}

const fn plan(name: &'static str, ask: fn(&mut ConvertOptions, &Case<'_>) -> bool) -> FlagSet {
    FlagSet { name, verb: Verb::Plan, of: Of::All, ask }
}

/// Every flag set. The first is compared with by eye, so it is the plainest.
pub const FLAG_SETS: &[FlagSet] = &[
    set("plain", Of::All, |_, _| true),
    set("arch-none", Of::Some, |o, _| {
        o.arch = Some("none".to_owned());
        true
    }),
    set("f16", Of::All, |o, _| {
        o.quantization.precision = Some(DType::F16);
        true
    }),
    // What would stop the work is told instead.
    set("bf16-relaxed", Of::Some, |o, _| {
        o.relaxed = true;
        o.quantization.precision = Some(DType::BF16);
        true
    }),
    set("Q4_K_M", Of::All, |o, _| recipe(o, "Q4_K_M")),
    set("Q8_0", Of::Some, |o, _| recipe(o, "Q8_0")),
    set("int8", Of::All, |o, case| case.target.manifest.carries.row_scales && recipe(o, "int8")),
    set("int4", Of::Some, |o, case| case.target.manifest.carries.row_scales && recipe(o, "int4")),
    set("dequantize", Of::Small, |o, _| {
        o.quantization.dequantize = Some(DType::F32);
        o.allow_nonfinite = true;
        true
    }),
    set("shards", Of::All, |o, case| {
        o.max_shard_size = Some((case.input.payload / 3).max(1));
        true
    }),
    set("prefix", Of::Some, |o, case| {
        o.renaming.prefix = case.input.first.split_once('.').map(|(path, _)| path.to_owned());
        o.renaming.prefix.is_some()
    }),
    set("mapping", Of::Some, |o, case| {
        o.arch = Some("none".to_owned());
        o.renaming.mapping = vec![(case.input.first.clone(), "renamed.first".to_owned())];
        !case.input.first.is_empty()
    }),
    set("keep", Of::Some, |o, _| foreign(o, ForeignPolicy::Keep)),
    set("typed", Of::Some, |o, _| foreign(o, ForeignPolicy::Typed)),
    set("drop", Of::Small, |o, _| foreign(o, ForeignPolicy::Drop)),
    set("set", Of::Some, |o, _| {
        o.set = vec![("baseline.key:str".to_owned(), "a value".to_owned())];
        true
    }),
    set("option", Of::Some, |o, case| {
        let declares = |name: &str| {
            case.target.manifest.options.iter().any(|option| option.write && option.name == name)
        };
        let found = OPTIONS.iter().find(|(name, _)| declares(name));
        o.options =
            found.map(|(name, value)| (None, (*name).to_owned(), (*value).to_owned())).into_iter().collect();
        found.is_some()
    }),
    plan("plan", |_, _| true),
    plan("plan-Q4_K_M", |o, _| recipe(o, "Q4_K_M")),
];

/// Options of writers, each with a value that is not its default. The first that the target has is tried.
const OPTIONS: &[(&str, &str)] =
    &[("weights", "pytorch"), ("external-data", "true"), ("framework", "mlx"), ("pre", "llama-bpe")];

fn recipe(options: &mut ConvertOptions, name: &str) -> bool {
    options.quantization.recipe = Some(name.to_owned());
    true
}

fn foreign(options: &mut ConvertOptions, policy: ForeignPolicy) -> bool {
    options.foreign = policy;
    true
}
