//! GPTQ: what AutoGPTQ and GPTQModel write, and AutoRound in that form.
//!
//! | tensor | type and shape | holds |
//! | --- | --- | --- |
//! | `X.qweight` | I32 `[in * bits / 32, out]` | codes, a string of bits down each column |
//! | `X.qzeros` | I32 `[groups, out * bits / 32]` | zero points, each lower by 1 but in the second version; may be missing, or empty, if the configuration says `sym` |
//! | `X.scales` | F16 `[groups, out]` | scales |
//! | `X.g_idx` | I32 `[in]` | the group of each column; may be missing |
//!
//! weight `[out, in]` = (code - zero point) * scale; a zero point that is not stored is in the middle of the codes. Codes of three bits span words: 32 codes take three words. An index of zeros
//! alone, with several groups, was never filled.
//!
//! Sources: `qlinear_torch.py` of AutoGPTQ 0.7, `nn_modules/qlinear/` of GPTQModel; `conversion/base.py` of llama.cpp.

use crate::agreement::{self, Statement};
use crate::awq;
use crate::model::{Config, Found, Model, matrices};
use crate::pattern::{Matches, Module, Pattern};
use crate::scheme::{Scheme, States};
use crate::words::{Codes, Grid, Zeros};
use apr_sdk::{DType, Error, PackedTensor, Result};
use serde_json::Value as Json;

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "GPTQ", states: States::Config(is_ours), understand };

/// Other words that codes may lie in.
const WORDS: [DType; 6] = [DType::I8, DType::U8, DType::I16, DType::U16, DType::U32, DType::I64];

/// Forms, by the last part of their names: AutoRound puts its own name before some. In others codes are arranged for a kernel.
const FORMS: [&str; 9] =
    ["gptq", "gptq_v2", "gptq_p", "auto_gptq", "auto_round", "gptqmodel", "exllamav2", "tritonv2", "torch"];

/// The names of AutoRound.
pub const AUTO_ROUND: [&str; 2] = ["auto-round", "intel/auto-round"];

/// A pattern of modules, with bits and groups of their own.
struct Own {
    pattern: Pattern,
    bits: Option<u64>,
    group: Option<u64>,
}

/// How modules are packed, as the configuration says.
struct Settings {
    bits: Option<u64>,
    /// Columns of a group, if that is stated.
    group: Option<u64>,
    /// Whether all columns are stated to be one group.
    is_whole: bool,
    /// What is added to stored zero points.
    add: u64,
    /// True if codes of three bits lie in planes of bits.
    has_planes: bool,
    /// Whether columns are in the order of their activations.
    is_ordered: bool,
    /// Whether all zero points are in the middle of the codes.
    is_symmetric: bool,
    /// Modules with bits and groups of their own.
    dynamic: Vec<Own>,
    /// Modules that are not packed.
    left_out: Vec<Pattern>,
    /// How often their patterns may still be matched.
    matches: Matches,
    /// What messages call it.
    name: &'static str,
}

impl Settings {
    /// What is said about a module alone: by the first pattern that matches it. The error is a pattern that might be one, and
    /// says something else.
    fn own(&self, module: &str) -> std::result::Result<Option<&Own>, &str> {
        let (mut found, mut open, module) = (None, Vec::new(), Module::new(module));
        for own in &self.dynamic {
            match own.pattern.matches(module, &self.matches) {
                Some(true) => {
                    found = Some(own);
                    break;
                }
                Some(false) => {}
                None => open.push(own),
            }
        }
        let says = |own: Option<&Own>| {
            (own.and_then(|own| own.bits).or(self.bits), own.and_then(|own| own.group).or(self.group))
        };
        match open.iter().find(|own| says(Some(own)) != says(found)) {
            Some(own) => Err(&own.pattern.text),
            None => Ok(found),
        }
    }
}

/// The announcement: of the method, or the file that AutoGPTQ writes beside the model.
fn config_of<'m, 'a>(model: &'m Model<'a>) -> Option<&'m Config<'a>> {
    let by_method = model.config(&["gptq"]);
    by_method
        .or_else(|| model.config(&AUTO_ROUND).filter(|config| is_round(config)))
        .or_else(|| model.configs.iter().find(|config| is_own(config)))
}

/// Whether AutoRound states this form of its own.
fn is_round(config: &Config<'_>) -> bool {
    let form = config.text("packing_format").or(config.text("backend"));
    config.is_method(&AUTO_ROUND) && form.is_none_or(|form| !form.contains("awq"))
}

