//! Tests of operations: each is undone by its inverse.

use super::*;
use crate::architecture::language::array::Array;
use crate::architecture::language::change::Change;
use crate::architecture::language::expression::{Scalar, Scope};
use crate::expression::Map;

struct Nothing;

impl Scope for Nothing {
    fn value(&self, _name: &str) -> Result<Option<Scalar>> {
        Ok(None)
    }
    fn stated(&self, _name: &str) -> bool {
        false
    }
}

const VIEW: View<'static> = View { scope: &Nothing, block: 1 };

/// Texts, or the TOML of a table.
fn operations(texts: &[&str]) -> Vec<Operation> {
    let quoted = |text: &&str| if text.starts_with('{') { (*text).to_owned() } else { format!("'{text}'") };
    let list: Vec<String> = texts.iter().map(quoted).collect();
    let toml: Toml = format!("ops = [{}]", list.join(", ")).parse().unwrap();
    Operation::read(toml.get("ops")).unwrap()
}

/// Runs forwards from whole tensors of `shapes`, then backwards from whole tensors of the result: each
/// member is then made of boxes of the images, and the composition is the identity.
fn there_and_back(texts: &[&str], shapes: &[&[u64]], images: &[&[u64]]) {
    let operations = operations(texts);
    let whole = |shapes: &[&[u64]]| shapes.iter().enumerate().map(|(n, s)| Array::whole(n, s)).collect();
    let (there, met) = forwards(&operations, whole(shapes), VIEW).unwrap();
    let made: Vec<_> = there.iter().map(|item| item.shape()).collect();
    assert_eq!(made, images, "{texts:?}");
    let back = backwards(&operations, whole(images), &met, VIEW).unwrap();
    let sizes: Vec<u64> = shapes.iter().map(|s| s.iter().product()).collect();
    // Values of the members: 10000 × member + index.
    let members: Vec<Vec<u64>> =
        sizes.iter().enumerate().map(|(m, n)| (0..*n).map(|u| m as u64 * 10_000 + u).collect()).collect();
    let gather = |array: &Array, from: &[Vec<u64>]| -> Vec<u64> {
        let mut out = Vec::new();
        for one in array.boxes().unwrap() {
            let n: u64 = one.dims.iter().map(|(size, _)| size).product();
            for mut index in 0..n {
                let mut at = one.start;
                for (size, stride) in one.dims.iter().rev() {
                    at += index % size * stride;
                    index /= size;
                }
                out.push(one.tensor.map_or(0, |t| from[t][usize::try_from(at).unwrap()]));
            }
        }
        out
    };
    let made: Vec<Vec<u64>> = there.iter().map(|item| gather(item, &members)).collect();
    let again: Vec<Vec<u64>> = back.iter().map(|item| gather(item, &made)).collect();
    assert_eq!(again, members, "{texts:?}");
}

#[test]
fn every_operation_is_undone() {
    there_and_back(&["permute_rope(2)"], &[&[8, 3]], &[&[8, 3]]);
    there_and_back(&["permute_rope(4)"], &[&[24]], &[&[24]]);
    there_and_back(&["transpose"], &[&[5, 3]], &[&[3, 5]]);
    there_and_back(&["split(0, 4, 2, 2)"], &[&[8, 3]], &[&[4, 3], &[2, 3], &[2, 3]]);
    there_and_back(&["split(1, 1, 2)"], &[&[4, 3]], &[&[4, 1], &[4, 2]]);
    there_and_back(&["concat(0)"], &[&[2, 3], &[4, 3]], &[&[6, 3]]);
    there_and_back(&["concat(1)"], &[&[2, 3], &[2, 1]], &[&[2, 4]]);
    there_and_back(&["stack"], &[&[2, 3], &[2, 3], &[2, 3]], &[&[3, 2, 3]]);
    there_and_back(&["regroup(2, 3)"], &[&[20, 4]], &[&[20, 4]]);
    there_and_back(&["regroup(3, 1)"], &[&[18]], &[&[18]]);
    there_and_back(&["as(2, 4, 3)"], &[&[8, 3]], &[&[2, 4, 3]]);
    there_and_back(&["pad_rows(8)"], &[&[5, 2]], &[&[8, 2]]);
    there_and_back(&["permute(2, 0, 1)"], &[&[2, 3, 4]], &[&[4, 2, 3]]);
    // Qwen 3.5: of queries, keys and values in one, the values' heads change places.
    let values = "{ parts = 0, sizes = ['2', '2', '8'], each = [[], [], ['as(2, 2, 2, 3)', 'permute(1, 0, 2, 3)', 'as(8, 3)']] }";
    there_and_back(&[values], &[&[12, 3]], &[&[12, 3]]);
    let columns = "{ parts = 1, sizes = ['1', '2'], each = [[], ['transpose', 'transpose']] }";
    there_and_back(&[columns], &[&[4, 3]], &[&[4, 3]]);
    // Qwen 3 Next: rows of each key head, a query, a key and two values, become all queries, all keys, all values.
    let heads =
        "{ parts = 1, join = 0, sizes = ['1', '1', '2'], each = [['as(2, 3)'], ['as(2, 3)'], ['as(4, 3)']] }";
    there_and_back(&["as(2, 4, 3)", heads], &[&[8, 3]], &[&[8, 3]]);
    there_and_back(&["permute_rope(2)", "stack"], &[&[8, 2], &[8, 2]], &[&[2, 8, 2]]);
    // deepseek's kv_b: (nope, v) rows per head, split, the first transposed.
    let cut = ["as(2, 5, 4)", "split(1, 3, 2)"];
    there_and_back(&cut, &[&[10, 4]], &[&[2, 3, 4], &[2, 2, 4]]);
}

