//! Block types that no version's table has: a plugin asks the program, which numbers them.

use super::error::result;
use crate::guard::host_wire;
use crate::wire::pairs::{number, push, read, text};
use crate::wire::{R, WireProgram};
use abi_stable::std_types::{RSlice, RVec};
use apr_sdk::{BlockType, DType, Error, OwnTypes, ProgramTypes, Result};

/// What the program hands to every plugin that it loads.
pub fn program() -> WireProgram {
    WireProgram { types: answer, reserved: [0; 2] }
}

/// Connects the library this is linked into with the program.
pub fn connect(program: WireProgram) {
    // A plugin is never unloaded, and connected once.
    apr_sdk::connect_types(Box::leak(Box::new(FromWireProgram(program))));
}

/// The question `number`, `name`, or both `name` and `sizes`; the answer is all three, or nothing.
extern "C" fn answer(question: RSlice<'_, u8>) -> R<RVec<u8>> {
    host_wire("numbering a block type", || {
        let asked = Asked::read(question.as_slice())?;
        let dtype = match asked {
            Asked { number: Some(number), .. } => Some(DType(number)),
            Asked { block: Some(block), .. } => Some(OwnTypes.stated(&block)?),
            Asked { name: Some(name), .. } => OwnTypes.named(&name),
            _ => None,
        };
        let block = dtype.and_then(|dtype| Some((dtype, OwnTypes.numbered(dtype)?)));
        let mut out = Vec::new();
        if let Some((dtype, block)) = block {
            push(&mut out, "number", &u64::from(dtype.0).to_le_bytes());
            push(&mut out, "name", block.name().as_bytes());
            push(&mut out, "sizes", block.to_string().as_bytes());
        }
        Ok(out.into())
    })
}

/// What a question or an answer says; what this version does not know is ignored.
#[derive(Default)]
struct Asked {
    number: Option<u32>,
    name: Option<String>,
    block: Option<BlockType>,
}

impl Asked {
    fn read(bytes: &[u8]) -> Result<Asked> {
        let mut asked = Asked::default();
        let mut sizes = None;
        for (key, value) in read(bytes)? {
            match key {
                "number" => asked.number = u32::try_from(number(value)?).ok(),
                "name" => asked.name = Some(text(value)?.to_owned()),
                "sizes" => sizes = Some(text(value)?),
                _ => {}
            }
        }
        if let (Some(name), Some(sizes)) = (&asked.name, sizes) {
            asked.block = Some(BlockType::parse(name, sizes)?);
        }
        Ok(asked)
    }
}

/// The program, as a plugin sees it.
struct FromWireProgram(WireProgram);

impl FromWireProgram {
    fn ask(&self, question: &[(&str, &[u8])]) -> Result<Option<(DType, BlockType)>> {
        let mut out = Vec::new();
        question.iter().for_each(|(key, value)| push(&mut out, key, value));
        let answer = Asked::read(&result((self.0.types)(out.as_slice().into()))?)?;
        Ok(answer.number.map(DType).zip(answer.block))
    }
}

impl ProgramTypes for FromWireProgram {
    fn numbered(&self, dtype: DType) -> Option<BlockType> {
        let number = u64::from(dtype.0).to_le_bytes();
        self.ask(&[("number", &number)]).ok()?.map(|(_, block)| block)
    }

    fn named(&self, name: &str) -> Option<DType> {
        self.ask(&[("name", name.as_bytes())]).ok()?.map(|(dtype, _)| dtype)
    }

    fn stated(&self, block: &BlockType) -> Result<DType> {
        let sizes = block.to_string();
        let answer = self.ask(&[("name", block.name().as_bytes()), ("sizes", sizes.as_bytes())])?;
        let dtype = answer.map(|(dtype, _)| dtype);
        dtype.ok_or_else(|| Error::io(format!("apr gives no number to the block type `{}`", block.name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_learns_numbers_names_and_sizes_from_the_program() {
        let program = FromWireProgram(program());
        let block = BlockType::parse("CROSSES_A_WIRE", "64 36 0:f16x2").unwrap();
        assert_eq!(program.named("CROSSES_A_WIRE"), None);
        let dtype = program.stated(&block).unwrap();
        assert_eq!(program.numbered(dtype), Some(block.clone()));
        assert_eq!(program.named("CROSSES_A_WIRE"), None, "a file takes no name");
        assert_eq!(block.provide().unwrap(), dtype);
        assert_eq!(program.named("CROSSES_A_WIRE"), Some(dtype));
        assert_eq!(program.numbered(DType(dtype.0 + 50_000)), None);
        assert!(program.ask(&[("name", b"Q4_K"), ("sizes", b"256 144")]).is_err());
    }
}
