//! Quantizer plugins: blocks to floats and back, recipes that choose a type for each tensor, and importance
//! matrices.

use crate::{DType, Error, ImportanceSums, Options, Result, Schemes, Source, Value};

/// A recipe's view of a tensor.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TensorFacts {
    /// Its name in the model.
    pub name: String,
    /// Its role in its architecture, if known.
    pub role: Option<String>,
    /// Its name in every dialect of its architecture's table: (dialect, name).
    pub names: Vec<(String, String)>,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Its dtype in the source, if known.
    pub dtype: Option<DType>,
    /// True if the importance matrix has values for it.
    pub has_importance: bool,
}

impl TensorFacts {
    /// Its name in `dialect`; falls back to its name in the model.
    pub fn name_in(&self, dialect: &str) -> &str {
        let name = self.names.iter().find(|(of, _)| of == dialect);
        name.map_or(&self.name, |(_, name)| name)
    }
}

/// A recipe's view of the model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelFacts {
    /// The architecture's id, if known.
    pub architecture: Option<String>,
    /// The canonical configuration, as JSON.
    pub config: String,
    /// True if an importance matrix was given.
    pub has_importance: bool,
}

/// A recipe: a named way to choose a type for each tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeDecl {
    /// The name users type, case-insensitively.
    pub name: String,
    /// A description in a few words.
    pub about: String,
}

/// A recipe's decision about one tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The type to write; `None` keeps the current one.
    pub dtype: Option<DType>,
    /// True if it may only be written with importance values.
    pub needs_importance: bool,
    /// A note for the user about the choice, e.g. why another type had to be used.
    pub note: Option<String>,
}

impl Assignment {
    /// Keep the tensor's type.
    pub const KEEP: Assignment = Assignment { dtype: None, needs_importance: false, note: None };

    /// Write the tensor as `dtype`.
    pub fn to(dtype: DType) -> Assignment {
        Assignment { dtype: Some(dtype), ..Assignment::KEEP }
    }

    /// Adds a note for the user.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Assignment {
        self.note = Some(note.into());
        self
    }

    /// Requires importance values.
    #[must_use]
    pub fn needing_importance(mut self) -> Assignment {
        self.needs_importance = true;
        self
    }
}

/// A record that a quantized model carries: (format, key, value) of that format's metadata.
pub type Record = (String, String, Value);

/// Receives the contents of an importance matrix.
pub trait ImportanceSink {
    /// The importance of a tensor's columns: as many values as a row has, for each index of the outermost
    /// dimension if the tensor has three (experts), otherwise once. `name` is the tensor's name in `dialect`.
    ///
    /// # Errors
    /// LimitExceeded if there are too many values.
    fn tensor(&mut self, dialect: &str, name: &str, values: &[f32]) -> Result<()>;

    /// A record for models quantized with this matrix, as metadata of `format`.
    ///
    /// # Errors
    /// LimitExceeded if there is too much.
    fn record(&mut self, format: &str, key: &str, value: Value) -> Result<()>;
}

/// Encodes and decodes block types. Each call covers many rows; several threads call at once.
pub trait Quantizer: Send + Sync {
    /// The block types it decodes.
    ///
    /// # Errors
    /// Any error disables the whole quantizer.
    fn dtypes(&self) -> Result<Vec<DType>>;

    /// Decodes whole rows of `row_len` elements.
    ///
    /// # Errors
    /// InvalidArgument if `blocks` is not a whole number of rows, or `out` has a different number of
    /// elements; Unsupported for an unknown type.
    fn decode(&self, dtype: DType, _blocks: &[u8], _row_len: u64, _out: &mut [f32]) -> Result<()> {
        Err(unknown(dtype))
    }

    /// Encodes whole rows of `row_len` elements; `importance` has `row_len` values, shared by all rows of the
    /// call.
    ///
    /// # Errors
    /// InvalidArgument if `rows` is not a whole number of rows and blocks, `out` has the wrong length, or
    /// importance is missing for a type that needs it; Failed for values the type cannot hold; Unsupported
    /// for a type that cannot be written.
    fn encode(
        &self,
        dtype: DType,
        _rows: &[f32],
        _row_len: u64,
        _importance: Option<&[f32]>,
        _out: &mut [u8],
    ) -> Result<()> {
        Err(unknown(dtype))
    }

    /// Pairs (from, to) of block types that convert losslessly without going through floats.
    ///
    /// # Errors
    /// As [`Quantizer::dtypes`].
    fn repacks(&self) -> Result<Vec<(DType, DType)>> {
        Ok(Vec::new())
    }

    /// Converts blocks of `from` into blocks of `to`, for one of the pairs in [`Quantizer::repacks`].
    ///
    /// # Errors
    /// Unsupported for any other pair; Failed for a block whose values the target type cannot hold.
    fn repack(&self, from: DType, to: DType, _blocks: &[u8], _out: &mut [u8]) -> Result<()> {
        Err(Error::unsupported(format!("{from} cannot be repacked as {to} without loss")))
    }

    /// The recipes it offers.
    ///
    /// # Errors
    /// As [`Quantizer::dtypes`].
    fn recipes(&self) -> Result<Vec<RecipeDecl>> {
        Ok(Vec::new())
    }

    /// Applies a recipe: one assignment per tensor, in order.
    ///
    /// # Errors
    /// InvalidArgument for an unknown recipe or option.
    fn assign(
        &self,
        recipe: &str,
        _tensors: &[TensorFacts],
        _model: &ModelFacts,
        _options: &Options,
    ) -> Result<Vec<Assignment>> {
        Err(Error::invalid_argument(format!("unknown recipe `{recipe}`")))
    }

    /// Records that a model quantized with `recipe` stores about itself. Empty if `recipe` is not one of its own: the
    /// host also asks for the names of float types.
    ///
    /// # Errors
    /// Any error that prevents an answer.
    fn records(&self, _recipe: &str) -> Result<Vec<Record>> {
        Ok(Vec::new())
    }

    /// Reads an importance matrix from file 0 of the source.
    ///
    /// # Errors
    /// Malformed, with the offset; Unsupported for a kind of matrix this plugin does not know.
    fn importance(&self, _source: &dyn Source, _sink: &mut dyn ImportanceSink) -> Result<()> {
        Err(Error::unsupported("unknown kind of importance matrix"))
    }

    /// Reads an importance matrix from file 0 of the source, as the sums that it was made of.
    ///
    /// # Errors
    /// As [`Quantizer::importance`].
    fn importance_sums(&self, _source: &dyn Source) -> Result<ImportanceSums> {
        Err(Error::unsupported("unknown kind of importance matrix"))
    }

    /// Writes an importance matrix as the file called `file`: in the form that `form` names, else in that of the file's
    /// extension, else in the plugin's usual one.
    ///
    /// # Errors
    /// InvalidArgument for an unknown form; Unsupported for names of another dialect, and for what the form cannot hold.
    fn importance_file(&self, _sums: &ImportanceSums, _file: &str, _form: Option<&str>) -> Result<Vec<u8>> {
        Err(Error::unsupported("importance matrices cannot be written"))
    }

    /// The schemes of packed weights that it knows; `None` if it knows none.
    fn schemes(&self) -> Option<&dyn Schemes> {
        None
    }
}

fn unknown(dtype: DType) -> Error {
    Error::unsupported(format!("{dtype} is not one of its types"))
}
