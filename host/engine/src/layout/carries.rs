//! Refuses what the target cannot hold before work starts, and reports what it does not carry.

use crate::registry::Format;
use crate::wording::n_of;
use apr_sdk::manifest::{ForeignCarrier, name_after_file};
use apr_sdk::{CheckedModel, DType, DTypeKind, Error, ForeignPolicy, Model, Obstacle, Result, escape};

/// The flags that would give tensors types that the target holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Casting {
    /// None: packed weights are copied, and a cast would take codes for values.
    No,
    /// Those of plain tensors.
    Plain,
    /// The same beside `--dequantize`, which is given.
    Beside,
    /// The same with `--dequantize`, which is not given, and which weights that are packed need.
    WithValues,
}

/// The model as handed to the target's writer. Refusals include alternatives, which the target alone cannot
/// know: `others` are all available formats, and `casting` says which flags give tensors another type.
///
/// # Errors
/// As [`CheckedModel::new`], with hints.
pub fn checked(model: Model, target: &Format, others: &[Format], casting: Casting) -> Result<CheckedModel> {
    CheckedModel::new(model, &target.manifest.carries).map_err(|refusal| {
        let way_out = match refusal.obstacle {
            Obstacle::Count(_) => Some(several(target, others)),
            Obstacle::DType(dtype) => Some(ways_out(dtype, target, casting)),
            Obstacle::NameBytes { .. } | Obstacle::NameControls => {
                Some("rename it with --rename OLD=NEW, or leave it out with --drop".to_owned())
            }
            _ => None,
        };
        let error = refusal.error(&target.manifest.name);
        way_out.into_iter().fold(error, Error::hint)
    })
}

/// Suggests formats of the same plugin that hold several tensors.
fn several(target: &Format, others: &[Format]) -> String {
    let more = others.iter().filter(|f| f.plugin == target.plugin && f.manifest.writes);
    let more: Vec<_> = more.filter(|f| !f.manifest.carries.one_tensor).map(Format::id).collect();
    match &more[..] {
        [] => "use a format that can hold several".to_owned(),
        ids => format!("use --to {}, which can hold several", ids.join(" or --to ")),
    }
}

/// Names the only tensor of a model after its file, if the target stores no names. Returns a note for the
/// summary.
pub fn name_after(model: &mut Model, target: &Format, file: &str) -> Option<String> {
    let extension = target.manifest.extensions.first().map_or("", String::as_str);
    let name = name_after_file(file, extension);
    let tensor = model.tensors.first_mut().filter(|_| target.manifest.carries.one_tensor)?;
    let before = std::mem::replace(&mut tensor.name, name.to_owned());
    let [was, is] = [&before, name].map(|name| escape(name, 120));
    (before != name)
        .then(|| format!("not carried over: the name `{was}`; the tensor is named after its file, `{is}`"))
}

/// Advice about a type that the target lacks, in types that it has.
fn ways_out(dtype: DType, target: &Format, casting: Casting) -> String {
    const ANOTHER: &str = "use a format that supports this type";
    let kind = dtype.info().map(|row| row.kind);
    let held = [DType::F32, DType::F16, DType::BF16].map(|to| (to, target.manifest.carries.dtype(to.name())));
    let held: Vec<String> =
        held.iter().filter(|(_, is_held)| *is_held).map(|(to, _)| to.name().to_lowercase()).collect();
    let Some(first) = held.first() else { return ANOTHER.to_owned() };
    let all = held.join("|");
    match (kind, casting) {
        (_, Casting::No) => ANOTHER.to_owned(),
        (Some(DTypeKind::Block), _) => {
            let to = if held.iter().any(|to| to == "f16") { "f16" } else { first };
            format!("{ANOTHER}, or convert it to {} with --dequantize {to}", to.to_uppercase())
        }
        (Some(DTypeKind::Float), Casting::Plain) => {
            format!("{ANOTHER}, or convert it with --precision {all}")
        }
        (Some(DTypeKind::Float), Casting::Beside) => format!("{ANOTHER}, or add --precision {all}"),
        (Some(DTypeKind::Float), Casting::WithValues) => {
            format!("{ANOTHER}, or pass --dequantize {first} --precision {first}")
        }
        _ => ANOTHER.to_owned(),
    }
}

