//! Every number that crosses, compared with the one list of them. Until the first tagged release numbers may change, and
//! the list with them; from then on lines are only added.

use apr_abi::manifest::{DEBUG_ASSERTIONS, HEAD_LEN, MAGIC, UNWINDS};
use apr_abi::wire::{DTypeNumber, NUMBERS, ScoreNumber};
use apr_sdk::{DType, KERNEL_NUMBERS, Score, ValueType};
use std::fmt::Write;

/// `GROUP NAME NUMBER`, a line each.
fn numbers() -> String {
    let mut text = String::new();
    let mut line = |group: &str, name: &str, number: u32| {
        writeln!(text, "{group} {name} {number}").unwrap();
    };
    for (group, constants) in NUMBERS.iter().chain(KERNEL_NUMBERS) {
        constants.iter().for_each(|(name, number)| line(group, name, *number));
    }
    DType::ALL.iter().for_each(|row| line("DType", row.name, row.dtype.0));
    ValueType::ALL.iter().for_each(|(kind, name, _)| line("ValueType", name, kind.0));
    line("Head", "LEN", HEAD_LEN as u32);
    line("Head", "VERSION", u32::from(MAGIC[7]));
    line("HeadFlag", "UNWINDS", UNWINDS);
    line("HeadFlag", "DEBUG_ASSERTIONS", DEBUG_ASSERTIONS);
    text
}

#[test]
fn every_number_is_the_one_of_the_golden_list() {
    let (now, golden) = (numbers(), include_str!("numbers.txt").replace("\r\n", "\n"));
    let missing: Vec<_> = golden.lines().filter(|line| !now.lines().any(|found| found == *line)).collect();
    assert!(missing.is_empty(), "these are no longer so: {missing:?}");
    let new: Vec<_> = now.lines().filter(|line| !golden.lines().any(|found| found == *line)).collect();
    assert!(new.is_empty(), "add them to sdk/abi/tests/numbers.txt: {new:?}");
}

/// Scores cross as they are.
#[test]
fn a_score_has_its_number() {
    let scores = [Score::NO, Score::EXTENSION, Score::STRUCTURE, Score::MAGIC, Score::MAGIC_AND_VERSION];
    let numbers: Vec<_> = ScoreNumber::ALL.iter().map(|(_, number)| Score(*number)).collect();
    assert_eq!(numbers, scores);
}

#[test]
fn no_number_stands_for_two_things() {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let text = numbers();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (group, number) = (words.next().unwrap(), words.next_back().unwrap());
        assert!(!seen.contains(&(group, number)), "{line}: a second {number} of {group}");
        seen.push((group, number));
    }
    // What a writer adds to a type must leave the type, and be no type itself.
    let first = DTypeNumber::FIRST_AT_RUN_TIME.0;
    assert!(DType::ALL.iter().all(|row| row.dtype.0 < first));
    let (last, narrow) = (DTypeNumber::LAST_AT_RUN_TIME.0, DTypeNumber::NARROW_IF_EXACT.0);
    assert!(last & narrow == 0 && last | narrow != DTypeNumber::KEEP.0);
}
