//! Computed tensors of the source, and the configuration behind them.

use super::Journey;
use crate::architecture::config::generation::{Part, as_f32, recover};
use crate::architecture::config::{Config, ConfigScope, Dimensions};
use apr_sdk::{Bytes, Error, Payload, Result, Tensor};

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
    ) -> Result<()> {
        for side in self.table.rules.iter().filter_map(|rule| rule.side(self.from)) {
            let (Some(generator), Some(image)) = (&side.generated, side.images.first()) else { continue };
            let named = tensors.iter().filter(|tensor| image.numbers(&tensor.name).is_some());
            let named: Vec<&Tensor> = named.collect();
            let Some(first) = named.first() else { continue };
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
