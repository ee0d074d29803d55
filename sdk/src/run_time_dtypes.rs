//! The rows of the dtype table that are added at run time. The program numbers them; a plugin library, whose copy of this
//! table is its own, asks the program for what it lacks.

use crate::scales::built_in_scales;
use crate::{BlockType, DType, DTypeInfo, DTypeKind, Error, Packing, Result, ScaleField};
use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock};

/// The first number given at run time.
const FIRST: u32 = 0x1_0000;
/// The most rows. 65536: a server opens many files, and each can state 127 types; rows are never freed.
const MOST: u32 = 0x1_0000;

/// A row, kept for as long as the process runs.
pub(crate) struct Row {
    info: DTypeInfo,
    scales: Vec<ScaleField>,
    block: BlockType,
}

impl Row {
    pub(crate) fn info(&'static self) -> &'static DTypeInfo {
        &self.info
    }
}

/// The rows, by number and by what they say.
#[derive(Default)]
struct Rows {
    numbered: BTreeMap<u32, &'static Row>,
    /// Several types may share a name, if only files state them.
    numbers: BTreeMap<BlockType, u32>,
    /// The number of the type that a name belongs to.
    provided: BTreeMap<String, u32>,
}

static ROWS: RwLock<Rows> =
    RwLock::new(Rows { numbered: BTreeMap::new(), numbers: BTreeMap::new(), provided: BTreeMap::new() });

impl Rows {
    /// The number of a type; adds a row if there is none.
    fn add(&mut self, block: &BlockType) -> Result<u32> {
        if let Some(number) = self.numbers.get(block) {
            return Ok(*number);
        }
        let n_rows = u32::try_from(self.numbered.len()).unwrap_or(u32::MAX);
        if n_rows >= MOST {
            return Err(Error::limit(format!("more than {MOST} block types that no version's table has")));
        }
        self.keep(block, FIRST + n_rows);
        Ok(FIRST + n_rows)
    }

    fn keep(&mut self, block: &BlockType, number: u32) {
        if self.numbered.contains_key(&number) {
            return;
        }
        let info = DTypeInfo {
            dtype: DType(number),
            name: Box::leak(block.name().to_owned().into_boxed_str()),
            block_elements: block.elements(),
            block_bytes: block.bytes(),
            kind: DTypeKind::Block,
            packing: Packing::Row,
            swap: Box::leak(block.swap().into_boxed_slice()),
        };
        let row = Row { info, scales: block.scales(), block: block.clone() };
        self.numbered.insert(number, Box::leak(Box::new(row)));
        self.numbers.insert(block.clone(), number);
    }
}

fn read<T>(look: impl FnOnce(&Rows) -> T) -> T {
    look(&ROWS.read().unwrap_or_else(PoisonError::into_inner))
}

fn change<T>(change: impl FnOnce(&mut Rows) -> T) -> T {
    change(&mut ROWS.write().unwrap_or_else(PoisonError::into_inner))
}

/// The program's table, as a plugin library asks for it.
pub trait ProgramTypes: Send + Sync {
    /// The type with a number.
    fn numbered(&self, dtype: DType) -> Option<BlockType>;
    /// The number of the type that a name belongs to.
    fn named(&self, name: &str) -> Option<DType>;
    /// The number of a type that a file states.
    ///
    /// # Errors
    /// As [`BlockType::state`].
    fn stated(&self, block: &BlockType) -> Result<DType>;
}

static PROGRAM: OnceLock<&'static dyn ProgramTypes> = OnceLock::new();

/// Connects a library with the program that loaded it. Only the first call has an effect.
pub fn connect(program: &'static dyn ProgramTypes) {
    let _ = PROGRAM.set(program);
}

/// This process's own table, for a program to answer the libraries that it loaded.
pub struct OwnTypes;

impl ProgramTypes for OwnTypes {
    fn numbered(&self, dtype: DType) -> Option<BlockType> {
        own(dtype).map(|row| row.block.clone())
    }

