//! Handles of a planned model's tensors, and one value for each of them.

use std::ops::{Index, IndexMut};

/// Index of a tensor in a planned model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorHandle(usize);

impl TensorHandle {
    /// The position in the model's list of tensors.
    pub fn index(self) -> usize {
        self.0
    }
}

/// One value for each tensor of a planned model, in its order. It grows only with the model, so that the two are in
/// step by construction.
#[derive(Clone, Debug)]
pub struct TensorMap<T>(Vec<T>);

impl<T> TensorMap<T> {
    /// The map of a model without tensors.
    pub(super) fn with_capacity(capacity: usize) -> TensorMap<T> {
        TensorMap(Vec::with_capacity(capacity))
    }

    /// Adds the value of the next tensor.
    pub(super) fn push(&mut self, value: T) {
        self.0.push(value);
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the model has no tensors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The handle of the tensor at a position, if there is one.
    pub fn handle(&self, index: usize) -> Option<TensorHandle> {
        (index < self.0.len()).then_some(TensorHandle(index))
    }

    /// All handles, in order.
    pub fn handles(&self) -> impl ExactSizeIterator<Item = TensorHandle> + use<T> {
        (0..self.0.len()).map(TensorHandle)
    }

    /// All values, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// All values with their handles, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (TensorHandle, &T)> {
        self.handles().zip(&self.0)
    }

    /// The same handles with another value each.
    pub fn map<U>(self, value: impl FnMut(T) -> U) -> TensorMap<U> {
        TensorMap(self.0.into_iter().map(value).collect())
    }
}

impl<T> Default for TensorMap<T> {
    fn default() -> TensorMap<T> {
        TensorMap(Vec::new())
    }
}

impl<T> Index<TensorHandle> for TensorMap<T> {
    type Output = T;

    fn index(&self, handle: TensorHandle) -> &T {
        &self.0[handle.0]
    }
}

impl<T> IndexMut<TensorHandle> for TensorMap<T> {
    fn index_mut(&mut self, handle: TensorHandle) -> &mut T {
        &mut self.0[handle.0]
    }
}

impl<'a, T> IntoIterator for &'a TensorMap<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T> IntoIterator for TensorMap<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
