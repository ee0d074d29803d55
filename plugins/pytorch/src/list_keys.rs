//! The report `list-keys`: the paths with tensors below them, for `--prefix`.

use crate::layout::FORMAT;
use crate::names;
use crate::reader::open_checkpoint;
use apr_sdk::{FileId, Limits, Report, Result, Source, checked_payload_len, escape};
use serde_json::json;
use std::collections::BTreeMap;

/// Levels that the text shows; the JSON has all.
const SHOWN: usize = 3;

/// Paths that the JSON lists.
const LISTED: usize = 100_000;

/// The report of file number `file`.
///
/// # Errors
/// As opening.
pub fn report(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Report> {
    let mut checkpoint = open_checkpoint(source, file, limits)?;
    let walked =
        names::walk(&mut checkpoint.arena, checkpoint.root, None, limits).map_err(|e| e.at(checkpoint.at))?;
    let mut paths: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let (mut tensors, mut bytes) = (0u64, 0u64);
    for (name, number) in &walked.tensors {
        let tensor = &checkpoint.arena.tensors[*number as usize];
        let len =
            checked_payload_len(tensor.dtype, &tensor.size).map_err(|e| e.tensor(name).at(tensor.at))?;
        tensors += 1;
        bytes = bytes.saturating_add(len);
        let whole = match &walked.root {
            Some(root) => format!("{root}.{name}"),
            None => name.clone(),
        };
        for (at, _) in whole.match_indices('.') {
            if paths.len() >= LISTED {
                break;
            }
            limits.budget.charge(2 * at as u64 + 80)?;
            let counts = paths.entry(whole[..at].to_owned()).or_default();
            *counts = (counts.0 + 1, counts.1.saturating_add(len));
        }
    }
    let mut lines = vec![format!("{tensors} tensors, {bytes} bytes")];
    for (path, (n, len)) in &paths {
        let depth = path.matches('.').count();
        if depth < SHOWN {
            lines.push(format!("{}{}: {n} tensors, {len} bytes", "  ".repeat(depth), escape(path, 200)));
        }
    }
    let listed: Vec<_> =
        paths.iter().map(|(path, (n, len))| json!({"path": path, "tensors": n, "bytes": len})).collect();
    let json = json!({
        "schema": format!("{FORMAT}.list-keys/1"),
        "tensors": tensors,
        "bytes": bytes,
        "root": walked.root,
        "paths": listed,
    });
    Ok(Report { text: lines.join("\n"), json: json.to_string(), passed: true })
}
