//! `apr plugins info`: what does this plugin say of itself?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::plugins::list::{Row, row};
use apr_engine::architecture::draft_warnings;
use apr_engine::registry::{Plugin, Registry};
use apr_host::plugins::is_table;
use apr_sdk::manifest::{DialectRule, ForeignCarrier, Magic, NameRule};
use apr_sdk::{BlockType, Error, FormatManifest, OptionKind, OptionSpec, Result, escape};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::fmt;
use std::path::Path;

/// Show a plugin's formats, limits, options, block types and compute backends
///
/// A library's manifest is read without running any of its code.
///
/// Examples:
///   apr plugins info gguf
///   apr plugins info target/release/libapr_plugin_my_format.so --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Plugin id, format id, or library file
    #[arg(value_name = "ID|FILE")]
    plugin: String,
}

/// The plugin. JSON: the fields of one of the `plugins` in `apr.plugins.list/1`; `formats`, with everything that their
/// manifests state; `block_types` (each with `name`, `elements` and `bytes` of a block, and `sizes` as the manifest states them);
/// `kernels`, the ids of its compute backends; and `kernel_options`, each with the id of its `backend`.
#[derive(Debug, Serialize)]
pub struct Info {
    #[serde(flatten)]
    row: Row,
    formats: Vec<Json>,
    block_types: Vec<Json>,
    kernels: Vec<String>,
    kernel_options: Vec<Json>,
    #[serde(skip)]
    specs: Vec<(String, OptionSpec)>,
    #[serde(skip)]
    manifests: Vec<FormatManifest>,
    #[serde(skip)]
    blocks: Vec<BlockType>,
    #[serde(skip)]
    warnings: Vec<String>,
}

/// Finds the plugin.
///
/// # Errors
/// NotFound for a file that is not there; InvalidArgument for an unknown id.
pub fn run(args: &Args, context: &Context) -> Result<Info> {
    let path = Path::new(&args.plugin);
    if path.components().count() > 1 || path.is_file() {
        return Ok(info(only(&context.registry_of(path)?)?));
    }
    let registry = context.registry();
    let plugins = registry.plugins();
    // A library before a table of the same name.
    let named =
        plugins.iter().position(|plugin| plugin.manifest.as_ref().is_some_and(|m| m.id == args.plugin));
    let named = named.or_else(|| registry.format(&args.plugin).ok().map(|format| format.plugin));
    let named = named.or_else(|| plugins.iter().position(|p| p.shown_id() == Some(args.plugin.as_str())));
    match named.and_then(|at| plugins.get(at)) {
        Some(plugin) => Ok(info(plugin)),
        None => Err(Error::invalid_argument(format!(
            "no plugin or format is named `{}`",
            escape(&args.plugin, 80)
        ))
        .hint("run `apr plugins list` to see what is available")),
    }
}

/// The one plugin of a registry that was made of one file.
///
/// # Errors
/// NotFound if there is none.
pub fn only(registry: &Registry) -> Result<&Plugin> {
    registry.plugins().first().ok_or_else(|| Error::not_found("no such plugin"))
}

fn info(plugin: &Plugin) -> Info {
    let manifests = plugin.manifest.as_ref().map(|m| m.formats.clone()).unwrap_or_default();
    let kernels = plugin.manifest.as_ref().map(|m| m.kernels.clone()).unwrap_or_default();
    let blocks = plugin.manifest.as_ref().map(|m| m.block_types.clone()).unwrap_or_default();
    let specs = plugin.manifest.as_ref().map(|m| m.kernel_options.clone()).unwrap_or_default();
    let kernel_options = specs.iter().map(|(backend, option)| {
        json!({
            "backend": backend,
            "name": option.name,
            "takes": show_kind(&option.kind),
            "default": option.default,
            "help": option.help,
        })
    });
    Info {
        row: row(plugin),
        formats: manifests.iter().map(format_json).collect(),
        block_types: blocks.iter().map(block_json).collect(),
        blocks,
        kernels,
        kernel_options: kernel_options.collect(),
        specs,
        manifests,
        // A library is not loaded for this.
        warnings: draft_warnings(plugin.path.as_ref().filter(|path| is_table(path)).map(|_| plugin)),
    }
}

fn format_json(format: &FormatManifest) -> Json {
    let carries = &format.carries;
    json!({
        "id": format.id,
        "name": format.name,
        "reads": format.reads,
        "writes": format.writes,
        "magic": format.magic.iter().map(show_magic).collect::<Vec<_>>(),
        "extensions": format.extensions,
        "claims": format.claims,
        "dialect": show_dialect(&format.dialect),
        "dtypes": carries.dtypes,
        "max_dims": carries.max_dims,
        "max_name_bytes": carries.max_name_bytes,
        "names": show_names(carries.names),
        "one_tensor": carries.one_tensor,
        "row_scales": carries.row_scales,
        "zero_size": carries.zero_size,
        "scalars": carries.scalars,
        "shared_storage": carries.shared_storage,
        "metadata": carries.metadata,
        "tokenizer": carries.tokenizer,
        "token_rows": carries.token_rows,
        "assets": carries.assets,
        "graph": carries.graph,
        "foreign": show_foreign(carries.foreign),
        "options": format.options.iter().map(option_json).collect::<Vec<_>>(),
        "reports": format.reports.iter().map(|(id, help)| json!({"id": id, "help": help})).collect::<Vec<_>>(),
    })
}