/// Bytes in the name of a file or folder: the limit of every common file system.
const LONGEST_NAME: usize = 255;
/// Bytes in a path below the output: a quarter of what Linux allows.
const LONGEST_PATH: usize = 1024;

/// Removes companions whose names no file system accepts, if they would become files.
fn overlong_names(model: &mut Model) -> Vec<String> {
    let mut lost = Vec::new();
    model.assets.retain(|asset| {
        let longest = asset.name.split('/').map(str::len).max().unwrap_or(0);
        let len = asset.name.len();
        let why = match (longest > LONGEST_NAME, len > LONGEST_PATH) {
            (true, _) => {
                format!("its name has {longest} bytes, more than the limit of {LONGEST_NAME} for a file name")
            }
            (_, true) => format!("its path has {len} bytes, more than the limit of {LONGEST_PATH}"),
            _ => return true,
        };
        lost.push(format!("not carried over: the companion file `{}`: {why}", escape(&asset.name, 60)));
        false
    });
    lost
}

/// Warns of companion files that are the whole text of a key of the source's format, such as a chat template, if the target
/// neither carries them nor `restates` them: the model is another one without them.
pub fn warn_of_lost_texts(
    model: &Model,
    source: &Format,
    target: &Format,
    restates: &dyn Fn(&str, &str, &str) -> bool,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, file) in source.manifest.key_texts.iter().filter(|_| !target.manifest.carries.assets) {
        let is_there = model.assets.iter().any(|asset| asset.name == *file);
        if is_there && !restates(source.id(), file, "") {
            warnings.push(format!(
                "`{file}`, which states the model's `{key}`, is not carried over: copy it to where the output is used"
            ));
        }
    }
    warnings
}

/// Removes from `model`, which was of the format `source`, what the target does not carry, and reports it. `restates` says
/// which keys (by format, file and key) the output states in another form.
pub fn prune(
    model: &mut Model,
    source: &str,
    target: &Format,
    policy: ForeignPolicy,
    restates: &dyn Fn(&str, &str, &str) -> bool,
) -> Vec<String> {
    let mut lost = Vec::new();
    let carries = &target.manifest.carries;
    let carried = match (carries.foreign, policy) {
        (_, ForeignPolicy::Drop) | (ForeignCarrier::None, _) => false,
        (ForeignCarrier::Keep, policy) => policy == ForeignPolicy::Keep,
        _ => true,
    };
    let foreign = model.foreign.iter().map(|foreign| foreign.format.clone());
    let formats: Vec<String> = foreign.chain([source.to_owned()]).collect();
    model.foreign.retain(|foreign| {
        // The formats of its parts write their own metadata.
        let own = foreign.format == target.id() || target.manifest.parts.contains(&foreign.format);
        let keep = carried || own;
        let mut n_keys = 0;
        for file in &foreign.files {
            let lost = file.typed.iter().filter(|(key, _)| !restates(&foreign.format, &file.name, key));
            n_keys += lost.count();
        }
        if !keep && n_keys > 0 {
            let way = match (policy, carries.foreign) {
                (ForeignPolicy::Drop, _) => "",
                (_, ForeignCarrier::Keep) => "; pass --foreign keep to preserve metadata",
                _ => "",
            };
            let keys = n_of(n_keys, "metadata key");
            lost.push(format!("not carried over: {keys} of {}{way}", foreign.format));
        }
        keep
    });
    if policy == ForeignPolicy::Typed {
        model.foreign.iter_mut().flat_map(|f| &mut f.files).for_each(|file| file.verbatim = None);
    }
    if !carries.assets && !model.assets.is_empty() {
        // A file whose whole text the output states, as that of a chat template.
        let mut names = Vec::new();
        for asset in model.assets.drain(..) {
            if !formats.iter().any(|format| restates(format, &asset.name, "")) {
                names.push(escape(&asset.name, 60).to_string());
            }
        }
        if !names.is_empty() {
            lost.push(format!("not carried over: the companion files {}", names.join(", ")));
        }
    }
    if target.manifest.folder {
        lost.extend(overlong_names(model));
    }
    if !carries.tokenizer && !carries.tokenizer_core && model.tokenizer.take().is_some() {
        lost.push("not carried over: the tokenizer".to_owned());
    }
    lost
}
