//! The header's facts about the model: all that is shown before anything is measured.

use apr_engine::architecture::{called, summary as summary_of};
use apr_engine::open::OpenedModel;
use apr_engine::verify::stats::{RowOptions, TensorRow, tensor_rows};
use apr_host::host::Host;
use apr_host::report::inspect_summary;
use apr_host::sizes::{show_number_of, show_size};
use apr_sdk::Result;

/// The facts about a model that are known without reading its values.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The path as typed.
    pub path: String,
    /// The other model's path, if there is one.
    pub other: Option<String>,
    /// The format's id.
    pub format: String,
    /// The tensors in the file's order.
    pub rows: Vec<TensorRow>,
    /// The lines of `inspect`'s summary, and what is odd about the file.
    pub summary: Vec<(String, String)>,
}

impl Contents {
    /// The contents of the header.
    ///
    /// # Errors
    /// What reading the header raised.
    pub fn of(host: &Host, opened: &OpenedModel, other: Option<&OpenedModel>) -> Result<Contents> {
        let summary = summary_of(host, opened, None)?;
        let rows = tensor_rows(host, opened, RowOptions::default())?;
        let bytes = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.bytes));
        let tensors = format!("{}, {}", show_number_of(rows.len(), "tensor"), show_size(bytes));
        let architecture = called(host, &opened.model);
        let lines = inspect_summary::lines(&summary, architecture.as_deref());
        let mut summary = vec![("tensors".to_owned(), tensors)];
        summary.extend(lines.into_iter().map(|(label, text)| (label.to_owned(), text)));
        summary.extend(opened.model.notes.iter().map(|note| ("note".to_owned(), note.clone())));
        summary.extend(opened.warnings.iter().map(|warning| ("warning".to_owned(), warning.clone())));
        Ok(Contents {
            path: opened.path.display().to_string(),
            other: other.map(|other| other.path.display().to_string()),
            format: opened.format.clone(),
            rows,
            summary,
        })
    }
}
