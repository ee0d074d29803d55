//! `apr kernels list`: which devices are there, and why can some not be used?

use super::rows::aligned;
use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::registry::Registry;
use apr_host::running::{devices, not_automatic};
use apr_host::sizes::show_size;
use apr_sdk::escape;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// List the compute backends and their devices, with the reason if one cannot be used
///
/// Examples:
///   apr kernels list
///   apr kernels list --json
///   apr kernels list -q            only the ids of backends that work
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

/// The devices. JSON: `devices`, each with `backend`, `plugin`, `device` (its number), `name`, `features`, `memory` in
/// bytes (null if unknown), `unusable`, the reason or null, `auto`, whether it may be chosen without being named, and
/// `not_auto`, what to do if not, or null; a backend that fails has no device number.
#[derive(Debug, Serialize)]
pub struct Devices {
    devices: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    backend: String,
    plugin: Option<String>,
    device: Option<usize>,
    name: String,
    features: String,
    memory: Option<u64>,
    unusable: Option<String>,
    auto: bool,
    not_auto: Option<String>,
}

/// Asks every backend for its devices.
pub fn run(_: &Args, context: &Context) -> Devices {
    let registry = context.registry();
    let mut rows = Vec::new();
    for (id, kernel) in registry.kernels() {
        let plugin = plugin_of(&registry, &id);
        let auto = registry.is_automatic(&id);
        let not_auto = (!auto).then(|| not_automatic(&registry, &id));
        let devices = kernel.and_then(|kernel| devices(kernel.as_ref()));
        let why = match &devices {
            Ok(devices) if devices.is_empty() => Some("it has no devices".to_owned()),
            Ok(_) => None,
            Err(error) => Some(error.message().to_owned()),
        };
        for (number, info) in devices.unwrap_or_default().into_iter().enumerate() {
            rows.push(Row {
                backend: id.clone(),
                plugin: plugin.clone(),
                device: Some(number),
                name: info.name,
                features: info.features,
                memory: Some(info.memory).filter(|bytes| *bytes > 0),
                unusable: info.unusable,
                auto,
                not_auto: not_auto.clone(),
            });
        }
        if let Some(why) = why {
            rows.push(Row {
                backend: id,
                plugin,
                device: None,
                name: String::new(),
                features: String::new(),
                memory: None,
                unusable: Some(why),
                auto,
                not_auto,
            });
        }
    }
    Devices { devices: rows }
}

/// The id of the plugin that has a backend.
fn plugin_of(registry: &Registry, backend: &str) -> Option<String> {
    let manifests = registry.plugins().iter().filter_map(|plugin| plugin.manifest.as_ref());
    let mut providers = manifests.filter(|manifest| manifest.kernels.iter().any(|kernel| kernel == backend));
    providers.next().map(|manifest| manifest.id.clone())
}

impl Report for Devices {
    fn json(&self) -> apr_sdk::Result<Json> {
        with_schema("apr.kernels.list/1", self)
    }

    fn quiet(&self) -> String {
        let mut ids: Vec<&str> = self
            .devices
            .iter()
            .filter(|row| row.unusable.is_none())
            .map(|row| row.backend.as_str())
            .collect();
        ids.dedup();
        ids.iter().map(|id| format!("{id}\n")).collect()
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.devices.is_empty() {
            return writeln!(f, "no compute backend found: run `apr plugins list` to list the plugins");
        }
        let head = ["backend", "device", "name", "features", "memory", "status"].map(str::to_owned);
        let mut lines = vec![head];
        for row in &self.devices {
            lines.push([
                escape(&row.backend, 40),
                row.device.map_or("-".to_owned(), |number| number.to_string()),
                or_dash(&row.name),
                or_dash(&row.features),
                row.memory.map_or("-".to_owned(), show_size),
                match (&row.unusable, &row.not_auto) {
                    (Some(why), _) => format!("unusable: {}", escape(why, 400)),
                    (None, None) => "usable".to_owned(),
                    (None, Some(remedy)) => format!("usable, {remedy}"),
                },
            ]);
        }
        f.write_str(&aligned(&lines))
    }
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { escape(text, 80) }
}
