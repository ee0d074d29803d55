//! Tensors: the calls that rebuild them, and the persistent ids of their storages.

use super::PickleWriter;
use crate::layout::{StorageType, dtype_name, storage_of};
use crate::quantized::Quantized;
use crate::tree::Leaf;
use apr_sdk::{DType, Error, Result, checked_elements};

impl PickleWriter<'_> {
    /// A tensor under its name: as a parameter or not, with what was set on it.
    pub(super) fn leaf(&mut self, leaf: &Leaf) -> Result<()> {
        let number = self.source.numbers.get(leaf.name.as_str()).copied();
        let number = number
            .ok_or_else(|| Error::plugin("a tensor of the nesting is not in the model").tensor(&leaf.name))?;
        match (leaf.parameter, &leaf.state) {
            (false, None) => return self.tensor(number, leaf.requires_grad),
            (false, Some(state)) => {
                self.global("torch._tensor\n_rebuild_from_type_v2");
                self.tuple(4, |writer| {
                    writer.function(number);
                    writer.global("torch\nTensor");
                    writer.arguments(number, leaf.requires_grad)?;
                    writer.tree(state)
                })?;
            }
            (true, state) => {
                let with = if state.is_some() { "_with_state" } else { "" };
                self.global(&format!("torch._utils\n_rebuild_parameter{with}"));
                self.tuple(if state.is_some() { 4 } else { 3 }, |writer| {
                    writer.tensor(number, false)?;
                    writer.truth(leaf.requires_grad);
                    writer.ordered_dict();
                    state.as_deref().map_or(Ok(()), |state| writer.tree(state))
                })?;
            }
        }
        self.reduce();
        Ok(())
    }

    fn tensor(&mut self, number: usize, requires_grad: bool) -> Result<()> {
        self.function(number);
        self.arguments(number, requires_grad)?;
        self.reduce();
        Ok(())
    }

    /// How the tensor is quantized, and the class of its storage; without a class, bytes.
    fn class(&self, number: usize) -> (Option<Quantized>, Option<&'static StorageType>) {
        let tensor = &self.source.model.tensors[number];
        let value = |key: &str| self.source.values.get(key);
        let quantized = Quantized::of(tensor, value, |name| self.source.numbers.get(name).copied());
        let class = storage_of(tensor.dtype, quantized.is_some());
        (quantized, class)
    }

    /// The function that rebuilds it.
    fn function(&mut self, number: usize) {
        self.global(match self.class(number) {
            (Some(_), _) => "torch._utils\n_rebuild_qtensor",
            (None, Some(_)) => "torch._utils\n_rebuild_tensor_v2",
            (None, None) => "torch._utils\n_rebuild_tensor_v3",
        });
    }

    fn arguments(&mut self, number: usize, requires_grad: bool) -> Result<()> {
        let tensor = &self.source.model.tensors[number];
        let (quantized, class) = self.class(number);
        self.push(b"(");
        self.storage(number, class)?;
        self.int(0);
        self.counts(&tensor.shape)?;
        self.counts(&strides(&tensor.shape))?;
        if let Some(quantized) = quantized {
            self.quantizer(&quantized)?;
        }
        self.truth(requires_grad);
        self.ordered_dict();
        if class.is_none() {
            self.global(&torch_name(tensor.dtype)?);
        }
        self.push(b"t");
        self.put();
        Ok(())
    }

    /// `("storage", class, key, "cpu", elements)`, and BINPERSID.
    fn storage(&mut self, number: usize, class: Option<&StorageType>) -> Result<()> {
        let tensor = &self.source.model.tensors[number];
        let elements = match class {
            Some(_) => checked_elements(&tensor.shape)?,
            None => tensor.payload_len()?,
        };
        let key = self.storages.len().to_string();
        self.storages.push(number);
        self.push(b"(");
        self.constant("storage");
        match class {
            Some(class) => self.global(&format!("torch\n{}", class.name)),
            None => self.global("torch.storage\nUntypedStorage"),
        }
        self.text(&key);
        self.constant("cpu");
        self.count(elements)?;
        self.push(b"t");
        self.put();
        self.push(b"Q");
        Ok(())
    }

    fn quantizer(&mut self, quantized: &Quantized) -> Result<()> {
        match *quantized {
            Quantized::PerTensor { scheme, scale, zero_point } => self.tuple(3, |writer| {
                writer.global(&format!("torch\n{scheme}"));
                writer.float(scale);
                writer.int(zero_point);
                Ok(())
            }),
            Quantized::PerChannel { scheme, scales, zero_points, axis } => self.tuple(4, |writer| {
                writer.global(&format!("torch\n{scheme}"));
                writer.tensor(scales, false)?;
                writer.tensor(zero_points, false)?;
                writer.int(axis);
                Ok(())
            }),
        }
    }
}

/// Row-major strides, in elements, as torch states them: an empty dimension counts as one.
fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64; shape.len()];
    for n in (1..shape.len()).rev() {
        strides[n - 1] = strides[n].saturating_mul(shape[n].max(1));
    }
    strides
}

fn torch_name(dtype: DType) -> Result<String> {
    let name = dtype_name(dtype).map(|name| format!("torch\n{name}"));
    name.ok_or_else(|| Error::unsupported(format!("torch has no type for {dtype}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_those_of_torch() {
        assert_eq!(strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(strides(&[2, 0, 3]), [3, 3, 1]);
        assert_eq!(strides(&[]), [0u64; 0]);
    }
}
