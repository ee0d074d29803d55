//! `apr reproduce`: a model made again from its source, as its record says.

use super::provenance::record_of;
use crate::cli::context::Context;
use crate::cli::flags::remote_args::RemoteArgs;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::contract::Quality;
use apr_engine::convert::Output;
use apr_engine::convert::output::Shards;
use apr_engine::diff::reproduction::{Made, MadeFile, reproduce};
use apr_engine::open::{OpenOptions, open};
use apr_engine::place::Found;
use apr_engine::planned::record::{OptionRecord, sha256_of};
use apr_engine::planned::request::Request;
use apr_engine::registry::Registry;
use apr_host::host::Host;
use apr_host::storage::staged_file::temporary_scratch;
use apr_sdk::{Error, ErrorKind, Result, escape};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::fmt;
use std::path::{Path, PathBuf};

/// Make a model again from its source, and compare it byte by byte
///
/// The conversion that FILE records is done again with IN, and what it would write
/// is compared with FILE. Nothing is written. Exit 5 if a byte differs, if IN is
/// not of the recorded size, or if apr or a plugin has another version than
/// recorded; --any-version tries nevertheless.
///
/// Examples:
///   apr reproduce model-q4.apr --from model.gguf
///   apr reproduce model-q4.apr --from hf://org/name --imatrix imatrix.gguf
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model with a record of where it came from: a file, or any of its shards
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Model that it was made from
    #[arg(long = "from", value_name = "IN")]
    source: PathBuf,
    /// Importance matrix that it was made with, if the record says so
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Make it with other versions of apr and plugins than it was made with
    #[arg(long)]
    any_version: bool,
    /// Where models that are elsewhere come from.
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// The part of a record that a conversion is made again from.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    versions: Map<String, Json>,
    inputs: Vec<Input>,
    options: OptionRecord,
}

/// An input, as recorded.
#[derive(Debug, Deserialize)]
struct Input {
    bytes: u64,
}

/// The comparison. JSON: `file`, `from`, `reproduced`, `files` (each `name`, `bytes`, and `differs_at`, the offset of the
/// first other byte or null), `versions` that are others (each `name`, `recorded`, `here`).
#[derive(Debug, Serialize)]
pub struct Reproduced {
    file: String,
    from: String,
    reproduced: bool,
    files: Vec<MadeFile>,
    versions: Vec<OtherVersion>,
}

/// A version that is not the recorded one.
#[derive(Debug, Serialize)]
struct OtherVersion {
    name: String,
    recorded: String,
    here: Option<String>,
}

