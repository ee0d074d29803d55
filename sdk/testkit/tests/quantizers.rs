//! Every check of quantizers passes on the template's and fails on one with a fault.

use crate::block::{BYTES, ELEMENTS, decode, encode};
use apr_sdk::{
    Assignment, BlockType, DType, Error, ModelFacts, Options, Quantizer, RecipeDecl, Result, TensorFacts,
    checked_blocks,
};
use apr_testkit::Verdict;
use apr_testkit::quantizers::{CHECKS, Subject};
use std::sync::atomic::{AtomicU32, Ordering};

/// The template's quantizer with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    ListsTwice,
    ListsScalars,
    ListsNothing,
    TakesAnyType,
    LeavesTheLastValue,
    GivesZeros,
    CountsCalls,
    PanicsOnInfinity,
    ForgetsLengths,
    PanicsOnImportance,
    RepacksWrongly,
    AssignsUnknownTypes,
    AppliesAnyRecipe,
}

struct Faulty(Fault, AtomicU32);

fn dtype() -> DType {
    block_type().provide().unwrap()
}

fn block_type() -> BlockType {
    BlockType::parse("FAULTY", "32 18 0:f16").unwrap()
}

impl Faulty {
    fn check(&self, dtype: DType, elements: usize, row_len: u64, bytes: usize) -> Result<()> {
        if dtype != self::dtype() && self.0 != Fault::TakesAnyType {
            return Err(Error::unsupported("not one of its types"));
        }
        match self.0 {
            Fault::ForgetsLengths | Fault::TakesAnyType => Ok(()),
            _ => checked_blocks(dtype, elements, row_len, bytes).map(drop),
        }
    }
}

impl Quantizer for Faulty {
    fn dtypes(&self) -> Result<Vec<DType>> {
        Ok(match self.0 {
            Fault::ListsTwice => vec![dtype(), dtype()],
            Fault::ListsScalars => vec![dtype(), DType::F16],
            Fault::ListsNothing => Vec::new(),
            _ => vec![dtype()],
        })
    }

    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()> {
        self.check(dtype, out.len(), row_len, blocks.len())?;
        blocks.chunks_exact(BYTES).zip(out.chunks_exact_mut(ELEMENTS)).for_each(|(block, values)| {
            let last = values[ELEMENTS - 1];
            decode(block, values);
            if self.0 == Fault::LeavesTheLastValue {
                values[ELEMENTS - 1] = last;
            }
        });
        if self.0 == Fault::GivesZeros {
            out.fill(0.0);
        }
        Ok(())
    }

    fn encode(
        &self,
        dtype: DType,
        rows: &[f32],
        row_len: u64,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        self.check(dtype, rows.len(), row_len, out.len())?;
        if self.0 == Fault::PanicsOnInfinity {
            assert!(rows.iter().all(|value| value.is_finite()), "infinity");
        }
        if self.0 == Fault::PanicsOnImportance {
            assert!(importance.is_none_or(|importance| importance.len() as u64 == row_len), "importance");
        }
        let calls = self.1.fetch_add(1, Ordering::Relaxed);
        rows.chunks_exact(ELEMENTS).zip(out.chunks_exact_mut(BYTES)).try_for_each(|(values, block)| {
            encode(values, block)?;
            if self.0 == Fault::CountsCalls {
                block[2] ^= calls as u8;
            }
            Ok(())
        })
    }

    fn repacks(&self) -> Result<Vec<(DType, DType)>> {
        Ok(if self.0 == Fault::RepacksWrongly { vec![(dtype(), dtype())] } else { Vec::new() })
    }

    fn repack(&self, _: DType, _: DType, blocks: &[u8], out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(blocks);
        out[3] ^= 0xff;
        Ok(())
    }

    fn recipes(&self) -> Result<Vec<RecipeDecl>> {
        Ok(vec![RecipeDecl { name: "FAULTY".to_owned(), about: "all matrices".to_owned() }])
    }

    fn assign(
        &self,
        recipe: &str,
        tensors: &[TensorFacts],
        _: &ModelFacts,
        _: &Options,
    ) -> Result<Vec<Assignment>> {
        if recipe != "FAULTY" && self.0 != Fault::AppliesAnyRecipe {
            return Err(Error::invalid_argument("unknown recipe"));
        }
        let unknown = Assignment::to(DType(0x7000_0000));
        let one = if self.0 == Fault::AssignsUnknownTypes { unknown } else { Assignment::KEEP };
        Ok(vec![one; tensors.len()])
    }
}

/// The checks that fail.
fn failed(fault: Fault) -> Vec<&'static str> {
    let quantizer = Faulty(fault, AtomicU32::new(0));
    dtype();
    let declared = [block_type()];
    let fails = |check: &apr_testkit::quantizers::Check| {
        Subject::new(&quantizer, &declared).and_then(|subject| check(&subject)).is_err()
    };
    CHECKS.iter().filter(|(_, check)| fails(check)).map(|(name, _)| *name).collect()
}

#[test]
fn every_fault_of_a_quantizer_is_found() {
    for (fault, checks) in [
        (Fault::None, &[][..]),
        (Fault::ListsTwice, &["types"]),
        (Fault::ListsScalars, &["types"]),
        (Fault::ListsNothing, &["types"]),
        (Fault::TakesAnyType, &["unknown_types", "lengths"]),
        (Fault::LeavesTheLastValue, &["any_bytes"]),
        (Fault::GivesZeros, &["round_trip"]),
        (Fault::CountsCalls, &["row_by_row", "not_finite"]),
        (Fault::PanicsOnInfinity, &["not_finite"]),
        (Fault::ForgetsLengths, &["lengths"]),
        (Fault::PanicsOnImportance, &["importance"]),
        (Fault::RepacksWrongly, &["repacks"]),
        (Fault::AssignsUnknownTypes, &["recipes"]),
        (Fault::AppliesAnyRecipe, &["recipes"]),
    ] {
        let found = failed(fault);
        assert!(checks.iter().all(|check| found.contains(check)), "{fault:?}: {found:?}");
        assert!(fault != Fault::None || found.is_empty(), "{found:?}");
    }
}

#[test]
fn what_is_not_there_is_skipped() {
    let quantizer = Faulty(Fault::None, AtomicU32::new(0));
    dtype();
    let declared = [block_type()];
    let subject = Subject::new(&quantizer, &declared).unwrap();
    let (_, repacks) = CHECKS.iter().find(|(name, _)| *name == "repacks").unwrap();
    assert!(matches!(repacks(&subject), Ok(Verdict::Skipped(_))));
}
