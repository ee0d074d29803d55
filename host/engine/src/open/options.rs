//! The options that formats declare, and the values that the user gave.

use crate::registry::{Format, Registry};
use apr_sdk::{Error, OptionKind, OptionSpec, Options, Result};
use std::collections::HashSet;

/// An option as given with `-O`: format (optional), name, value.
pub type GivenOption = (Option<String>, String, String);

/// The values of a format's declared options: defaults, overridden by what the user gave for this format.
///
/// # Errors
/// InvalidArgument for a value that the option does not accept; Unsupported for a restriction that is on.
pub fn option_values(
    format: &Format,
    given: &[GivenOption],
    wanted: impl Fn(&OptionSpec) -> bool,
) -> Result<Options> {
    let mut values = Options::new();
    for spec in format.manifest.options.iter().filter(|spec| wanted(spec)) {
        if !spec.default.is_empty() {
            values.set(&spec.name, &spec.default);
        }
        for (of, name, value) in given {
            if *name != spec.name || !is_for(of.as_deref(), format) {
                continue;
            }
            spec.check(format.id(), value)?;
            if spec.kind == OptionKind::Refuse && value == "true" {
                let name = &format.manifest.name;
                let error = Error::unsupported(format!("this is {name}, which --{} refuses", spec.name));
                return Err(error.hint(format!("remove --{} to open it anyway", spec.name)));
            }
            values.set(name, value);
        }
    }
    Ok(values)
}

/// Returns whether an option that was given for `of`, or for any format, is for this one.
fn is_for(of: Option<&str>, format: &Format) -> bool {
    of.is_none_or(|of| of == format.id())
}

/// A format and the formats that may hold its payload.
fn with_parts<'a>(registry: &'a Registry, format: &&'a Format) -> Vec<&'a Format> {
    let parts = format.manifest.parts.iter().filter_map(|id| registry.format(id).ok());
    [*format].into_iter().chain(parts).collect()
}

/// Fails for an option that only changes how the source's own format is written, if something else is.
///
/// # Errors
/// InvalidArgument with the option's name.
pub fn check_write_options(
    registry: &Registry,
    source: &Format,
    target: &Format,
    given: &[GivenOption],
) -> Result<()> {
    let declared = |format, name: &str, of: Option<&str>, is_wanted: fn(&OptionSpec) -> bool| {
        let formats = with_parts(registry, &format).into_iter().filter(|format| is_for(of, format));
        let mut specs = formats.flat_map(|format| &format.manifest.options);
        specs.any(|spec| spec.name == name && is_wanted(spec))
    };
    for (of, name, _) in given {
        let of = of.as_deref();
        let is_written = declared(target, name, of, |spec| spec.write);
        if is_written || declared(source, name, of, |spec| spec.read) || !declared(source, name, of, |_| true)
        {
            continue;
        }
        let (source, target) = (&source.manifest.name, &target.manifest.name);
        let message = format!("`{name}` is an option for writing {source}, but the output is {target}");
        return Err(Error::invalid_argument(message).hint("remove it, or specify an output of that format"));
    }
    Ok(())
}

/// Fails for an option that none of the formats declares. A restriction declared by any available format is
/// accepted for every input: with `--safe`, the user need not know what the file is.
///
/// # Errors
/// InvalidArgument, listing the declared options.
pub fn check_options<'a>(
    registry: &'a Registry,
    formats: &[&'a Format],
    given: &[GivenOption],
) -> Result<()> {
    let formats: Vec<&Format> = formats.iter().flat_map(|f| with_parts(registry, f)).collect();
    for (of, name, _) in given {
        let fitting = formats.iter().filter(|f| is_for(of.as_deref(), f));
        let others = registry.formats().iter().filter(|f| is_for(of.as_deref(), f));
        let mut others = others.flat_map(|f| &f.manifest.options);
        if fitting.flat_map(|f| &f.manifest.options).any(|spec| spec.name == *name)
            || others.any(|spec| spec.name == *name && spec.kind == OptionKind::Refuse)
        {
            continue;
        }
        let mut known: Vec<_> = formats
            .iter()
            .flat_map(|f| f.manifest.options.iter().map(|o| format!("{}.{}", f.id(), o.name)))
            .collect();
        let mut seen = HashSet::new();
        known.retain(|option| seen.insert(option.clone()));
        let hint = if known.is_empty() {
            "remove it: these formats have no options".to_owned()
        } else {
            format!("use one of {}", known.join(", "))
        };
        let full = of.as_ref().map_or(name.clone(), |of| format!("{of}.{name}"));
        return Err(Error::invalid_argument(format!("none of the formats involved has an option `{full}`"))
            .hint(hint));
    }
    Ok(())
}