/// Whether it is the file that AutoGPTQ writes, which names no method.
fn is_own(config: &Config<'_>) -> bool {
    let is_file = config.file.rsplit('/').next() == Some("quantize_config.json");
    is_file && config.text("quant_method").is_none_or(|of| of == "gptq")
}

fn is_ours(config: &Config<'_>) -> bool {
    config.is_method(&["gptq"]) || is_round(config) || is_own(config)
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    if model.configs.iter().any(awq::is_ours) {
        return Ok(());
    }
    let config = config_of(model);
    let settings = settings(model, config)?;
    let mut is_any = false;
    for (number, codes, module) in model.ending(".qweight") {
        if !found.is_free(number) {
            continue;
        }
        if codes.dtype != DType::I32 {
            if config.is_some() && WORDS.contains(&codes.dtype) {
                let message =
                    format!("codes of {} in words of type {} are not supported", settings.name, codes.dtype);
                return Err(Error::unsupported(message).tensor(&codes.name));
            }
            continue;
        }
        let scales = model.find(&format!("{module}.scales")).map(|at| &model.tensor(at).shape);
        // Without a word, GPTQ is told from AWQ by its columns: as many codes as scales.
        let has_columns = || scales.is_some_and(|scales| scales.last() == codes.shape.last());
        if config.is_none() && !has_columns() {
            continue;
        }
        let weight = weight(model, found, (number, module), &settings)?;
        found.add(model, weight)?;
        is_any = true;
    }
    if config.is_some() {
        found.lost_beside_words(model)?;
    }
    if is_any && config.is_none() {
        found.note(
            "no configuration states the packing scheme: GPTQ version 1 is assumed from names and shapes",
        );
    }
    Ok(())
}

/// The names that announcements give the form that codes and zero points are in.
fn formats<'m>(model: &'m Model<'m>) -> impl Iterator<Item = Statement<'m>> {
    // `format` is the newer name of `checkpoint_format`.
    let keys = ["checkpoint_format", "format", "packing_format"];
    model.configs.iter().filter(|config| is_ours(config)).flat_map(move |config| {
        let stated = move |key| Some(Statement { config, key, value: config.text(key)?.to_owned() });
        keys.into_iter().filter_map(stated)
    })
}

/// The form that codes and zero points are in, as any announcement states it.
///
/// # Errors
/// Malformed where they state several; Unsupported for one that is not known.
fn form(model: &Model<'_>, config: &Config<'_>, name: &str) -> Result<Form> {
    let refused = |format: &str, file: &str| {
        let format: String = format.chars().take(80).collect();
        Error::unsupported(format!("{name} in the form `{format}` cannot be unpacked")).in_file(file)
    };
    if model.configs.iter().any(is_marlin) {
        return Err(refused("marlin", config.file));
    }
    let is_known = |format: &str| format.rsplit(':').next().is_some_and(|form| FORMS.contains(&form));
    if let Some(other) = formats(model).find(|format| !is_known(&format.value)) {
        return Err(refused(&other.value, other.config.file));
    }
    agreement::same(formats(model), |format| Form::of(&format.value))?;
    Ok(formats(model).next().map_or_else(|| Form::of("gptq"), |format| Form::of(&format.value)))
}

/// The codes and zero points that a form's name stands for.
#[derive(PartialEq, Eq)]
struct Form {
    /// True if zero points are stored lower by 1: in the first version, and in AutoRound's form of that name alone.
    subtracts: bool,
    /// True if codes of three bits lie in planes of bits.
    has_planes: bool,
}

impl Form {
    fn of(name: &str) -> Form {
        let has_planes = name.ends_with("gptq_p");
        let subtracts = match name.strip_prefix("auto_round") {
            Some(of) => of.ends_with("gptq"),
            None => !(name.ends_with("gptq_v2") || has_planes),
        };
        Form { subtracts, has_planes }
    }
}

/// Returns whether AutoGPTQ 0.7 states Marlin's form (`quantization/config.py`).
fn is_marlin(config: &Config<'_>) -> bool {
    config.json.get("is_marlin_format").and_then(Json::as_bool) == Some(true)
}

