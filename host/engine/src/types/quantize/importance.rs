//! Importance matrices: how much each column of a weight matters, as read from a file by quantizer plugins.

use crate::engine::Engine;
use crate::open::files::Files;
use crate::open::source::{CallSource, Root};
use crate::wording::n_of;
use apr_sdk::{Error, ErrorKind, ImportanceSink, Limits, Quantizer, Result, TensorFacts, Value, escape};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Values in a matrix: 4 GiB of them. The largest known model with experts has a hundredth.
const MOST: usize = 1 << 30;

/// The importance of each column of a model's weights.
#[derive(Debug, Default)]
pub struct ImportanceMatrix {
    /// Values by (dialect, tensor name).
    tensors: HashMap<(String, String), Arc<[f32]>>,
    values: usize,
    /// The records kept by a model quantized with the matrix: (format, key, value).
    pub records: Vec<(String, String, Value)>,
}

impl ImportanceMatrix {
    /// Reads a file with the first plugin that recognises it.
    ///
    /// # Errors
    /// NotFound and the like; any error from the plugins.
    pub fn read(engine: &Engine, quantizers: &[Arc<dyn Quantizer>], path: &Path) -> Result<ImportanceMatrix> {
        let files = Files::new(&engine.places.locate(path)?, Arc::clone(&engine.cancel));
        let limits = Limits::default();
        let source = CallSource::new(&files, Root::WHOLE, &limits.budget, engine.progress.as_ref());
        let mut unknown = None;
        for quantizer in quantizers {
            let mut importance = ImportanceMatrix::default();
            match quantizer.importance(&source, &mut importance) {
                Ok(()) => return Ok(importance),
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    // One that says what to do instead knows such files.
                    if unknown.as_ref().is_none_or(|known: &Error| known.hint_text().is_none()) {
                        unknown = Some(error);
                    }
                }
                Err(error) => return Err(files.show(error)),
            }
        }
        Err(files.show(unknown.unwrap_or_else(|| {
            let hint = engine.registry.quantizer_hint("run `apr plugins list` to see what is available");
            Error::unsupported("no plugin reads importance matrices").hint(hint)
        })))
    }

    /// Keeps the tensors whose names contain one of `include` (all, if that is empty) and none of `exclude`,
    /// like llama-quantize.
    ///
    /// # Errors
    /// InvalidArgument for a text that occurs in no name.
    pub fn choose(&mut self, include: &[String], exclude: &[String]) -> Result<()> {
        for (flag, texts) in [("--include-weights", include), ("--exclude-weights", exclude)] {
            for text in texts {
                if !self.tensors.keys().any(|(_, name)| name.contains(text)) {
                    let shown = escape(text, 120);
                    let message =
                        format!("{flag} {shown}: the importance matrix has no tensor with a matching name");
                    return Err(
                        Error::invalid_argument(message).hint("specify part of a name, such as attn_v")
                    );
                }
            }
        }
        self.tensors.retain(|(_, name), _| {
            let is_included = include.is_empty() || include.iter().any(|text| name.contains(text));
            is_included && !exclude.iter().any(|text| name.contains(text))
        });
        Ok(())
    }

    /// The values for a tensor, under any of its names.
    pub fn of(&self, facts: &TensorFacts) -> Option<&Arc<[f32]>> {
        let by_dialect = facts.names.iter().find_map(|name| self.tensors.get(name));
        // Without a table, a name may belong to any dialect.
        by_dialect.or_else(|| {
            let (dialect, _) = self.tensors.keys().next()?;
            self.tensors.get(&(dialect.clone(), facts.name.clone()))
        })
    }

    /// The values for a tensor, unless all are 0 and so carry no information.
    pub fn telling(&self, facts: &TensorFacts) -> Option<&Arc<[f32]>> {
        self.of(facts).filter(|values| values.iter().any(|value| *value > 0.0))
    }

    /// A note about how much of the matrix was used.
    pub fn summary(&self, tensors: &[TensorFacts]) -> String {
        let used = tensors.iter().filter(|facts| facts.has_importance).count();
        let all = self.tensors.len();
        format!("the importance matrix has {}, {used} of them used", n_of(all, "tensor"))
    }

    /// A warning that none of the matrix was used.
    pub fn unused(&self, tensors: &[TensorFacts]) -> String {
        let all = n_of(self.tensors.len(), "tensor");
        let why = match tensors.iter().find(|facts| self.of(facts).is_some()) {
            Some(_) => format!("none of its {all} with nonzero values were quantized to blocks"),
            None => {
                let names = self.tensors.keys().map(|(_, name)| name.as_str());
                let shown =
                    names.min().map_or(String::new(), |name| format!(" (such as `{}`)", escape(name, 120)));
                format!("the model has none of its {all}{shown}: it was made for another model")
            }
        };
        format!("the importance matrix was not used: {why}")
    }
}

impl ImportanceSink for ImportanceMatrix {
    fn tensor(&mut self, dialect: &str, name: &str, values: &[f32]) -> Result<()> {
        self.values = self.values.saturating_add(values.len());
        if self.values > MOST {
            return Err(Error::limit(format!("the importance matrix has more than {MOST} values")));
        }
        if let Some(n) = values.iter().position(|value| !value.is_finite() || *value < 0.0) {
            let message = format!(
                "value {n} of its importance is {}, expected a finite number that is not negative",
                values[n]
            );
            return Err(Error::malformed(message).tensor(name).hint("make the importance matrix again"));
        }
        self.tensors.insert((dialect.to_owned(), name.to_owned()), values.into());
        Ok(())
    }

    fn record(&mut self, format: &str, key: &str, value: Value) -> Result<()> {
        if self.records.len() >= 64 {
            return Err(Error::limit("the importance matrix has more than 64 keys"));
        }
        self.records.push((format.to_owned(), key.to_owned(), value));
        Ok(())
    }
}
