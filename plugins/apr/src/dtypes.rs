//! The numbers of dtypes in the index. The name is the identity: numbers are looked up by name.

use apr_sdk::{BlockType, DType, Error, Result, escape};

/// The fixed names and numbers: the specification's, and ours.
const OWN: &[(&str, u8)] = &[
    ("F32", 0),
    ("F16", 1),
    ("BF16", 2),
    ("I8", 3),
    ("I16", 4),
    ("I32", 5),
    ("I64", 6),
    ("U8", 7),
    ("BOOL", 8),
    ("F64", 9),
    ("U16", 10),
    ("U32", 11),
    ("U64", 12),
    ("F8_E4M3", 13),
    ("F8_E5M2", 14),
    ("C64", 15),
    ("Q8_0", 16),
    ("Q4_0", 17),
    ("Q4_1", 18),
    ("Q5_0", 19),
    ("Q5_1", 20),
    ("F4_E2M1", 48),
    ("F6_E2M3", 49),
    ("F6_E3M2", 50),
    ("F8_E8M0", 51),
    ("F8_E4M3FNUZ", 52),
    ("F8_E5M2FNUZ", 53),
    ("C128", 54),
    ("I4", 55),
    ("U4", 56),
    ("I2", 57),
    ("U2", 58),
    // 64 plus ggml's own number, for every ggml type without a number above.
    ("Q8_1", 64 + 9),
    ("Q2_K", 64 + 10),
    ("Q3_K", 64 + 11),
    ("Q4_K", 64 + 12),
    ("Q5_K", 64 + 13),
    ("Q6_K", 64 + 14),
    ("Q8_K", 64 + 15),
    ("IQ2_XXS", 64 + 16),
    ("IQ2_XS", 64 + 17),
    ("IQ3_XXS", 64 + 18),
    ("IQ1_S", 64 + 19),
    ("IQ4_NL", 64 + 20),
    ("IQ3_S", 64 + 21),
    ("IQ2_S", 64 + 22),
    ("IQ4_XS", 64 + 23),
    ("IQ1_M", 64 + 29),
    ("TQ1_0", 64 + 34),
    ("TQ2_0", 64 + 35),
    ("MXFP4", 64 + 39),
    ("NVFP4", 64 + 40),
    ("Q1_0", 64 + 41),
    ("Q2_0", 64 + 42),
];

/// The first number that the metadata key `dtypes` can name.
pub const FIRST_NAMED: u8 = 128;
/// The last number that the metadata key `dtypes` can name.
pub const LAST_NAMED: u8 = 254;

/// The numbers valid in one file: the fixed ones, and those named in its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The file's own numbers, ascending.
    pub named: Vec<Named>,
}

/// A number that the file itself assigns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// The number.
    pub number: u8,
    /// The type's name.
    pub name: String,
    /// The sizes of a block type that a plugin brought: with them, a program without the plugin can list and copy it.
    pub block: Option<BlockType>,
}

impl Numbers {
    /// The number for a type; assigns one if it has no fixed number.
    ///
    /// # Errors
    /// Unsupported if all 127 are taken, or if another type of the model has the same name.
    pub fn add(&mut self, dtype: DType) -> Result<u8> {
        let name = dtype.require()?.name;
        if let Some(named) = self.named.iter().find(|named| named.name == name)
            && named.block.as_ref() != dtype.block_type()
        {
            let message = format!("the model has two block types named {name} with different sizes");
            return Err(Error::unsupported(message).hint("keep their tensors in separate files"));
        }
        if let Some(number) = self.get(name) {
            return Ok(number);
        }
        let next = self.named.last().map_or(Some(FIRST_NAMED), |last| last.number.checked_add(1));
        let number = next.filter(|&n| n <= LAST_NAMED).ok_or_else(|| {
            Error::unsupported(format!("dtype {name}: a file can define at most 127 dtypes of its own"))
        })?;
        self.named.push(Named { number, name: name.to_owned(), block: dtype.block_type().cloned() });
        Ok(number)
    }

    /// The number assigned to a type's name, if any.
    pub fn get(&self, name: &str) -> Option<u8> {
        let own = OWN.iter().find(|(own, _)| *own == name).map(|(_, number)| *number);
        own.or_else(|| self.named.iter().find(|named| named.name == name).map(|named| named.number))
    }

    /// The type for a number in the index.
    ///
    /// # Errors
    /// Malformed for a number that neither the specification nor the metadata names, and for sizes that are not those of
    /// the plugin that provides the type; Unsupported for a name that no table has, if the file does not state its sizes.
    pub fn dtype(&self, number: u8) -> Result<DType> {
        let own = OWN.iter().find(|(_, own)| *own == number).map(|(name, _)| *name);
        let named = self.named.iter().find(|named| named.number == number);
        if let Some(block) = named.and_then(|named| named.block.as_ref()) {
            return block.state();
        }
        let named = || named.map(|named| named.name.as_str());
        let name = own.or_else(named).ok_or_else(|| match number {
            FIRST_NAMED..=LAST_NAMED => {
                Error::malformed(format!("dtype number {number} is not defined by the metadata key `dtypes`"))
            }
            u8::MAX => Error::malformed("dtype number 255 is reserved"),
            _ => Error::malformed(format!("dtype number {number} is not defined")),
        })?;
        DType::from_name(name).ok_or_else(|| {
            let name = escape(name, 64);
            Error::unsupported(format!("dtype `{name}` is unknown, and the file does not state its sizes"))
                .hint("install the plugin that provides it")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_table_has_its_own_number() {
        let none = Numbers::default();
        for row in DType::ALL {
            let number = none.get(row.name).unwrap_or_else(|| panic!("{} has no number", row.name));
            assert_eq!(none.dtype(number).unwrap(), row.dtype);
        }
        let mut numbers: Vec<_> = OWN.iter().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(OWN.len(), DType::ALL.len());
    }

    #[test]
    fn further_types_are_numbered_from_128_in_order_of_appearance() {
        let mut numbers = Numbers::default();
        let dtype = |name: &str, sizes| BlockType::parse(name, sizes).unwrap().state().unwrap();
        let [one, other] = [dtype("X1", "32 18"), dtype("X0", "1 2")];
        assert_eq!([one, other, one].map(|dtype| numbers.add(dtype).unwrap()), [128, 129, 128]);
        assert_eq!(numbers.add(DType::F32), Ok(0));
        assert_eq!((numbers.dtype(128).unwrap(), numbers.dtype(129).unwrap()), (one, other));
        let twice = numbers.add(dtype("X1", "32 20")).unwrap_err();
        assert!(twice.message().contains("two block types named X1"), "{twice}");
        for n in 0..125 {
            numbers.add(dtype(&format!("Y{n}"), "1 1")).unwrap();
        }
        assert!(numbers.add(dtype("Z", "1 1")).is_err());
        for number in [255, 130, 21, 63] {
            assert!(Numbers::default().dtype(number).is_err());
        }
    }

    #[test]
    fn a_name_without_sizes_needs_the_plugin() {
        let named = Named { number: 128, name: "BARE_NAME".to_owned(), block: None };
        let numbers = Numbers { named: vec![named] };
        let error = numbers.dtype(128).unwrap_err();
        assert!(error.message().contains("`BARE_NAME` is unknown"), "{error}");
        let provided = BlockType::parse("BARE_NAME", "32 18").unwrap().provide().unwrap();
        assert_eq!(numbers.dtype(128).unwrap(), provided);
    }
}
