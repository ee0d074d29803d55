//! Quantizer plugins: blocks to floats and back, the recipes that choose a type for each tensor, and importance matrices
//! (design section 4).

use crate::{DType, Error, Options, Result, Source, Value};

/// What a recipe may know of a tensor.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TensorFacts {
    /// Its name in the model.
    pub name: String,
    /// What it is in its architecture, if that is known.
    pub role: Option<String>,
    /// Its name in every dialect of its architecture's table: (dialect, name).
    pub names: Vec<(String, String)>,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Its element type.
    pub dtype: Option<DType>,
    /// Whether an importance matrix has values for it.
    pub has_importance: bool,
}

impl TensorFacts {
    /// Its name in a dialect; the name in the model where the architecture's table has none.
    pub fn name_in(&self, dialect: &str) -> &str {
        let found = self.names.iter().find(|(of, _)| of == dialect);
        found.map_or(&self.name, |(_, name)| name)
    }
}

/// What a recipe may know of the model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelFacts {
    /// The architecture's id.
    pub architecture: Option<String>,
    /// The canonical configuration, as JSON.
    pub config: String,
    /// Whether an importance matrix was given.
    pub has_importance: bool,
}

/// A way to choose a type for each tensor, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeDecl {
    /// Its name, as users type it (case does not matter).
    pub name: String,
    /// What it is, in a few words.
    pub about: String,
}

/// What a recipe says of a tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The type to write it in; `None` keeps the one it has.
    pub dtype: Option<DType>,
    /// Whether it must not be written without importance.
    pub needs_importance: bool,
    /// What the user should know of the choice: that another type had to be taken, and why.
    pub note: Option<String>,
}

impl Assignment {
    /// A tensor that stays as it is.
    pub const KEEP: Assignment = Assignment { dtype: None, needs_importance: false, note: None };

    /// A tensor that is written in this type.
    pub fn to(dtype: DType) -> Assignment {
        Assignment { dtype: Some(dtype), ..Assignment::KEEP }
    }

    /// With a word to the user.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Assignment {
        self.note = Some(note.into());
        self
    }

    /// That must have importance.
    #[must_use]
    pub fn needing_importance(mut self) -> Assignment {
        self.needs_importance = true;
        self
    }
}

/// A record that a quantized model carries: format, key and value of that format's metadata.
pub type Record = (String, String, Value);

/// Takes what an importance matrix says.
pub trait ImportanceSink {
    /// The importance of a tensor's columns: for each index of the outermost of three dimensions (one for two) as many
    /// values as a row has. `name` is the tensor's in `dialect`.
    ///
    /// # Errors
    /// LimitExceeded when they are too many.
    fn tensor(&mut self, dialect: &str, name: &str, values: &[f32]) -> Result<()>;

    /// What a model quantized with it records of it, as metadata of a format.
    ///
    /// # Errors
    /// LimitExceeded when that is too much.
    fn record(&mut self, format: &str, key: &str, value: Value) -> Result<()>;
}

/// Encodes and decodes block types (design section 4). Calls hold many rows, and come from several threads at once.
pub trait Quantizer: Send + Sync {
    /// The types it decodes.
    ///
    /// # Errors
    /// Whatever keeps it from saying so: nothing of it is used then.
    fn dtypes(&self) -> Result<Vec<DType>>;

    /// Decodes whole rows of `row_len` elements.
    ///
    /// # Errors
    /// InvalidArgument if `blocks` are not whole rows, or `out` has not as many elements; Unsupported for a type that it
    /// lacks.
    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()>;

    /// Encodes whole rows of `row_len` elements; `importance` has `row_len` values, shared by the rows of the call.
    ///
    /// # Errors
    /// InvalidArgument if `rows` are not whole rows and blocks, `out` has not as many bytes, or importance is missing
    /// where the type needs it; Failed for values that the type cannot hold; Unsupported for a type that cannot be
    /// written.
    fn encode(
        &self,
        dtype: DType,
        rows: &[f32],
        row_len: u64,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()>;

    /// Pairs of block types, of which the first becomes the second without any loss.
    ///
    /// # Errors
    /// As [`Quantizer::dtypes`].
    fn repacks(&self) -> Result<Vec<(DType, DType)>> {
        Ok(Vec::new())
    }

    /// Makes blocks of `to` of blocks of `from`, one of [`Quantizer::repacks`].
    ///
    /// # Errors
    /// Unsupported for types that are no such pair; Failed for a block whose values the other type does not hold.
    fn repack(&self, from: DType, to: DType, _blocks: &[u8], _out: &mut [u8]) -> Result<()> {
        Err(Error::unsupported(format!("{from} does not become {to} without loss")))
    }

    /// Its recipes.
    ///
    /// # Errors
    /// As [`Quantizer::dtypes`].
    fn recipes(&self) -> Result<Vec<RecipeDecl>> {
        Ok(Vec::new())
    }

    /// What becomes of each tensor under a recipe.
    ///
    /// # Errors
    /// InvalidArgument for an unknown recipe or option.
    fn assign(
        &self,
        recipe: &str,
        tensors: &[TensorFacts],
        model: &ModelFacts,
        options: &Options,
    ) -> Result<Vec<Assignment>>;

    /// What a model quantized by a recipe records of it: (format, key, value) of that format's metadata. Nothing for a
    /// name that is none of its recipes: a type of floats is asked for as well.
    ///
    /// # Errors
    /// Whatever keeps it from saying so.
    fn records(&self, _recipe: &str) -> Result<Vec<Record>> {
        Ok(Vec::new())
    }

    /// Reads an importance matrix: file 0 of the source.
    ///
    /// # Errors
    /// Malformed, with the offset; Unsupported if it is none that this plugin knows.
    fn importance(&self, source: &dyn Source, sink: &mut dyn ImportanceSink) -> Result<()>;
}
