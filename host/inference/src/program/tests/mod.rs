//! Programs of a small decoder made by hand.

use super::listing::listing;
use super::*;
use apr_engine::architecture::{
    Attention, FeedForward, Input, Layer, Norm, NormPlace, Output as OutputOf, QkNorm, Roles, Rotation,
};
use apr_sdk::{Activation, Error, ErrorKind, Mask, NormKind, RopeStyle, RowsOf};

const TENSORS: &[(&str, &[u64])] = &[
    ("embedding", &[10, 8]),
    ("output.norm", &[8]),
    ("attention.norm", &[8]),
    ("attention.query", &[8, 8]),
    ("attention.key", &[4, 8]),
    ("attention.value", &[4, 8]),
    ("attention.value.bias", &[4]),
    ("attention.output", &[8, 8]),
    ("attention.query.norm", &[2, 4]),
    ("feed_forward.norm", &[8]),
    ("feed_forward.gate", &[6, 8]),
    ("feed_forward.up", &[6, 8]),
    ("feed_forward.down", &[8, 6]),
];

/// A decoder of one layer, whose tensors are called as their roles.
fn decoder() -> Decoder {
    let required = |role: &str| !role.ends_with(".bias") && !role.ends_with("query.norm");
    let roles = |is: &dyn Fn(&str) -> bool| -> Roles {
        let names = TENSORS.iter().map(|(name, _)| (*name).to_owned());
        let more = ["output", "attention.key.norm"].map(str::to_owned);
        let all = names.chain(more).filter(|name| is(name));
        all.map(|name| {
            (name.clone(), name.clone(), required(&name) && name != "output" && name != "attention.key.norm")
        })
        .collect()
    };
    let is_global = |name: &str| name == "embedding" || name.starts_with("output");
    let rope = Rotation {
        style: RopeStyle::HALF,
        frequencies: vec![1.0, 0.01],
        magnitude: 1.0,
        takes_factors: true,
        original: None,
    };
    let attention = Attention {
        heads: 2,
        key_heads: 1,
        key: 4,
        value: 4,
        scale: 0.5,
        mask: Mask::CAUSAL,
        window: 0,
        soft_cap: 0.0,
        clamp: 0.0,
        slopes: Vec::new(),
        qk_norm: QkNorm::Head,
        norm_after_rotation: false,
        within: 0,
        rope: Some(rope),
    };
    Decoder {
        architecture: "hand".to_owned(),
        rows: "gguf".to_owned(),
        width: 8,
        vocabulary: 10,
        context: Some(32),
        norm: Norm { kind: NormKind::RMS, epsilon: 1e-5, place: NormPlace::Before, has_gain: true },
        input: Input { scale: 1.0, positions: false, types: false, norm: false },
        layers: vec![Layer {
            attention,
            feed_forward: FeedForward {
                width: 6,
                gated: true,
                activation: Activation::SILU,
                alpha: 0.0,
                limit: 0.0,
            },
            experts: None,
            parallel: false,
            branch_scale: 1.0,
            roles: roles(&|name| !is_global(name)),
        }],
        output: OutputOf { scale: 1.0, soft_cap: 30.0, pooling: None },
        roles: roles(&is_global),
    }
}

/// Builds over the tensors, of which one may have another shape, or none.
fn built(
    decoder: &Decoder,
    output: Output,
    taps: bool,
    but: Option<(&str, Option<&[u64]>)>,
) -> Result<Built> {
    let tensors = |name: &str| {
        let shape = match but {
            Some((other, shape)) if other == name => shape?,
            _ => TENSORS.iter().find(|(known, _)| *known == name)?.1,
        };
        Some(TensorShape { dtype: DType::F32, shape: shape.to_vec() })
    };
    let floats = |name: &str| match name {
        "attention.query.norm" => Ok(vec![1.0; 8]),
        other => Err(Error::invalid_argument(other.to_owned())),
    };
    build(&Request {
        decoder,
        tensors: &tensors,
        floats: &floats,
        cache: DType::F16,
        output,
        context: 32,
        taps,
    })
}

#[test]
fn a_layer_is_a_line_for_each_operation() {
    let built = built(&decoder(), Output::Logits, false, None).unwrap();
    let text = listing(&built.program, &built.weights);
    let operations: Vec<&str> = text.lines().filter(|line| !line.starts_with(['v', 's'])).collect();
    assert_eq!(operations[0], "embed         embedding by token -> v0", "{text}");
    assert_eq!(operations[1], "norm          v0 -> v1, rms, epsilon 0.00001, gain attention.norm");
    assert_eq!(
        operations[2],
        "linear        v1 by attention.query -> v2[0..8]; attention.key -> v2[8..12]; attention.value + \
         attention.value.bias -> v2[12..16]"
    );
    assert_eq!(
        operations[3],
        "norm          v2[0..8] -> v2[0..8], rms, epsilon 0.00001, 2 heads, gain 8 numbers"
    );
    assert!(operations.iter().any(|line| line.contains("v3 by attention.output -> v0 + v0")), "{text}");
    // Without an output of its own, the embedding.
    assert!(operations.iter().any(|line| line.contains("by embedding -> v7")), "{text}");
    assert!(text.contains("v7: 10 for each output") && text.contains("s0: 1 heads, keys of 4"), "{text}");
    assert_eq!(Program::from_bytes(&built.program.to_bytes().unwrap()).unwrap(), built.program);
    assert_eq!(built.output, 7);
}