#[test]
fn rows_that_were_cut_come_back_as_zeros() {
    let operations = operations(&["slice_rows(2, 5)"]);
    let whole = vec![Array::whole(0, &[5, 2])];
    let (there, met) = forwards(&operations, whole, VIEW).unwrap();
    assert_eq!(there[0].shape(), [3, 2]);
    let back = backwards(&operations, vec![Array::whole(0, &[3, 2])], &met, VIEW).unwrap();
    let boxes = back[0].boxes().unwrap();
    assert_eq!(boxes.iter().map(|b| (b.tensor, b.dims[0].0)).collect::<Vec<_>>(), [(None, 4), (Some(0), 6)]);
}

#[test]
fn blocks_allow_rows_to_move_and_nothing_else() {
    let view = View { scope: &Nothing, block: 32 };
    let rows = vec![Array::whole(0, &view.units(&[8, 64]).unwrap())];
    let (turned, _) = forwards(&operations(&["permute_rope(2)"]), rows.clone(), view).unwrap();
    assert_eq!(turned[0].shape(), [8, 2]);
    forwards(&operations(&["split(1, 32, 32)"]), rows.clone(), view).unwrap();
    for text in ["transpose", "add(1)", "split(1, 16, 48)", "as(16, 16, 2)"] {
        let error = forwards(&operations(&[text]), rows.clone(), view).unwrap_err();
        assert!(error.hint_text().is_some_and(|h| h.contains("--dequantize")), "{text}: {error:?}");
    }
    view.units(&[4, 48]).unwrap_err();
}

#[test]
fn what_has_no_rows_is_refused_where_rows_move() {
    for text in ["permute_rope(2)", "regroup(1, 1)", "pad_rows(2)", "slice_rows(0, 1)", "transpose"] {
        forwards(&operations(&[text]), vec![Array::whole(0, &[])], VIEW).unwrap_err();
        backwards(&operations(&[text]), vec![Array::whole(0, &[])], &[vec![vec![]]], VIEW).unwrap_err();
    }
    let most = i64::MAX;
    for text in
        [format!("regroup({most}, 1)"), format!("regroup(1, {most})"), format!("permute_rope({most})")]
    {
        forwards(&operations(&[&text]), vec![Array::whole(0, &[8, 2])], VIEW).unwrap_err();
    }
}

#[test]
fn unknown_operations_and_arguments_are_refused() {
    for text in [
        "",
        "twist",
        "permute_rope",
        "permute_rope()",
        "split(0)",
        "add(x)",
        "as()",
        "stack(1)",
        "transpose(",
        "permute(0, 2)",
        "multiply()",
    ] {
        Operation::parse(text).unwrap_err();
    }
    for toml in [
        "{ parts = 0 }",
        "{ parts = 0, sizes = ['1'], each = [[]] }",
        "{ parts = 'x', sizes = ['1', '2'], each = [[], []] }",
        "1",
    ] {
        let toml: Toml = format!("ops = [{toml}]").parse().unwrap();
        Operation::read(toml.get("ops")).unwrap_err();
    }
}

#[test]
fn values_that_are_changed_come_back() {
    let whole = || vec![Array::whole(0, &[4, 2])];
    for (text, there, back) in [
        ("add(1)", Change::adds(1.0), Change::adds(-1.0)),
        ("neg_exp", Change::maps(Map::NegExp), Change::maps(Map::LnNeg)),
        ("exp", Change::maps(Map::Exp), Change::maps(Map::Ln)),
        (
            "multiply(2)",
            Change::maps(Map::Times(2f32.into(), 1f32.into())),
            Change::maps(Map::Over(2f32.into(), 1f32.into())),
        ),
        (
            "multiply(2, 3)",
            Change::maps(Map::Times(2f32.into(), 3f32.into())),
            Change::maps(Map::Over(2f32.into(), 3f32.into())),
        ),
        ("ternary", Change::maps(Map::Ternary(None)), Change::default()),
        ("multiply(1, 1.0)", Change::default(), Change::default()),
        ("multiply(1)", Change::default(), Change::default()),
    ] {
        let (made, met) = forwards(&operations(&[text]), whole(), VIEW).unwrap();
        assert_eq!(made[0].boxes().unwrap()[0].change, there, "{text}");
        let again = backwards(&operations(&[text]), whole(), &met, VIEW).unwrap();
        assert_eq!(again[0].boxes().unwrap()[0].change, back, "{text}");
    }
    let rows = "{ parts = 0, sizes = ['1', '3'], each = [['multiply(2)'], []] }";
    let (made, _) = forwards(&operations(&[rows]), whole(), VIEW).unwrap();
    let boxes = made[0].boxes().unwrap();
    assert_eq!(
        boxes.iter().map(|b| (b.dims[0].0, b.change.is_none())).collect::<Vec<_>>(),
        [(2, false), (6, true)]
    );
    for text in ["multiply(0)", "multiply(unknown)"] {
        forwards(&operations(&[text]), whole(), VIEW).unwrap_err();
    }
}
