//! What is told of codes that nodes pass on before they are scaled: a weight, or that it is unknown, and never nothing.

use crate::build::{bytes as record, number};
use crate::fixture::Opened;
use apr_sdk::{Derived, DerivedNumbers, MemorySource};

pub(crate) const INT8: u64 = 3;
pub(crate) const FLOAT: u64 = 1;
const INT64: u64 = 7;

pub(crate) fn node(operator: &str, domain: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|name| record(1, name.as_bytes())).collect();
    let outputs = record(2, output.as_bytes());
    record(1, &[inputs, outputs, record(4, operator.as_bytes()), record(7, domain.as_bytes())].concat())
}

pub(crate) fn initializer(name: &str, kind: u64, dims: &[u64]) -> Vec<u8> {
    let width = match kind {
        FLOAT => 4,
        INT64 => 8,
        _ => 1,
    };
    let size = dims.iter().product::<u64>() as usize * width;
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| number(1, dim)).collect();
    let data = record(9, &vec![1; size]);
    record(5, &[dims, number(2, kind), record(8, name.as_bytes()), data].concat())
}

/// A function of one input, `p`, and one output, `r`, that is this one node.
fn function(name: &str, node: &[u8]) -> Vec<u8> {
    let name = record(1, name.as_bytes());
    record(25, &[name, record(4, b"p"), record(5, b"r"), as_of_function(node), record(10, b"local")].concat())
}

/// The record of a node has another number in a function.
pub(crate) fn as_of_function(node: &[u8]) -> Vec<u8> {
    [&[7 << 3 | 2], &node[1..]].concat()
}

/// What is told of a model with the codes `w` and the scale `s`.
fn told(nodes: &[Vec<u8>], functions: &[Vec<u8>]) -> Option<Derived> {
    let stored = [initializer("w", INT8, &[4, 6]), initializer("s", FLOAT, &[])].concat();
    told_of(&stored, nodes, functions)
}

pub(crate) fn told_of(stored: &[u8], nodes: &[Vec<u8>], functions: &[Vec<u8>]) -> Option<Derived> {
    let graph = record(7, &[nodes.concat(), record(2, b"g"), stored.to_vec()].concat());
    let opset = record(8, &number(2, 21));
    let model = [number(1, 10), graph, opset, functions.concat()].concat();
    let opened = Opened::new(MemorySource::new("m.onnx", model)).unwrap();
    opened.model.derived.map(|json| Derived::from_json(json.inline().unwrap()).unwrap())
}

/// The reason why `w` is unknown.
fn unknown(nodes: &[Vec<u8>], functions: &[Vec<u8>]) -> String {
    let derived = told(nodes, functions).unwrap();
    assert_eq!(derived.unknown.len(), 1, "{derived:?}");
    assert_eq!(derived.unknown[0].codes, "w");
    derived.unknown[0].why.clone()
}

pub(crate) fn scaled(codes: &str) -> Vec<u8> {
    node("DequantizeLinear", "", &[codes, "s"], "y")
}

#[test]
fn codes_are_a_weight_or_unknown_whatever_passes_them_on() {
    let moves = ["Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather"];
    let moves = moves.iter().chain(&["GatherElements", "GatherND", "Expand", "Tile", "DepthToSpace"]);
    for operator in moves {
        let derived = told(&[node(operator, "", &["w", "x"], "q"), scaled("q")], &[]).unwrap();
        assert_eq!((derived.weights[0].codes.as_str(), derived.unknown.len()), ("w", 0), "{operator}");
    }
    for operator in [
        "Abs",
        "Add",
        "BitCast",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "CenterCropPad",
        "Clip",
        "Compress",
        "Concat",
        "CumSum",
        "Div",
        "Einsum",
        "Gemm",
        "If",
        "Loop",
        "MatMul",
        "Max",
        "MaxPool",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Pad",
        "Pow",
        "ReduceMax",
        "ReduceMin",
        "ReduceSum",
        "Relu",
        "Resize",
        "ReverseSequence",
        "Scan",
        "ScatterElements",
        "ScatterND",
        "SequenceAt",
        "Sign",
        "SpaceToDepth",
        "Split",
        "Sub",
        "Sum",
        "TensorScatter",
        "TopK",
        "Trilu",
        "Unique",
        "Where",
        "NoOperatorOfTheStandard",
    ] {
        let first = if operator == "Where" { "flag" } else { "w" };
        let why = unknown(&[node(operator, "", &[first, "w"], "q"), scaled("q")], &[]);
        assert_eq!(why, format!("`{operator}` changes them before they are scaled"));
    }
}