#[test]
fn taps_are_values_of_their_own_with_names() {
    let plain = built(&decoder(), Output::Logits, false, None).unwrap();
    let tapped = built(&decoder(), Output::Logits, true, None).unwrap();
    assert!(plain.taps.is_empty());
    assert_eq!(tapped.taps.len(), tapped.program.values.len());
    let mut names: Vec<&str> = tapped.taps.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"layer.0.attention.heads") && names.contains(&"logits"), "{names:?}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), tapped.taps.len());
    assert_eq!(plain.program.operations.len(), tapped.program.operations.len());
    assert_eq!(plain.weights, tapped.weights);
}

#[test]
fn hidden_states_need_no_output() {
    let output = Output::Hidden { pooling: Pooling::MEAN, normalize: true };
    let built = built(&decoder(), output, false, None).unwrap();
    let value = built.program.values[built.output as usize];
    assert_eq!((value.width, value.rows), (8, RowsOf::OUTPUTS));
    assert!(!listing(&built.program, &built.weights).contains("sample"));
}

#[test]
fn a_tensor_that_does_not_fit_is_named() {
    for (name, shape, want) in [
        ("attention.key", Some(&[8, 8][..]), "its shape is [8, 8]"),
        ("attention.value.bias", Some(&[3][..]), "its shape is [3]"),
        ("embedding", Some(&[11, 8][..]), "implies [10, 8]"),
        ("attention.query.norm", Some(&[3, 4][..]), "its shape is [3, 4]"),
        ("feed_forward.down", None, "the model has no such tensor"),
        ("output.norm", None, "the model has no such tensor"),
        // A tensor that nothing says anything of.
        ("attention.key.norm", Some(&[4, 4][..]), "its shape is [4, 4]"),
    ] {
        let error = built(&decoder(), Output::Logits, false, Some((name, shape))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{name}");
        assert_eq!(error.tensor_name(), Some(name));
        assert!(error.message().contains(want), "{name}: {}", error.message());
    }
    let mut silent = decoder();
    silent.layers[0].attention.qk_norm = QkNorm::None;
    let error = built(&silent, Output::Logits, false, None).unwrap_err();
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("attention.query.norm")));
}

#[test]
fn what_a_table_says_otherwise_is_another_operation() {
    let lines = |change: &dyn Fn(&mut Decoder)| {
        let mut decoder = decoder();
        change(&mut decoder);
        let built = built(&decoder, Output::Logits, false, None).unwrap();
        listing(&built.program, &built.weights)
    };
    let scaled = lines(&|decoder| decoder.layers[0].branch_scale = 0.25);
    let scaled: Vec<&str> = scaled.lines().filter(|line| line.contains("0.25")).collect();
    assert!(
        scaled.len() == 2 && scaled[0].contains("attention.output") && scaled[1].contains("down"),
        "{scaled:?}"
    );
    // A gain that the model has is not left out.
    let mut bare = decoder();
    bare.norm.has_gain = false;
    let error = built(&bare, Output::Logits, false, None).unwrap_err();
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("attention.norm")));
    let order = |text: &str| text.find("gain 8 numbers") < text.find("rope");
    assert!(order(&lines(&|_| ())));
    assert!(!order(&lines(&|decoder| decoder.layers[0].attention.norm_after_rotation = true)));
    let clamped = lines(&|decoder| {
        let form = &mut decoder.layers[0].feed_forward;
        (form.activation, form.alpha, form.limit) = (Activation::SWIGLU_CLAMPED, 1.5, 7.0);
    });
    assert!(clamped.contains(", alpha 1.5, limit 7\n"), "{clamped}");
}

#[test]
fn a_context_beyond_what_is_said_of_attention_is_refused() {
    let within = |positions: u32| {
        let mut decoder = decoder();
        decoder.layers[0].attention.within = positions;
        built(&decoder, Output::Logits, false, None)
    };
    within(32).unwrap();
    let error = within(31).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.hint_text(), Some("pass --context 31 or less"));
}

#[test]
fn a_width_beyond_32_bits_is_refused() {
    let mut wide = decoder();
    wide.layers[0].attention.heads = u32::MAX;
    assert_eq!(built(&wide, Output::Logits, false, None).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn results_have_the_same_names_with_and_without_values_of_their_own() {
    let plain = built(&decoder(), Output::Logits, false, None).unwrap();
    let tapped = built(&decoder(), Output::Logits, true, None).unwrap();
    assert_eq!(plain.names, tapped.names);
    assert_eq!(plain.names.len(), plain.program.operations.len());
    let names: Vec<&str> = plain.names.iter().flatten().map(String::as_str).collect();
    assert_eq!(
        names[..4],
        ["hidden", "layer.0.attention.norm", "layer.0.attention.query", "layer.0.attention.key"]
    );
    assert_eq!(names[names.len() - 3..], ["logits", "logits.capped", "sample"]);
    // Each once.
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len(), "{names:?}");
}