fn settings(model: &Model<'_>, config: Option<&Config<'_>>) -> Result<Settings> {
    let mut settings = Settings {
        bits: None,
        group: None,
        is_whole: false,
        add: 1,
        has_planes: false,
        is_ordered: false,
        is_symmetric: false,
        dynamic: Vec::new(),
        left_out: Vec::new(),
        matches: Matches::default(),
        name: "GPTQ",
    };
    let Some(config) = config else { return Ok(settings) };
    if config.text("quant_method").is_some_and(|method| method.contains("round")) {
        settings.name = "AutoRound";
    }
    settings.bits = bits(config.json.get("bits")).map_err(|what| config.wrong("bits", what))?;
    settings.group = config.group_size(&["group_size"])?;
    settings.is_whole = config.number("group_size") == Some(-1);
    // Of several announcements the one counts that asks for more: a part that is there is read in any case.
    settings.is_ordered = flags(model, "desc_act").any(|is_set| is_set);
    settings.is_symmetric =
        config.json.get("sym") == Some(&Json::Bool(true)) && flags(model, "sym").all(|is_set| is_set);
    let type_of_codes = config.text("data_type").filter(|said| !said.starts_with("int"));
    if let Some(said) = type_of_codes {
        let said: String = said.chars().take(80).collect();
        let message =
            format!("{} with the `data_type` `{}` is not supported", settings.name, said.escape_debug());
        return Err(Error::unsupported(message).in_file(config.file));
    }
    let form = form(model, config, settings.name)?;
    settings.add = u64::from(form.subtracts);
    settings.has_planes = form.has_planes;
    let modules = ["dynamic", "extra_config"].into_iter().filter_map(|key| config.json.get(key)?.as_object());
    for (pattern, of) in modules.flatten() {
        if let Some(pattern) = pattern.strip_prefix("-:") {
            settings.left_out.push(Pattern::new(pattern));
            continue;
        }
        let pattern = pattern.strip_prefix("+:").unwrap_or(pattern);
        let pattern = Pattern::new(pattern);
        let bits = bits(of.get("bits")).map_err(|what| config.wrong("dynamic", what))?;
        let group = of.get("group_size").and_then(Json::as_i64).map(|size| u64::try_from(size).unwrap_or(0));
        settings.dynamic.push(Own { pattern, bits, group });
    }
    Ok(settings)
}

/// The values of a flag in the announcements that state it.
fn flags<'m>(model: &'m Model<'_>, key: &'m str) -> impl Iterator<Item = bool> {
    model
        .configs
        .iter()
        .filter(|config| is_ours(config))
        .filter_map(move |config| config.json.get(key)?.as_bool())
}

fn bits(of: Option<&Json>) -> std::result::Result<Option<u64>, &'static str> {
    match of.map(Json::as_u64) {
        None => Ok(None),
        Some(Some(bits)) if [2, 3, 4, 8].contains(&bits) => Ok(Some(bits)),
        // A module that is left as it is.
        Some(Some(16 | 32)) => Ok(None),
        Some(_) => Err("is not 2, 3, 4 or 8"),
    }
}

/// The number of a part beside a module's codes.
///
/// # Errors
/// Malformed if it is missing.
pub fn needed(model: &Model<'_>, (number, module): (usize, &str), ending: &str) -> Result<usize> {
    model.find(&format!("{module}.{ending}")).ok_or_else(|| {
        let message = format!("`{module}.{ending}` is missing");
        Error::malformed(message).tensor(&model.tensor(number).name)
    })
}