#[test]
fn what_is_quantized_while_the_model_runs_says_nothing_of_what_it_is_computed_from() {
    for operator in ["QuantizeLinear", "DynamicQuantizeLinear"] {
        let derived = told(&[node(operator, "", &["x", "s"], "q"), scaled("q")], &[]);
        assert_eq!(derived, None, "{operator}");
    }
}

#[test]
fn codes_behind_more_nodes_than_are_followed_are_unknown() {
    let chain = |n: usize| {
        let name = |at: usize| if at == 0 { "w".to_owned() } else { format!("q{at}") };
        let nodes = (0..n).map(|at| node("Identity", "", &[&name(at)], &name(at + 1)));
        nodes.chain([scaled(&name(n))]).collect::<Vec<_>>()
    };
    assert_eq!(told(&chain(90), &[]).unwrap().weights[0].codes, "w");
    assert!(unknown(&chain(110), &[]).contains("too often to follow"));
}

#[test]
fn functions_too_deep_to_be_followed_leave_codes_unknown_by_their_own_name() {
    let functions: Vec<_> = (0..20)
        .map(|at| match at {
            19 => function("F19", &node("DequantizeLinear", "", &["p", "p"], "r")),
            _ => function(&format!("F{at}"), &node(&format!("F{}", at + 1), "local", &["p"], "r")),
        })
        .collect();
    assert_eq!(
        unknown(&[node("F0", "local", &["w"], "y")], &functions),
        "function calls around it are nested more than 16 levels deep"
    );
    let derived = told(&[node("F0", "local", &["w"], "y")], &functions).unwrap();
    assert_eq!(derived.unknown[0].by, "the function `F16`");
    // One that calls itself has no end, whether it scales codes or passes them on.
    let endless = function("F", &node("F", "local", &["p"], "r"));
    assert!(
        unknown(&[node("F", "local", &["w"], "q"), scaled("q")], std::slice::from_ref(&endless))
            .contains("more than 16 levels deep")
    );
}

#[test]
fn many_scales_of_one_tensor_of_codes_are_told_as_two() {
    let names: Vec<String> = (0..2000).map(|at| format!("s{at}")).collect();
    let stored: Vec<_> = names.iter().map(|name| initializer(name, FLOAT, &[])).collect();
    let nodes: Vec<_> =
        names.iter().map(|name| node("DequantizeLinear", "", &["w", name], &format!("{name}.y"))).collect();
    let stored = [initializer("w", INT8, &[4, 6]), stored.concat()].concat();
    let derived = told_of(&stored, &nodes, &[]).unwrap();
    assert_eq!((derived.weights.len(), derived.unknown.len()), (2, 0));
}

#[test]
fn two_scales_that_are_not_followed_are_not_one() {
    // The product is multiplied by another input of the model than the one that its operand was divided by.
    let product = |factor: &str| {
        [
            node("QuantizeLinear", "", &["x", "x.scale"], "a"),
            node("MatMulInteger", "", &["a", "w"], "p"),
            node("Mul", "", &[factor, "s"], "both"),
            node("Mul", "", &["p", "both"], "y"),
        ]
    };
    assert_eq!(unknown(&product("gain"), &[]), "the scale of their product is not known for certain");
    assert_eq!(told(&product("x.scale"), &[]).unwrap().weights[0].codes, "w");
}

#[test]
fn scales_that_the_graph_needs_stay_or_their_codes_are_unknown() {
    let nodes = [node("DequantizeLinear", "", &["w", "s"], "y"), node("Add", "", &["x", "s"], "z")];
    for n in [4096, 4097] {
        let stored = [initializer("w", INT8, &[n, 2]), initializer("s", FLOAT, &[n])].concat();
        let alone = told_of(&stored, &nodes[..1], &[]).unwrap();
        assert_eq!(alone.weights[0].scales, DerivedNumbers::Tensor("s".to_owned()));
        let derived = told_of(&stored, &nodes, &[]).unwrap();
        if n == 4096 {
            assert!(
                matches!(&derived.weights[0].scales, DerivedNumbers::Values(all) if all.len() as u64 == n)
            );
            assert_eq!((derived.unused.len(), derived.unknown.len()), (0, 0));
        } else {
            assert!(derived.unknown[0].why.contains("too many scales to keep with them"), "{derived:?}");
        }
    }
}

#[test]
fn a_list_of_more_scales_than_codes_is_not_repeated() {
    // Of two runs, or it would be used in place.
    let run = record(4, &[0; 4 * 2048]);
    let scales = [number(1, 4096), number(2, FLOAT), record(8, b"s"), run.clone(), run].concat();
    let stored = [initializer("w", INT8, &[1]), record(5, &scales)].concat();
    let derived = told_of(&stored, &[scaled("w")], &[]).unwrap();
    assert_eq!(derived.weights[0].scales, DerivedNumbers::Tensor("s".to_owned()));
}