fn block_json(block: &BlockType) -> Json {
    json!({
        "name": block.name(),
        "elements": block.elements(),
        "bytes": block.bytes(),
        "sizes": block.to_string(),
    })
}

fn option_json(option: &OptionSpec) -> Json {
    json!({
        "name": option.name,
        "read": option.read,
        "write": option.write,
        "takes": show_kind(&option.kind),
        "default": option.default,
        "help": option.help,
    })
}

fn show_magic(magic: &Magic) -> String {
    let digits: String =
        magic.bytes.iter().map(|byte| byte.map_or("--".to_owned(), |byte| format!("{byte:02x}"))).collect();
    format!("{}:{digits}", magic.offset)
}

fn show_dialect(rule: &DialectRule) -> String {
    match rule {
        DialectRule::Always(id) => format!("always {id}"),
        DialectRule::Requires(id) => format!("requires {id}"),
        DialectRule::Prefers(id) => format!("prefers {id}"),
        _ => "any".to_owned(),
    }
}

fn show_names(rule: NameRule) -> &'static str {
    match rule {
        NameRule::NoNul => "without NUL",
        NameRule::NoControl => "without control characters",
        _ => "any",
    }
}

fn show_foreign(carrier: ForeignCarrier) -> &'static str {
    match carrier {
        ForeignCarrier::Keep => "keep",
        ForeignCarrier::Lost => "lost",
        ForeignCarrier::All => "all",
        _ => "none",
    }
}

fn show_kind(kind: &OptionKind) -> String {
    match kind {
        OptionKind::Choice(words) => words.join(", "),
        _ => kind.takes(),
    }
}

impl Report for Info {
    fn json(&self) -> Result<Json> {
        with_schema("apr.plugins.info/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = &self.row;
        let [id, version, license] = [&row.id, &row.version, &row.license]
            .map(|value| value.as_ref().map_or("?".to_owned(), |text| escape(text, 200)));
        writeln!(f, "{id} {version} ({license})")?;
        fact(f, "path", row.path.as_deref().unwrap_or("built into apr"))?;
        fact(f, "tier", row.tier)?;
        fact(f, "interface", row.abi.as_deref().unwrap_or("-"))?;
        match (&row.code, &row.reason) {
            (code, Some(reason)) => {
                let code = code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
                fact(f, "status", &format!("refused, {code}{}", escape(reason, 400)))?;
            }
            _ => fact(f, "status", "works")?,
        }
        self.manifests.iter().try_for_each(|format| show_format(f, format))?;
        for block in &self.blocks {
            let (name, elements, bytes) = (block.name(), block.elements(), block.bytes());
            let bits = f64::from(bytes) * 8.0 / f64::from(elements);
            writeln!(f, "block type {name}: {elements} elements in {bytes} bytes, {bits} bits each")?;
        }
        for id in &self.kernels {
            writeln!(f, "compute backend {}", escape(id, 80))?;
            let specs = self.specs.iter().filter(|(of, _)| of == id);
            specs
                .map(|(_, option)| option)
                .try_for_each(|option| show_option(f, "--backend-option ", option))?;
        }
        Ok(())
    }
}

fn fact(f: &mut fmt::Formatter<'_>, name: &str, value: &str) -> fmt::Result {
    writeln!(f, "  {name:<11} {value}")
}

fn list(words: Option<&[String]>) -> String {
    match words {
        None => "all".to_owned(),
        Some([]) => "none".to_owned(),
        Some(words) => words.join(" "),
    }
}

fn show_option(f: &mut fmt::Formatter<'_>, prefix: &str, option: &OptionSpec) -> fmt::Result {
    let default =
        if option.default.is_empty() { String::new() } else { format!("; default {}", option.default) };
    writeln!(f, "  {prefix}{}: {} ({}{default})", option.name, option.help, show_kind(&option.kind))
}

fn show_format(f: &mut fmt::Formatter<'_>, format: &FormatManifest) -> fmt::Result {
    let carries = &format.carries;
    let yes: Vec<&str> = [(format.reads, "read"), (format.writes, "written")]
        .into_iter()
        .filter_map(|(yes, word)| yes.then_some(word))
        .collect();
    writeln!(f, "format {}: {}, {}", format.id, format.name, yes.join(" and "))?;
    fact(f, "extensions", &format.extensions.join(" "))?;
    if !format.magic.is_empty() {
        fact(f, "magic", &format.magic.iter().map(show_magic).collect::<Vec<_>>().join(" "))?;
    }
    fact(f, "dialect", &show_dialect(&format.dialect))?;
    if format.writes {
        fact(f, "holds", &list(carries.dtypes.as_deref()))?;
        fact(f, "dimensions", &format!("up to {}", carries.max_dims))?;
        if carries.one_tensor {
            fact(f, "tensors", "exactly one, named after its file")?;
        }
        let names = show_names(carries.names);
        fact(f, "names", &format!("{names}, up to {} bytes", carries.max_name_bytes))?;
        fact(f, "metadata", &list(carries.metadata.as_deref()))?;
    }
    for option in &format.options {
        show_option(f, &format!("-O {}.", format.id), option)?;
    }
    format.reports.iter().try_for_each(|(id, help)| writeln!(f, "  report {id}: {help}"))
}
