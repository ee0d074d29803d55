//! Values that are understood, as `bincode` serializes them: fields one after another, without names, numbers little-endian,
//! lengths as u64, an option behind a byte.

use super::layout::{K_MEANS, LINEAR_REGRESSION};
use apr_sdk::{Cursor, DType, Error, ErrorKind, Extent, Result, Value};

/// A field of a Rust type.
#[derive(Clone, Copy)]
enum Kind {
    /// `f32`, a weight.
    Weight,
    /// `f32`, a key.
    Float,
    /// `usize` or `u64`, a key.
    Whole,
    /// `bool`, a key.
    Bool,
    /// `Option<u64>`, a key.
    OptionWhole,
    /// `Option<Vec<f32>>`, or one of a type around it.
    OptionFloats,
    /// `Option<Vec<usize>>`.
    OptionWholes,
    /// `Option<Matrix<f32>>`: elements, rows, columns.
    OptionMatrix,
}

type Fields = &'static [(&'static str, Kind)];

/// The types of aprender-core 0.72.3: `linear_model/mod.rs`, `cluster/kmeans.rs`.
const KNOWN: &[(&str, Fields)] = &[
    (
        LINEAR_REGRESSION,
        &[("coefficients", Kind::OptionFloats), ("intercept", Kind::Weight), ("fit_intercept", Kind::Bool)],
    ),
    (
        K_MEANS,
        &[
            ("n_clusters", Kind::Whole),
            ("max_iter", Kind::Whole),
            ("tol", Kind::Float),
            ("random_state", Kind::OptionWhole),
            ("centroids", Kind::OptionMatrix),
            ("labels", Kind::OptionWholes),
            ("inertia", Kind::Float),
            ("n_iter", Kind::Whole),
        ],
    ),
];

/// What a value says.
#[derive(Debug, Default)]
pub struct Content {
    /// Its tensors.
    pub tensors: Vec<Field>,
    /// Its other fields.
    pub keys: Vec<(&'static str, Value)>,
}

/// A field that is a tensor.
#[derive(Debug)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// The type of its elements.
    pub dtype: DType,
    /// Its dimensions, outermost first.
    pub dims: Vec<u64>,
    /// The place of its elements.
    pub extent: Extent,
}

/// Returns whether a model type's value is understood.
pub fn is_known(model_type: &str) -> bool {
    KNOWN.iter().any(|(known, _)| *known == model_type)
}

/// Reads a value of a model type; `None` if what lies there is not one of that type and nothing else.
///
/// # Errors
/// Any error from reading.
pub fn read(model_type: &str, cursor: &mut Cursor<'_>) -> Result<Option<Content>> {
    let Some((_, fields)) = KNOWN.iter().find(|(known, _)| *known == model_type) else { return Ok(None) };
    let mut content = Content::default();
    for (name, kind) in *fields {
        match content.field(name, *kind, cursor) {
            Err(error) if error.kind() == ErrorKind::Malformed => return Ok(None),
            other => other?,
        }
    }
    Ok((cursor.left() == 0).then_some(content))
}

impl Content {
    fn field(&mut self, name: &'static str, kind: Kind, cursor: &mut Cursor<'_>) -> Result<()> {
        match kind {
            Kind::Weight => self.tensor(name, DType::F32, &[], 4, cursor)?,
            Kind::Float => self.keys.push((name, Value::from_f32(f32::from_bits(cursor.u32()?)))),
            Kind::Whole => self.keys.push((name, Value::from_u64(cursor.u64()?))),
            Kind::Bool => self.keys.push((name, Value::from_bool(flag(cursor)?))),
            Kind::OptionWhole => {
                if flag(cursor)? {
                    self.keys.push((name, Value::from_u64(cursor.u64()?)));
                }
            }
            Kind::OptionFloats => self.vector(name, DType::F32, 4, cursor)?,
            Kind::OptionWholes => self.vector(name, DType::U64, 8, cursor)?,
            Kind::OptionMatrix => self.matrix(name, cursor)?,
        }
        Ok(())
    }

    fn vector(
        &mut self,
        name: &'static str,
        dtype: DType,
        element: u64,
        cursor: &mut Cursor<'_>,
    ) -> Result<()> {
        if !flag(cursor)? {
            return Ok(());
        }
        let count = cursor.u64()?;
        self.tensor(name, dtype, &[count], element, cursor)
    }

    fn matrix(&mut self, name: &'static str, cursor: &mut Cursor<'_>) -> Result<()> {
        if !flag(cursor)? {
            return Ok(());
        }
        let count = cursor.u64()?;
        self.tensor(name, DType::F32, &[count], 4, cursor)?;
        let (rows, columns) = (cursor.u64()?, cursor.u64()?);
        if rows.checked_mul(columns) != Some(count) {
            return Err(Error::malformed("the matrix has another number of elements"));
        }
        if let Some(tensor) = self.tensors.last_mut() {
            tensor.dims = vec![rows, columns];
        }
        Ok(())
    }

    /// Adds a tensor of at most one dimension at the cursor, and goes past its elements.
    fn tensor(
        &mut self,
        name: &'static str,
        dtype: DType,
        dims: &[u64],
        element: u64,
        cursor: &mut Cursor<'_>,
    ) -> Result<()> {
        let count = dims.first().copied().unwrap_or(1);
        let len = count.checked_mul(element).ok_or_else(|| Error::malformed("too many elements"))?;
        let offset = cursor.position();
        cursor.skip(len)?;
        // The file's number is the caller's.
        let extent = Extent::new(0, offset, len);
        self.tensors.push(Field { name, dtype, dims: dims.to_vec(), extent });
        Ok(())
    }
}

/// A byte that is 0 or 1.
fn flag(cursor: &mut Cursor<'_>) -> Result<bool> {
    match cursor.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::malformed(format!("a byte that is 0 or 1 is {other}"))),
    }
}
