//! Models of some hundred kilobytes whose nodes ask for far more work or memory than they take: they open, and codes that were not
//! followed to their ends are unknown. Each took from half a minute to forever, or gigabytes.

use crate::build::bytes as record;
use crate::derived::{FLOAT, INT8, as_of_function, initializer, node, told_of};
use apr_sdk::Derived;

/// A function of one input, `p`, and one output, `r`.
fn function(name: &str, nodes: &[Vec<u8>]) -> Vec<u8> {
    let nodes: Vec<u8> = nodes.iter().flat_map(|node| as_of_function(node)).collect();
    let name = record(1, name.as_bytes());
    record(25, &[name, record(4, b"p"), record(5, b"r"), nodes, record(10, b"local")].concat())
}

fn reasons(derived: &Derived) -> Vec<&str> {
    derived.unknown.iter().map(|one| one.why.as_str()).collect()
}

#[test]
fn calls_of_a_function_that_joins_many_values_are_not_followed_one_by_one() {
    const CALLS: usize = 10_000;
    let many: Vec<String> = (0..CALLS).map(|at| format!("x{at}")).collect();
    let joined: Vec<&str> = ["p"].into_iter().chain(many.iter().map(String::as_str)).collect();
    let scaled = node("DequantizeLinear", "", &["q", "s"], "r");
    let body = function("Joins", &[node("Concat", "", &joined, "q"), scaled]);
    let calls: Vec<_> = (0..CALLS).map(|at| node("Joins", "local", &["w"], &format!("y{at}"))).collect();
    let stored = [initializer("w", INT8, &[4, 6]), initializer("s", FLOAT, &[])].concat();
    let derived = told_of(&stored, &calls, &[body]).unwrap();
    assert_eq!((derived.weights.len(), derived.unknown.len()), (0, 1), "{:?}", reasons(&derived));
    assert_eq!(derived.unknown[0].codes, "w");
}

#[test]
fn casts_of_one_name_are_not_followed_in_every_combination() {
    let mut nodes = vec![
        node("DynamicQuantizeLinear", "", &["x"], "a"),
        node("MatMulInteger", "", &["a", "w"], "p"),
        node("Mul", "", &["p", "s"], "c0"),
    ];
    for depth in 0..8 {
        let cast = || node("Cast", "", &[&format!("c{depth}")], &format!("c{}", depth + 1));
        nodes.extend((0..150).map(|_| cast()));
    }
    let stored = [initializer("w", INT8, &[4, 6]), initializer("s", FLOAT, &[])].concat();
    let derived = told_of(&stored, &nodes, &[]).unwrap();
    assert_eq!(derived.weights.len(), 0);
    assert_eq!(reasons(&derived), ["the scale of their product is not known for certain"]);
}

#[test]
fn a_scale_of_many_numbers_is_not_repeated_for_each_bias_of_one() {
    let stored = [
        initializer("a", INT8, &[2, 2]),
        initializer("w", INT8, &[2, 4096]),
        initializer("s", FLOAT, &[]),
        initializer("t", FLOAT, &[4096]),
    ];
    let (mut stored, mut nodes) = (stored.concat(), Vec::new());
    for at in 0..5000 {
        let bias = format!("b{at}");
        stored.extend(initializer(&bias, INT8, &[1]));
        let inputs = ["a", "s", "", "w", "t", "", &bias];
        nodes.push(node("QGemm", "com.microsoft", &inputs, &format!("y{at}")));
    }
    let derived = told_of(&stored, &nodes, &[]).unwrap();
    let reason = "their scales are products of too many numbers";
    assert_eq!(reasons(&derived).iter().filter(|why| **why == reason).count(), 5000, "{derived:?}");
}

#[test]
fn of_thousands_of_weights_that_one_tensor_stores_some_are_told() {
    let mut stored = initializer("w", INT8, &[4, 6]);
    let mut nodes = Vec::new();
    for at in 0..14_000 {
        stored.extend(initializer(&format!("s{at}"), FLOAT, &[]));
        nodes.push(node("DequantizeLinear", "", &["w", &format!("s{at}")], &format!("y{at}")));
    }
    let derived = told_of(&stored, &nodes, &[]).unwrap();
    assert!(derived.weights.len() < 100, "{}", derived.weights.len());
    assert!(derived.weights.iter().all(|weight| weight.codes == "w"));
}

#[test]
fn nodes_that_need_more_memory_than_their_file_allows_leave_codes_unknown_and_the_model_opens() {
    let stored = [initializer("w", INT8, &[4, 6]), initializer("s", FLOAT, &[])].concat();
    // Of two bytes each.
    let mut nodes = vec![[10, 0].repeat(400_000)];
    nodes.push(node("DequantizeLinear", "", &["w", "s"], "y"));
    let derived = told_of(&stored, &nodes, &[]).unwrap();
    assert_eq!((derived.weights.len(), derived.unknown[0].codes.as_str()), (0, "w"));
}

#[test]
fn operands_and_branches_of_every_call_are_not_looked_at_without_end() {
    let operands: Vec<&str> = ["s", "z"].into_iter().chain(["p", "s", "z"].repeat(5000)).collect();
    let joins = function("Joins", &[node("QLinearConcat", "com.microsoft", &operands, "r")]);
    let calls: Vec<_> = (0..5000).map(|at| node("Joins", "local", &["w"], &format!("y{at}"))).collect();
    let stored = [initializer("w", INT8, &[4, 6]), initializer("s", FLOAT, &[])].concat();
    let derived = told_of(&stored, &calls, &[joins]).unwrap();
    assert_eq!((derived.weights.len(), derived.unknown.len()), (0, 1));
    // Functions that call one another in pairs: 2^16 calls in a few hundred bytes.
    let mut functions = vec![function("F15", &[node("DequantizeLinear", "", &["p", "p"], "r")])];
    for depth in 0..15 {
        let call = |result| node(&format!("F{}", depth + 1), "local", &["p"], result);
        functions.push(function(&format!("F{depth}"), &[call("q"), call("q"), call("r")]));
    }
    let derived = told_of(&stored, &[node("F0", "local", &["w"], "y")], &functions).unwrap();
    assert_eq!(derived.unknown.len(), 1, "{:?}", reasons(&derived));
}

#[test]
fn a_long_name_of_an_operator_is_not_repeated_for_each_tensor() {
    let (long, mut stored) = ("O".repeat(60_000), initializer("s", FLOAT, &[]));
    let names: Vec<String> = (0..20_000).map(|at| format!("w{at}")).collect();
    names.iter().for_each(|name| stored.extend(initializer(name, INT8, &[2])));
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    let nodes = [node(&long, "", &inputs, "q"), node("DequantizeLinear", "", &["q", "s"], "y")];
    let derived = told_of(&stored, &nodes, &[]).unwrap();
    assert_eq!(derived.unknown.len(), names.len());
    assert!(reasons(&derived).iter().all(|why| why.len() < 200));
}
