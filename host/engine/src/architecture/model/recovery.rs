//! Computed tensors of the source, and the configuration behind them.

use super::{Journey, Vocabulary};
use crate::architecture::config::generation::{Part, as_f32, recover};
use crate::architecture::config::{Config, ConfigScope, Dimensions};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::Generator;
use crate::architecture::table::rule::images;
use crate::architecture::translate::ids_of;
use apr_sdk::{Bytes, Error, Extent, Payload, Result, Tensor, escape};

impl Journey<'_> {
    /// States what the source's dialect expresses only as a computed tensor.
    ///
    /// # Errors
    /// Unsupported for such a tensor that no configuration produces; any error from reading.
    pub(in crate::architecture) fn recover(
        &self,
        tensors: &[Tensor],
        config: &mut Config,
        dimensions: Dimensions<'_>,
        vocabulary: &Vocabulary<'_>,
    ) -> Result<()> {
        let sides = self.table.rules.iter().filter_map(|rule| Some((rule, rule.side(self.from)?)));
        for (rule, side) in sides {
            let (Some(generator), Some(image)) = (&side.generated, side.images.first()) else { continue };
            let named = tensors.iter().filter(|tensor| image.numbers(&tensor.name).is_some());
            let named: Vec<&Tensor> = named.collect();
            let Some(first) = named.first() else { continue };
            if let Generator::Rows { of, tokens } = generator {
                if rule.applies(&ConfigScope::new(self.table, config, dimensions))? {
                    let ids = ids_of(tokens, &|text| vocabulary.id(text));
                    let checked = ids.and_then(|ids| self.check_rows(first, of, tokens, &ids, tensors));
                    checked.map_err(|e| e.tensor(&first.name))?;
                }
                continue;
            }
            let mut values = Vec::new();
            for tensor in &named {
                values.extend(self.small_floats(tensor)?.map(|bytes| (tensor.name.as_str(), bytes)));
            }
            let is_readable = values.len() == named.len();
            let parts = Part::all(image, values.into_iter());
            let stated = match is_readable {
                true => recover(generator, &parts, &ConfigScope::new(self.table, config, dimensions))?,
                false => None,
            };
            let Some(stated) = stated else {
                let error =
                    Error::unsupported("no configuration of this architecture can represent its contents");
                let hint = "pass --arch none to keep every name, or keep the model in its own format";
                return Err(error.tensor(&first.name).hint(hint));
            };
            for (name, value) in stated {
                if config.get(&name).is_none() {
                    config.set(&name, value);
                }
            }
        }
        Ok(())
    }

    /// Fails for a tensor that does not consist of another's rows for these tokens: they are of one that the file lacks.
    fn check_rows(
        &self,
        tensor: &Tensor,
        of: &str,
        tokens: &[String],
        ids: &[u64],
        tensors: &[Tensor],
    ) -> Result<()> {
        const HINT: &str = "keep the model in its own format; no other has a place for its head alone";
        let image = self.table.rule_of(of).and_then(|rule| images(rule, self.from).0.first());
        let name = image.map_or(of, Pattern::text);
        let source = tensors.iter().find(|own| own.name == name);
        let shown = escape(name, 120);
        let Some(source) = source else {
            let message = format!("it consists of rows of `{shown}`, which the file lacks");
            return Err(Error::unsupported(message).hint(HINT));
        };
        let n_rows = source.shape.first().copied().unwrap_or(0).max(1);
        let unlike = || {
            let message =
                format!("its type or shape is not that of rows of `{shown}`, which it may consist of");
            Error::unsupported(message).hint(HINT)
        };
        if tensor.dtype != source.dtype || tensor.shape.first() != Some(&(ids.len() as u64)) {
            return Err(unlike());
        }
        let Payload::Extent { extent: own, view: None } = &tensor.payload else { return Err(unlike()) };
        let Payload::Extent { extent: all, view: None } = &source.payload else { return Err(unlike()) };
        let len = all.len / n_rows;
        let mut at = 0;
        for &id in ids {
            let row = Extent { offset: all.offset + id.min(n_rows - 1) * len, len, ..*all };
            let stored = Extent { offset: own.offset + at, len, ..*own };
            let row = self.stored.source.fetch(&Bytes::Extent(row))?;
            let stored = self.stored.source.fetch(&Bytes::Extent(stored))?;
            if row.inline() != stored.inline() {
                let tokens: Vec<String> =
                    tokens.iter().map(|token| format!("`{}`", escape(token, 80))).collect();
                let message = format!(
                    "it does not consist of the rows that `{shown}` has for {}: the head that they are of is \
                     not in the file",
                    tokens.join(" and ")
                );
                return Err(Error::unsupported(message).hint(HINT));
            }
            at += len;
        }
        Ok(())
    }

    /// The values of a small tensor of floats, as F32; `None` for any other.
    ///
    /// # Errors
    /// Any error from reading.
    fn small_floats(&self, tensor: &Tensor) -> Result<Option<Vec<u8>>> {
        const MOST: u64 = 1 << 20;
        let Payload::Extent { extent, view: None } = tensor.payload else { return Ok(None) };
        if extent.len > MOST {
            return Ok(None);
        }
        let bytes = self.stored.source.fetch(&Bytes::Extent(extent))?;
        Ok(as_f32(tensor.dtype, bytes.inline().unwrap_or_default()))
    }
}