#[test]
fn what_one_operator_reads_partly_is_read_whole_for_the_next() {
    // The first looks at what is stored unchanged alone, and must not hide the rest from the second.
    for between in ["Add", "Cast"] {
        let foreign = node("QLinearConv", "of.others", &["q"], "z");
        let nodes = [node(between, "", &["w", "x"], "q"), foreign, scaled("q")];
        let derived = told(&nodes, &[]).unwrap();
        assert_eq!(
            derived.unknown.iter().map(|one| one.codes.as_str()).collect::<Vec<_>>(),
            ["w"],
            "{between}"
        );
    }
    let whole = [initializer("w", INT64, &[24]), initializer("s", FLOAT, &[])].concat();
    let nodes = [node("Cast", "", &["w"], "q"), node("QLinearConv", "of.others", &["q"], "z"), scaled("q")];
    assert_eq!(told_of(&whole, &nodes, &[]).unwrap().unknown[0].codes, "w");
}

#[test]
fn what_chooses_elements_is_none_of_them() {
    for (operator, inputs) in [
        ("Where", ["flag", "q", "q"]),
        ("Compress", ["q", "flag", ""]),
        ("Pad", ["q", "flag", ""]),
        ("TopK", ["q", "flag", ""]),
        ("ScatterElements", ["q", "flag", "q"]),
        ("If", ["flag", "", ""]),
    ] {
        let nodes = [
            node("QuantizeLinear", "", &["x", "s"], "q"),
            node("Cast", "", &["w"], "flag"),
            node(operator, "", &inputs, "r"),
            scaled("r"),
        ];
        assert_eq!(told(&nodes, &[]), None, "{operator}");
    }
    // Another operator of the same name says nothing of its inputs.
    let nodes = [node("Where", "of.others", &["w", "q", "q"], "r"), scaled("r")];
    assert!(unknown(&nodes, &[]).contains("`Where` changes them"));
}

#[test]
fn codes_that_are_listed_as_numbers_are_said_to_be() {
    let listed = [number(1, 3), number(2, INT8), record(8, b"w"), record(5, &[1, 2, 3])].concat();
    let stored = [record(5, &listed), initializer("s", FLOAT, &[])].concat();
    let derived = told_of(&stored, &[scaled("w")], &[]).unwrap();
    assert!(derived.unknown[0].why.contains("stored as a list of numbers (`int32_data`)"), "{derived:?}");
    // Zero points may be a list.
    let zero = [number(2, INT8), record(8, b"z"), record(5, &[3])].concat();
    let stored = [initializer("w", INT8, &[4, 6]), initializer("s", FLOAT, &[]), record(5, &zero)].concat();
    let derived = told_of(&stored, &[node("DequantizeLinear", "", &["w", "s", "z"], "y")], &[]).unwrap();
    assert_eq!(derived.weights[0].zeros, Some(DerivedNumbers::Values(vec![3.0])));
}

#[test]
fn a_branch_that_is_the_callers_is_followed_beside_one_of_the_nodes_own() {
    let branch = |attribute: &[u8], codes: &str| {
        let output = record(12, &record(1, b"b"));
        let graph = [node("Identity", "", &[codes], "b"), record(2, b"g"), output].concat();
        record(5, &[record(1, attribute), record(6, &graph)].concat())
    };
    let given = record(5, &[record(1, b"else_branch"), record(21, b"other")].concat());
    let extended = |node: Vec<u8>, more: &[u8]| record(1, &[&node[2..], more].concat());
    let choice = node("If", "", &["p"], "q");
    let body = [
        as_of_function(&extended(choice, &[branch(b"then_branch", "p"), given].concat())),
        as_of_function(&node("DequantizeLinear", "", &["q", "t"], "r")),
    ];
    let function = [record(1, b"F"), record(4, b"p"), record(4, b"t"), record(5, b"r"), body.concat()];
    let function = record(25, &[function.concat(), record(10, b"local")].concat());
    let call = extended(
        node("F", "local", &["x", "s"], "y"),
        &[branch(b"unused", "v"), branch(b"other", "w")].concat(),
    );
    let stored =
        [initializer("v", INT8, &[4, 6]), initializer("w", INT8, &[4, 6]), initializer("s", FLOAT, &[])];
    let derived = told_of(&stored.concat(), &[call], &[function]).unwrap();
    assert_eq!(
        derived.unknown.iter().map(|one| one.codes.as_str()).collect::<Vec<_>>(),
        ["w"],
        "{derived:?}"
    );
}