/// Makes the model again.
///
/// # Errors
/// Failed for a model without a record, and for versions, inputs and a matrix that are not those recorded; any error from
/// opening, planning and reading.
pub fn run(args: &Args, context: &Context) -> Result<Reproduced> {
    let host = context.host();
    let opened = open(&host, &args.file, &OpenOptions::default())?;
    let shown = args.file.display().to_string();
    let Some(record) = record_of(&opened)? else {
        let error = Error::failed("the file does not record where the model came from").in_file(shown);
        return Err(error.hint("APR files that `apr convert` writes do"));
    };
    let record: Record = serde_json::from_value(record).map_err(|e| {
        let error = Error::unsupported(format!("its record cannot be followed: {e}")).in_file(&shown);
        error.hint("use the version of apr that wrote the file")
    })?;
    let recorded = texts(&record.versions);
    if recorded.is_empty() || recorded.len() != record.versions.len() {
        let error =
            Error::unsupported("its record does not say with which versions it was made").in_file(shown);
        return Err(error.hint("use a file that `apr convert` wrote"));
    }
    let versions = other_versions(&host.registry, &recorded);
    if let Some(other) = versions.first().filter(|_| !args.any_version) {
        return Err(of_other_version(other).in_file(shown));
    }
    let request = Request { versions: Some(recorded), ..request(&host, args, &record.options)? };
    let format = host.registry.format(&opened.format)?;
    // Files of a folder are named after the first of them.
    let files = opened.files.all();
    let first = files.iter().find(|file| !file.is_folder()).map_or("", |file| file.name.as_str());
    let shards = Shards { size: record.options.max_shard_size, tensors: record.options.max_shard_tensors };
    let output = Output::unplaced(format, Path::new(first), &args.source, shards, request.foreign)?;
    let inputs: Vec<u64> = record.inputs.iter().map(|input| input.bytes).collect();
    let inputs = Some(inputs).filter(|inputs| !inputs.is_empty());
    let entry = host.places.locate(&args.file)?;
    let file = |name: &str| match entry.place.open(name) {
        Ok(Found::File(there)) => Ok(Some(there)),
        Ok(Found::Folder) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let made = Made { file: &file, inputs };
    let files =
        reproduce(&host, &request, output, &made, &temporary_scratch).map_err(|e| match e.kind() {
            // What was asked for is in the record, not on the command line.
            ErrorKind::InvalidArgument => {
                let message = format!("its record cannot be followed: {}", e.message());
                let error = Error::unsupported(message).in_file(args.file.display().to_string());
                error.hint("check that IN is the model that it was made from")
            }
            _ => e,
        })?;
    opened.files.refuse_changed()?;
    let reproduced = files.iter().all(|file| file.differs_at.is_none());
    let from = args.source.display().to_string();
    Ok(Reproduced { file: args.file.display().to_string(), from, reproduced, files, versions })
}

/// Versions as pairs; what is no text is not one.
fn texts(versions: &Map<String, Json>) -> Vec<(String, String)> {
    let texts = versions.iter().filter_map(|(name, version)| Some((name, version.as_str()?)));
    texts.map(|(name, version)| (name.clone(), version.to_owned())).collect()
}

/// The recorded versions that are not those here.
fn other_versions(registry: &Registry, recorded: &[(String, String)]) -> Vec<OtherVersion> {
    let mut others = Vec::new();
    for (name, version) in recorded {
        let here = match name.strip_prefix("plugin ") {
            None => Some(env!("CARGO_PKG_VERSION")).filter(|_| name == "apr"),
            Some(id) => {
                let manifests = registry.plugins().iter().filter(|plugin| plugin.state.is_ok());
                let mut manifests = manifests.filter_map(|plugin| plugin.manifest.as_ref());
                manifests.find(|manifest| manifest.id == id).map(|manifest| manifest.version.as_str())
            }
        };
        if here != Some(version) {
            let here = here.map(str::to_owned);
            others.push(OtherVersion { name: name.clone(), recorded: version.clone(), here });
        }
    }
    others
}

fn of_other_version(other: &OtherVersion) -> Error {
    let OtherVersion { name, recorded, here } = other;
    let [name, recorded] = [name, recorded].map(|text| escape(text, 80));
    let here = here.as_ref().map_or("is not here".to_owned(), |here| format!("is {} here", escape(here, 80)));
    let error = Error::failed(format!("it was made with {name} {recorded}, which {here}"));
    error.hint("install that version, or pass --any-version to try with what is here")
}

/// The recorded conversion, of the source and with the files that the user gives.
fn request(host: &Host, args: &Args, options: &OptionRecord) -> Result<Request> {
    let shown = args.file.display().to_string();
    let mut request = options.request().map_err(|e| e.in_file(&shown))?;
    request.input.clone_from(&args.source);
    request.quality = Quality { strict: false, relaxed: true, allow_nonfinite: true };
    if options.recipe_from {
        // It has the types that its own tensors were given.
        request.quantization.recipe_from = Some(args.file.clone());
    }
    match (&options.imatrix, &args.imatrix) {
        (None, None) => {}
        (Some(recorded), Some(path)) => {
            let found = sha256_of(host, path)?;
            if found != *recorded {
                let message =
                    format!("the importance matrix is another: its SHA-256 is {found}, not {recorded}");
                return Err(Error::failed(message).in_file(path.display().to_string()));
            }
            request.quantization.importance = Some(path.clone());
        }
        (Some(recorded), None) => {
            let recorded = escape(recorded, 64);
            let message = format!("it was made with an importance matrix, whose SHA-256 is {recorded}");
            return Err(Error::invalid_argument(message)
                .in_file(shown)
                .hint("pass that file with --imatrix"));
        }
        (None, Some(path)) => {
            let message = "it was made without an importance matrix";
            return Err(Error::invalid_argument(message).in_file(path.display().to_string()));
        }
    }
    Ok(request)
}

impl Report for Reproduced {
    fn json(&self) -> Result<Json> {
        with_schema("apr.reproduction/1", self)
    }

    fn verdict(&self) -> Result<()> {
        let Some(file) = self.files.iter().find(|file| file.differs_at.is_some()) else { return Ok(()) };
        let message = format!("it is not what {} becomes", escape(&self.from, 400));
        let error = Error::failed(message).in_file(&file.name).at(file.differs_at.unwrap_or_default());
        Err(error.hint("`apr diff` of both shows what differs"))
    }

    fn quiet(&self) -> String {
        String::new()
    }
}

impl fmt::Display for Reproduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for OtherVersion { name, recorded, here } in &self.versions {
            let here = here.as_deref().unwrap_or("not here");
            writeln!(
                f,
                "version  {}: {} recorded, {}",
                escape(name, 80),
                escape(recorded, 80),
                escape(here, 80)
            )?;
        }
        for file in &self.files {
            let name = escape(&file.name, 400);
            match file.differs_at {
                None => writeln!(f, "equal    {name}: {} bytes", file.bytes)?,
                Some(at) => writeln!(f, "differs  {name}: from byte {at} on, of {}", file.bytes)?,
            }
        }
        if self.reproduced {
            writeln!(f, "{} is what {} becomes", escape(&self.file, 400), escape(&self.from, 400))?;
        }
        Ok(())
    }
}
