//! The functions that rebuild tensors (`torch/_utils.py`): checks their arguments and records their tensors.

use super::allow_list::{Global, Rebuild};
use super::decoder::Step;
use super::machine::{Machine, NOTHING};
use super::value::{Id, Node, Quantizer, Tensor};
use crate::layout::not_carried;
use apr_sdk::{DType, Error, Result};

impl Machine<'_, '_, '_> {
    /// Calls one of them.
    pub(super) fn rebuild(&mut self, step: &Step, rebuild: Rebuild, items: &[Id]) -> Result<Node> {
        match (rebuild, items) {
            (Rebuild::NotCarried((name, why)), _) => {
                Err(Error::unsupported(format!("`torch._utils.{name}` creates {why}: {NOTHING}")))
            }
            (Rebuild::V1, &[storage, offset, size, stride]) => {
                self.tensor(step, [storage, offset, size, stride], None, None)
            }
            (Rebuild::V2, &[storage, offset, size, stride, grad, hooks, ref metadata @ ..])
                if metadata.len() <= 1 =>
            {
                self.checked_extras(step, hooks, metadata)?;
                self.tensor(step, [storage, offset, size, stride], Some(grad), None)
            }
            (Rebuild::V3, &[storage, offset, size, stride, grad, hooks, dtype, ref metadata @ ..])
                if metadata.len() <= 1 =>
            {
                self.checked_extras(step, hooks, metadata)?;
                self.tensor(step, [storage, offset, size, stride], Some(grad), Some(dtype))
            }
            (Rebuild::Quantized, &[storage, offset, size, stride, quantizer, grad, hooks]) => {
                self.checked_extras(step, hooks, &[])?;
                let quantizer = self.quantizer(step, quantizer)?;
                let node = self.tensor(step, [storage, offset, size, stride], Some(grad), None)?;
                // `tensor` put it last.
                if let Some(tensor) = self.arena.tensors.last_mut() {
                    tensor.quantizer = Some(Box::new(quantizer));
                }
                Ok(node)
            }
            (Rebuild::Parameter, &[data, grad, hooks]) => {
                self.checked_extras(step, hooks, &[])?;
                self.parameter(step, data, grad)
            }
            (Rebuild::ParameterWithState, &[data, grad, hooks, state]) => {
                self.checked_extras(step, hooks, &[])?;
                let node = self.parameter(step, data, grad)?;
                self.set_state(step, &node, state)?;
                Ok(node)
            }
            (Rebuild::FromType, &[function, class, arguments, state]) => {
                let parameter = match self.arena.node(class) {
                    Node::Global(Global::TensorClass { parameter }) => *parameter,
                    _ => return Err(self.wrong(step, "a class other than that of a tensor")),
                };
                match *self.arena.node(function) {
                    Node::Global(Global::Rebuild(inner)) if inner != Rebuild::FromType => {
                        let made = self.reduce(step, function, arguments)?;
                        let node = if parameter {
                            let grad = self.requires_grad(made);
                            let grad = self.make(Node::Bool(grad))?;
                            self.parameter(step, made, grad)?
                        } else {
                            self.arena.node(made).clone()
                        };
                        self.set_state(step, &node, state)?;
                        Ok(node)
                    }
                    _ => Err(self.wrong(step, "a function that rebuilds no tensor")),
                }
            }
            _ => Err(self.wrong(step, format!("{rebuild:?} does not take {} values", items.len()))),
        }
    }

    fn requires_grad(&self, tensor: Id) -> bool {
        match self.arena.node(tensor) {
            Node::Tensor(n) => self.arena.tensors.get(*n as usize).is_some_and(|tensor| tensor.requires_grad),
            _ => false,
        }
    }

    /// `backward_hooks`, which are always empty, and `metadata`, which changes what the storage means.
    fn checked_extras(&self, step: &Step, hooks: Id, metadata: &[Id]) -> Result<()> {
        let empty = match self.arena.node(hooks) {
            Node::None => true,
            Node::Dict(dict) => dict.entries.is_empty(),
            _ => false,
        };
        if !empty {
            return Err(self.wrong(step, "a tensor with hooks"));
        }
        let Some(&metadata) = metadata.first() else { return Ok(()) };
        let entries = match self.arena.node(metadata) {
            Node::None => return Ok(()),
            Node::Dict(dict) => &dict.entries,
            _ => return Err(self.wrong(step, "a tensor whose metadata is not a dict")),
        };
        // The same dict may be looked through for each of many tensors.
        self.charge(8 * entries.len() as u64)?;
        for &(key, value) in entries {
            let on = !matches!(self.arena.node(value), Node::Bool(false) | Node::None);
            if on {
                let key = apr_sdk::escape(self.arena.text_of(key).unwrap_or("?"), 40);
                return Err(Error::unsupported(format!(
                    "a tensor is stored with `{key}` pending, so its bytes are not its values: {NOTHING}"
                ))
                .hint("save it with `tensor.resolve_conj().resolve_neg()`"));
            }
        }
        Ok(())
    }

    /// The storage's tensor: `[storage, offset, size, stride]`.
    fn tensor(
        &mut self,
        step: &Step,
        [storage, offset, size, stride]: [Id; 4],
        grad: Option<Id>,
        dtype: Option<Id>,
    ) -> Result<Node> {
        let Node::Storage(number) = *self.arena.node(storage) else {
            let what = self.arena.what(storage);
            return Err(self.wrong(step, format!("a tensor of {what}, expected a storage")));
        };
        let class = self.arena.storages.get(number as usize).and_then(|storage| storage.dtype);
        let dtype = match dtype {
            Some(dtype) => self.dtype(step, dtype)?,
            None => class
                .ok_or_else(|| self.wrong(step, "a tensor without a type, of a storage without a type"))?,
        };
        let offset = self.arena.int_of(offset).and_then(|n| u64::try_from(n).ok());
        let offset = offset.ok_or_else(|| self.wrong(step, "an offset that is not a valid count"))?;
        let (size, stride) = (self.counts(step, "sizes", size)?, self.counts(step, "strides", stride)?);
        if size.len() != stride.len() {
            let message = format!("{} sizes and {} strides", size.len(), stride.len());
            return Err(self.wrong(step, message));
        }
        let requires_grad = match grad.map(|grad| self.arena.node(grad)) {
            None | Some(Node::Bool(false)) => false,
            Some(Node::Bool(true)) => true,
            Some(_) => return Err(self.wrong(step, "`requires_grad` that is not a boolean")),
        };
        self.record(Tensor {
            storage: number,
            dtype,
            offset,
            size,
            stride,
            requires_grad,
            parameter: false,
            quantizer: None,
            state: None,
            at: step.at,
        })
    }

    fn record(&mut self, tensor: Tensor) -> Result<Node> {
        // 160 bytes: a tensor's record with the room a vector keeps free.
        self.charge(160 + 16 * tensor.size.len() as u64)?;
        let number = u32::try_from(self.arena.tensors.len());
        let number = number.map_err(|_| Error::limit("a pickle of more than 2^32 tensors"))?;
        self.arena.tensors.push(tensor);
        Ok(Node::Tensor(number))
    }

    fn dtype(&self, step: &Step, id: Id) -> Result<DType> {
        match self.arena.node(id) {
            Node::Global(Global::DType(_, Some(dtype))) => Ok(*dtype),
            Node::Global(Global::DType(name, None)) => Err(not_carried(name)),
            _ => Err(self.wrong(step, format!("a type that is {}", self.arena.what(id)))),
        }
    }

    fn counts(&self, step: &Step, what: &str, id: Id) -> Result<Box<[u64]>> {
        let items = self.arena.items_of(id);
        let items =
            items.ok_or_else(|| self.wrong(step, format!("{what} that are {}", self.arena.what(id))))?;
        let limit = self.decoder.limits().dims;
        if items.len() > limit {
            return Err(Error::unsupported(format!(
                "{} dimensions, more than the limit of {limit}",
                items.len()
            )));
        }
        let count = |&item: &Id| self.arena.int_of(item).and_then(|n| u64::try_from(n).ok());
        let counts: Option<Box<[u64]>> = items.iter().map(count).collect();
        counts.ok_or_else(|| self.wrong(step, format!("{what} that are negative or not valid counts")))
    }

    /// A tensor as a parameter.
    pub(super) fn parameter(&mut self, step: &Step, data: Id, grad: Id) -> Result<Node> {
        let (Node::Tensor(number), Node::Bool(grad)) = (self.arena.node(data), self.arena.node(grad)) else {
            let what = (self.arena.what(data), self.arena.what(grad));
            return Err(self.wrong(step, format!("a parameter of {} and {}", what.0, what.1)));
        };
        let tensor = self.arena.tensors.get(*number as usize).cloned();
        let tensor = tensor.ok_or_else(|| self.wrong(step, "a parameter without a tensor"))?;
        let requires_grad = *grad;
        // What was set on the data is not set on the parameter.
        self.record(Tensor { parameter: true, requires_grad, state: None, at: step.at, ..tensor })
    }

    /// Sets what belongs to a tensor object itself: a dict, or a dict and the values of its slots.
    pub(super) fn set_state(&mut self, step: &Step, tensor: &Node, state: Id) -> Result<()> {
        match self.arena.node(state) {
            Node::None => return Ok(()),
            Node::Dict(_) => {}
            Node::Tuple(two) if two.len() == 2 => {}
            _ => {
                let what = self.arena.what(state);
                return Err(self.wrong(step, format!("the state of a tensor is {what}, expected a dict")));
            }
        }
        let Node::Tensor(number) = *tensor else { return Err(self.wrong(step, "a state without a tensor")) };
        match self.arena.tensors.get_mut(number as usize) {
            Some(tensor) if tensor.state.is_none() => tensor.state = Some(state),
            _ => return Err(self.wrong(step, "the state of a tensor is set twice")),
        }
        Ok(())
    }

    /// `(scheme, scale, zero_point)` or `(scheme, scales, zero_points, axis)`.
    fn quantizer(&self, step: &Step, id: Id) -> Result<Quantizer> {
        let items = self.arena.items_of(id).unwrap_or_default();
        let scheme = match items.first().map(|&scheme| self.arena.node(scheme)) {
            Some(Node::Global(Global::QScheme(scheme))) => *scheme,
            _ => return Err(self.wrong(step, "a quantized tensor without a scheme")),
        };
        match *items {
            [_, scale, zero_point] if scheme.starts_with("per_tensor") => {
                let scale = match self.arena.node(scale) {
                    Node::Float(scale) => *scale,
                    _ => return Err(self.wrong(step, "a scale that is not a number")),
                };
                let zero_point = self.arena.int_of(zero_point);
                let zero_point =
                    zero_point.ok_or_else(|| self.wrong(step, "a zero point that is not a number"))?;
                Ok(Quantizer::PerTensor { scheme, scale, zero_point })
            }
            [_, scales, zero_points, axis] if scheme.starts_with("per_channel") => {
                let (Node::Tensor(scales), Node::Tensor(zero_points), Some(axis)) =
                    (self.arena.node(scales), self.arena.node(zero_points), self.arena.int_of(axis))
                else {
                    return Err(self.wrong(step, "invalid scales, zero points or axis"));
                };
                Ok(Quantizer::PerChannel { scheme, scales: *scales, zero_points: *zero_points, axis })
            }
            _ => Err(self.wrong(step, format!("`{scheme}` of {} values", items.len()))),
        }
    }
}