    fn named(&self, name: &str) -> Option<DType> {
        read(|rows| rows.provided.get(name).copied()).map(DType)
    }

    fn stated(&self, block: &BlockType) -> Result<DType> {
        change(|rows| rows.add(block)).map(DType)
    }
}

fn own(dtype: DType) -> Option<&'static Row> {
    read(|rows| rows.numbered.get(&dtype.0).copied())
}

/// The row with a number.
pub(crate) fn find(dtype: DType) -> Option<&'static Row> {
    if dtype.0 < FIRST {
        return None;
    }
    own(dtype).or_else(|| {
        let block = PROGRAM.get()?.numbered(dtype)?;
        change(|rows| rows.keep(&block, dtype.0));
        own(dtype)
    })
}

/// The type that a name belongs to.
pub(crate) fn named(name: &str) -> Option<DType> {
    OwnTypes.named(name).or_else(|| PROGRAM.get()?.named(name))
}

impl BlockType {
    /// The type's number, for a plugin that provides it. From then on, its name belongs to it.
    ///
    /// # Errors
    /// Plugin if the name belongs to a type of other sizes; LimitExceeded if there are too many types.
    pub fn provide(&self) -> Result<DType> {
        change(|rows| {
            let before = rows.provided.get(self.name()).copied();
            let number = rows.add(self)?;
            if let Some(before) = before.filter(|before| *before != number) {
                let sizes = rows.numbered.get(&before).map(|row| row.block.to_string()).unwrap_or_default();
                let message = format!(
                    "block type `{}` is provided by another plugin with other sizes: `{sizes}`, here `{self}`",
                    self.name()
                );
                return Err(Error::plugin(message));
            }
            rows.provided.insert(self.name().to_owned(), number);
            Ok(DType(number))
        })
    }

    /// The type's number, for a file that holds such tensors, whether or not a plugin provides it.
    ///
    /// # Errors
    /// Malformed if a plugin provides a type of this name with other sizes; LimitExceeded if there are too many types.
    pub fn state(&self) -> Result<DType> {
        if let Some(dtype) = DType::from_name(self.name()) {
            return match dtype.block_type() {
                Some(provided) if provided == self => Ok(dtype),
                provided => {
                    let of_plugin = provided.map(ToString::to_string).unwrap_or_default();
                    let message = format!(
                        "block type `{}` has the sizes `{self}` here, but `{of_plugin}` in the plugin that \
                         provides it",
                        self.name()
                    );
                    Err(Error::malformed(message)
                        .hint("use the version of the plugin that the file was written with"))
                }
            };
        }
        let Some(program) = PROGRAM.get() else { return OwnTypes.stated(self) };
        let dtype = program.stated(self)?;
        change(|rows| rows.keep(self, dtype.0));
        Ok(dtype)
    }
}

impl DType {
    /// The block type that a plugin or a file brought; `None` for a type of this version's table.
    pub fn block_type(self) -> Option<&'static BlockType> {
        find(self).map(|row| &row.block)
    }

    /// The scales in a block of this type; `None` for types that are not blocks, and for blocks whose scales
    /// are not whole bytes.
    pub fn scales(self) -> Option<&'static [ScaleField]> {
        match find(self) {
            Some(row) => (!row.scales.is_empty()).then_some(&row.scales),
            None => built_in_scales(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_process_has_a_bounded_number_of_rows() {
        let mut rows = Rows::default();
        let block = |n: u32| BlockType::parse(&format!("X{n}"), "1 1").unwrap();
        for n in 0..MOST {
            assert_eq!(rows.add(&block(n)).unwrap(), FIRST + n);
        }
        assert_eq!(rows.add(&block(7)).unwrap(), FIRST + 7);
        assert_eq!(rows.add(&block(MOST)).unwrap_err().kind(), ErrorKind::LimitExceeded);
    }
}