fn weight(
    model: &Model<'_>,
    found: &mut Found,
    (number, module): (usize, &str),
    settings: &Settings,
) -> Result<PackedTensor> {
    let wrong = |number: usize, what: String| Error::malformed(what).tensor(&model.tensor(number).name);
    let of = (number, module);
    let scales_at = needed(model, of, "scales")?;
    let (codes, scales) = (model.tensor(number), model.tensor(scales_at));
    // An empty tensor is none.
    let empty = model.find(&format!("{module}.qzeros")).filter(|at| model.tensor(*at).shape.contains(&0));
    let is_left_out = empty.is_some() || model.find(&format!("{module}.qzeros")).is_none();
    let zeros_at = match settings.is_symmetric && is_left_out {
        true => None,
        false => Some(needed(model, of, "qzeros")?),
    };
    let zeros = zeros_at.map(|at| model.tensor(at));
    let index_at = model.find(&format!("{module}.g_idx"));
    let [groups, of_scales] = &scales.shape[..] else {
        return Err(wrong(scales_at, format!("its shape {:?} is not that of a matrix", scales.shape)));
    };
    let ((stacked, words, rows), groups) = (matrices(codes)?, *groups);
    if stacked != 1 || codes.shape.len() != 2 {
        return Err(wrong(number, format!("its shape {:?} is not that of a matrix", codes.shape)));
    }
    let name = Module::new(module);
    let is_left_out = |pattern: &&Pattern| pattern.matches(name, &settings.matches) == Some(true);
    if let Some(pattern) = settings.left_out.iter().find(is_left_out) {
        let message =
            format!("it is packed, but the configuration's `dynamic` leaves out `{}`", pattern.text);
        return Err(wrong(number, message));
    }
    let own = settings.own(module).map_err(|pattern| {
        let message = format!(
            "the pattern `{pattern}`, which decides its settings, is not supported or takes too long"
        );
        Error::unsupported(message).tensor(&codes.name)
    })?;
    let stated = own.and_then(|own| own.bits).or(settings.bits);
    let columns = index_at.and_then(|at| model.tensor(at).shape.first().copied());
    let from_shape = || {
        let columns = columns?;
        [2, 3, 4, 8].into_iter().find(|bits| columns.checked_mul(*bits) == Some(words * 32))
    };
    let from_zeros = || {
        let across = zeros?.shape.last()?;
        [2, 3, 4, 8].into_iter().find(|bits| Some(rows * bits) == across.checked_mul(32))
    };
    let bits = stated.or_else(from_shape).or_else(from_zeros).unwrap_or(4);
    if bits == 3 && settings.has_planes {
        let message = "codes of 3 bits in the form `gptq_p` cannot be unpacked";
        return Err(Error::unsupported(message).tensor(&codes.name));
    }
    let row_len = columns.unwrap_or(words * 32 / bits);
    if rows == 0 || row_len == 0 || row_len.checked_mul(bits).is_none_or(|n| n != words * 32) {
        let message = format!("its {words} rows of words cannot hold {row_len} codes of {bits} bits");
        return Err(wrong(number, message));
    }
    // A module's own 0 stands for all columns.
    let stated = own.and_then(|own| own.group).or(settings.group).or(settings.is_whole.then_some(0));
    let group = stated.map(|size| if size == 0 { row_len } else { size });
    // Without a word: groups as long as they must be.
    let group = group.unwrap_or_else(|| if groups == 1 { row_len } else { row_len.div_ceil(groups.max(1)) });
    if *of_scales != rows || groups == 0 || row_len.div_ceil(group) != groups {
        let message = format!(
            "its shape {:?} does not match {rows} rows of {row_len} in groups of {group}",
            scales.shape
        );
        return Err(wrong(scales_at, message));
    }
    if let (Some(zeros), Some(at)) = (zeros, zeros_at)
        && (zeros.dtype != DType::I32 || zeros.shape != [groups, (rows * bits).div_ceil(32)])
    {
        let message = format!("its shape {:?} does not match {groups} groups of {rows} rows", zeros.shape);
        return Err(wrong(at, message));
    }
    if index_at.is_none() && settings.is_ordered && groups > 1 {
        let message = "`desc_act` states that columns are reordered, but `g_idx` is missing";
        return Err(wrong(number, message.to_owned()));
    }
    let mut parts = vec![(number, "codes"), (scales_at, "scales")];
    parts.extend(zeros_at.map(|at| (at, "zero points")));
    if zeros_at.is_none() {
        found.note("zero points are left out: they are in the middle of the codes, as `sym` states");
        if let Some(at) = empty {
            found.unused(model, at, "an empty tensor")?;
        }
    }
    if let Some(at) = index_at {
        if model.tensor(at).dtype != DType::I32 || model.tensor(at).shape != [row_len] {
            return Err(wrong(at, "expected the group of each column".to_owned()));
        }
        parts.push((at, "groups of columns"));
    }
    let grid = Grid {
        bits,
        codes: Codes::Columns,
        zeros: if zeros_at.is_some() { Zeros::Along(settings.add) } else { Zeros::All(1 << (bits - 1)) },
        scales: scales.dtype,
        group,
        groups,
        zero_words: 0,
        has_index: index_at.is_some(),
        is_one: false,
        matrix_rows: rows,
        rows,
        row_len,
    };
    let of = if group >= row_len { "a scale for each row".to_owned() } else { format!("groups of {group}") };
    Ok(PackedTensor {
        name: format!("{module}.weight"),
        shape: vec![rows, row_len],
        strides: Vec::new(),
        dtype: model.dtype(scales.dtype),
        about: format!("{}, {bits} bits, {of}", settings.name),
        exact: grid.exact(),
        panel: grid.panel(),
        rows: grid.packed(),
        parts: parts.into_iter().map(|(part, what)| (part, what.to_owned())).collect(),
    })
}
