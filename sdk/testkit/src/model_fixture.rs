//! Small models in memory, of no format: what a writer is tested with.

use crate::generate::tensor_bytes;
use crate::{render, write};
use apr_sdk::{
    Bytes, Carries, DType, Error, Extent, Fact, LayoutRequest, Limits, MemorySource, Model, ModelBuilder,
    ModelSink, Result, TensorDecl, Value, Writer,
};

/// A model under construction, with its payloads.
#[derive(Clone, Debug, Default)]
pub struct ModelFixture {
    tensors: Vec<(String, DType, Vec<u64>, Vec<u8>)>,
    foreign: Vec<(String, Vec<(String, Value)>)>,
    assets: Vec<(String, Vec<u8>)>,
    tokenizer: Option<String>,
}

impl ModelFixture {
    /// A model of nothing.
    pub fn new() -> ModelFixture {
        ModelFixture::default()
    }

    /// Adds a tensor with seeded bytes.
    ///
    /// # Errors
    /// Malformed if `shape` is not one of `dtype`.
    pub fn tensor(self, name: &str, dtype: DType, shape: &[u64]) -> Result<ModelFixture> {
        let bytes = tensor_bytes(dtype, shape, self.tensors.len() as u64 + 1)?;
        Ok(self.tensor_with(name, dtype, shape, bytes))
    }

    /// Adds a tensor with the given payload.
    pub fn tensor_with(mut self, name: &str, dtype: DType, shape: &[u64], payload: Vec<u8>) -> ModelFixture {
        self.tensors.push((name.to_owned(), dtype, shape.to_vec(), payload));
        self
    }

    /// Adds a metadata value of `format`.
    pub fn foreign(mut self, format: &str, key: &str, value: Value) -> ModelFixture {
        let at = self.foreign.iter().position(|(f, _)| f == format).unwrap_or_else(|| {
            self.foreign.push((format.to_owned(), Vec::new()));
            self.foreign.len() - 1
        });
        self.foreign[at].1.push((key.to_owned(), value));
        self
    }

    /// Adds a companion file.
    pub fn asset(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> ModelFixture {
        self.assets.push((name.to_owned(), bytes.into()));
        self
    }

    /// Sets the tokenizer's JSON.
    pub fn tokenizer(mut self, json: &str) -> ModelFixture {
        self.tokenizer = Some(json.to_owned());
        self
    }

    /// Number of its tensors.
    pub(crate) fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Leaves out every tensor but the first.
    pub(crate) fn keep_one(&mut self) {
        self.tensors.truncate(1);
    }

    /// The checked model, and the source its extents lie in.
    ///
    /// # Errors
    /// Every check of [`ModelBuilder`].
    pub fn build(&self) -> Result<(Model, MemorySource)> {
        let all: Vec<u8> = self.tensors.iter().flat_map(|t| t.3.iter().copied()).collect();
        let limits = Limits::default();
        let len = all.len() as u64;
        let file_len = |_| Ok(len);
        let mut builder = ModelBuilder::new("kit", &limits, &file_len);
        let mut offset = 0;
        for (name, dtype, shape, payload) in &self.tensors {
            let extent = Extent::new(0, offset, payload.len() as u64);
            builder.tensor(TensorDecl::plain(name, *dtype, shape, extent))?;
            offset += extent.len;
        }
        for (format, typed) in &self.foreign {
            builder.foreign_file(format, "", self.tensors.len() as u64)?;
            typed.iter().try_for_each(|(key, value)| builder.foreign(key, value.clone()))?;
        }
        for (name, bytes) in &self.assets {
            builder.asset(name, Bytes::from(bytes.clone()))?;
        }
        if let Some(json) = &self.tokenizer {
            builder.fact(Fact::Tokenizer(Bytes::from(json.as_str())))?;
        }
        Ok((builder.finish(), MemorySource::new("kit.bin", all)))
    }

    /// The payload of tensor number `index`.
    ///
    /// # Errors
    /// InvalidArgument if there is no such tensor.
    pub fn payload(&self, index: usize) -> Result<Vec<u8>> {
        let tensor = self.tensors.get(index);
        tensor
            .map(|t| t.3.clone())
            .ok_or_else(|| Error::invalid_argument(format!("tensor {index} does not exist")))
    }

    /// The files that `writer` makes of it, entry file first.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn write(
        &self,
        writer: &dyn Writer,
        carries: &Carries,
        request: &LayoutRequest,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let (model, source) = self.build()?;
        write(writer, carries, &model, &source, &|index| self.payload(index), request)
    }

    /// The writer's notes for the summary, given with the layout.
    ///
    /// # Errors
    /// As [`render`].
    pub fn notes(
        &self,
        writer: &dyn Writer,
        carries: &Carries,
        request: &LayoutRequest,
    ) -> Result<Vec<String>> {
        let (model, source) = self.build()?;
        render(writer, carries, &model, &source, &|index| self.payload(index), request)
            .map(|rendered| rendered.notes)
    }
}
