//! The flags of every verb that opens a model.

use crate::cli::context::Context;
use crate::cli::flags::remote_args::RemoteArgs;
pub use apr_engine::open::GivenOption;
use apr_engine::open::{OpenOptions, OpenedModel, check_options, open};
use apr_engine::packed::Packed;
use apr_host::convert::ConvertOptions;
use apr_host::destination::in_place::Own;
use apr_host::host::Host;
use apr_remote::address::Address;
use apr_sdk::{Error, ErrorKind, Result, escape};
use std::path::Path;

/// How a model is opened.
#[derive(Clone, Debug, clap::Args)]
pub struct OpenArgs {
    /// Read the input as FORMAT instead of detecting its format
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<String>,
    /// Set an option that the format declares; may be repeated
    #[arg(short = 'O', long = "option", value_name = "[FORMAT.]NAME=VALUE", value_parser = parse_option)]
    pub options: Vec<GivenOption>,
    /// Open only this file, without the folder around it
    #[arg(long)]
    pub bare: bool,
    /// Where models that are elsewhere come from.
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// Whether packed weights are shown as they are stored, for the verbs that have `--raw`.
    #[arg(skip)]
    pub raw: bool,
    /// Whether what is read is recorded, to be compared with stored checksums.
    #[arg(skip)]
    pub witnessed: bool,
}

impl OpenArgs {
    /// The same for the library.
    pub fn to_options(&self) -> OpenOptions {
        OpenOptions {
            from: self.from.clone(),
            options: self.options.clone(),
            bare: self.bare,
            witnessed: self.witnessed,
        }
    }

    /// The conversion of a model to its own format that changes nothing of it: to `output`, or in its place.
    pub fn rewriting(&self, own: Own, output: Option<&Path>, context: &Context) -> ConvertOptions {
        let in_place = output.is_none();
        ConvertOptions {
            input: own.input,
            output: Some(output.map_or(own.output, Path::to_owned)),
            from: self.from.clone(),
            to: Some(own.format),
            options: self.options.clone(),
            arch: Some("none".to_owned()),
            reads: context.reads().cloned().collect(),
            force: in_place,
            in_place,
            relaxed: true,
            bare: self.bare,
            ..ConvertOptions::default()
        }
    }

    /// The same with packed weights as they are stored, if `raw` says so.
    #[must_use]
    pub fn shown(&self, raw: bool) -> OpenArgs {
        OpenArgs { raw, ..self.clone() }
    }

    /// The same with what is read recorded, if `witnessed` says so.
    #[must_use]
    pub fn recorded(&self, witnessed: bool) -> OpenArgs {
        OpenArgs { witnessed, ..self.clone() }
    }

    /// Opens the model and says on stderr what the user should know about that.
    ///
    /// # Errors
    /// Whatever opening raised.
    pub fn open(&self, host: &Host, path: &Path) -> Result<OpenedModel> {
        let mut opened = open(host, path, &self.to_options())?;
        if self.raw || Packed::of(&opened).is_none() {
            return Ok(opened);
        }
        match opened.unpack(host) {
            Ok(true) => {}
            Ok(false) => opened.warnings.extend(Packed::of(&opened).map(|packed| packed.unknown())),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let of = error.tensor_name().map(|name| format!(" (`{}`)", escape(name, 120)));
                let message = format!("packed weights are shown as stored: {}", error.message());
                opened.warnings.push(message + &of.unwrap_or_default());
            }
            Err(error) => {
                let error = error.with_file(path.display().to_string());
                return Err(error.hint("pass --raw to show them as stored"));
            }
        }
        Ok(opened)
    }
}

/// Refuses addresses as outputs.
///
/// # Errors
/// Unsupported.
pub fn only_a_path(path: &Path) -> Result<()> {
    if Address::of(path).is_none() {
        return Ok(());
    }
    let message = "apr writes to files and folders on this machine only";
    Err(Error::unsupported(message).in_file(path.display().to_string()).hint("specify a file or a folder"))
}

/// `[FORMAT.]NAME=VALUE`; a name alone is a flag that is on.
///
/// # Errors
/// A sentence saying what is missing.
pub fn parse_option(text: &str) -> std::result::Result<GivenOption, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "true"));
    let (format, name) = match name.split_once('.') {
        Some((format, name)) => (Some(format.to_owned()), name),
        None => (None, name),
    };
    if name.is_empty() || format.as_ref().is_some_and(String::is_empty) {
        return Err("expected NAME=VALUE or FORMAT.NAME=VALUE".to_owned());
    }
    Ok((format, name.to_owned(), value.to_owned()))
}

/// `KEY=VALUE`.
///
/// # Errors
/// A sentence saying what is missing.
pub fn parse_pair(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("expected KEY=VALUE, as in general.name=Phi, found `{text}`")),
    }
}

/// The host with its plugins and the opened model, for the verbs that look into one.
///
/// # Errors
/// As [`OpenArgs::open`].
pub fn host_and_model(args: &OpenArgs, path: &Path, context: &Context) -> Result<(Host, OpenedModel)> {
    let host = context.host();
    let opened = args.open(&host, path)?;
    check_options(&host.registry, &[host.registry.format(&opened.format)?], &args.options)?;
    Ok((host, opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_a_format_or_none() {
        let option =
            |f: Option<&str>, n: &str, v: &str| Ok((f.map(str::to_owned), n.to_owned(), v.to_owned()));
        assert_eq!(parse_option("a.b=c=d"), option(Some("a"), "b", "c=d"));
        assert_eq!(parse_option("b=x.y"), option(None, "b", "x.y"));
        assert_eq!(parse_option("b"), option(None, "b", "true"));
        assert!(
            parse_option("=x").is_err() && parse_option(".a=x").is_err() && parse_option("a.=x").is_err()
        );
        assert!(parse_pair("=x").is_err() && parse_pair("x").is_err());
    }

    #[test]
    fn nothing_is_written_to_an_address() {
        for address in ["-", "hf://org/model", "https://example.org/m", "ftp://x/y"] {
            assert_eq!(only_a_path(Path::new(address)).unwrap_err().kind(), apr_sdk::ErrorKind::Unsupported);
        }
        assert!(only_a_path(Path::new("./-")).is_ok());
    }
}
