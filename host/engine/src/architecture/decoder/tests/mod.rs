//! Tables with a `[decoder]`, good and bad.

use super::resolve::resolve;
use super::{Decoder, NormPlace, QkNorm};
use crate::architecture::Table;
use crate::architecture::config::Config;
use apr_sdk::{Activation, ErrorKind, Mask, NormKind, Result, RopeStyle};

const BASE: &str = r#"
    id = "base"
    rope = "neox"
    [places]
    layer = "layers"
    [dialect.gguf]
    [config]
    layers = "int"
    hidden_size = "int"
    vocab_size = "int"
    num_attention_heads = "int"
    num_key_value_heads = { type = "int", default = "num_attention_heads" }
    head_dim = { type = "int", default = "hidden_size / num_attention_heads" }
    rope_theta = { type = "float", default = 10000.0 }
    intermediate_size = "int"
    rms_norm_eps = "float"
    hidden_act = { type = "text", default = '"silu"' }
    window = "int"
    round = { type = "int", default = "square" }
    square = { type = "int", default = "round" }
    [decoder]
    rows = "gguf"
    [decoder.attention]
    window = "if(i % 2 == 0, window, 0)"
    soft_cap = 50
    [[tensor]]
    role = "embedding"
    name = "token_embd.weight"
    [[tensor]]
    role = "attention.norm"
    name = "blk.{layer}.norm.weight"
    when = "layer < 2"
    [[tensor]]
    role = "attention.norm"
    name = "blk.{layer}.norm_2.weight"
    optional = true
"#;

const CONFIG: &str = r#"{"layers": 3, "hidden_size": 64, "vocab_size": 100, "num_attention_heads": 4,
    "intermediate_size": 96, "rms_norm_eps": 0.00001, "window": 16}"#;

fn table(text: &str) -> Result<Table> {
    Table::parse(text, &|_| Ok(BASE.to_owned()))
}

/// The decoder of a table that builds on the base.
fn over(text: &str) -> Result<Decoder> {
    let table = table(&format!("id = \"over\"\nbase = \"base\"\n{text}"))?;
    resolved(&table, CONFIG)
}

fn resolved(table: &Table, config: &str) -> Result<Decoder> {
    let config = Config::from_json(table, config.as_bytes())?;
    let tensors = ["token_embd.weight", "blk.0.norm.weight", "blk.2.norm_2.weight"];
    let tensors: Vec<_> = tensors.map(|name| (name.to_owned(), vec![64])).to_vec();
    resolve(table, table.decoder.as_ref().unwrap(), &config, &tensors)
}

#[test]
fn a_table_becomes_numbers_layer_by_layer() {
    let decoder = resolved(&table(BASE).unwrap(), CONFIG).unwrap();
    assert_eq!((decoder.width, decoder.vocabulary, decoder.context), (64, 100, None));
    assert_eq!((decoder.norm.kind, decoder.norm.place), (NormKind::RMS, NormPlace::Before));
    let masks: Vec<_> = decoder.layers.iter().map(|l| (l.attention.mask, l.attention.window)).collect();
    assert_eq!(masks, [(Mask::WINDOW, 16), (Mask::CAUSAL, 0), (Mask::WINDOW, 16)]);
    let attention = &decoder.layers[0].attention;
    assert_eq!((attention.heads, attention.key_heads, attention.key), (4, 4, 16));
    assert_eq!((attention.scale, attention.soft_cap, attention.qk_norm), (0.25, 50.0, QkNorm::None));
    let rope = attention.rope.as_ref().unwrap();
    assert_eq!((rope.style, rope.frequencies.len(), rope.magnitude), (RopeStyle::HALF, 8, 1.0));
    let form = decoder.layers[0].feed_forward;
    assert_eq!((form.width, form.gated, form.activation), (96, true, Activation::SILU));
    // Of two names for a role, the one that exists.
    let norms: Vec<_> =
        decoder.layers.iter().map(|layer| layer.roles.name("attention.norm").unwrap()).collect();
    assert_eq!(norms, ["blk.0.norm.weight", "blk.1.norm.weight", "blk.2.norm_2.weight"]);
    assert_eq!(decoder.roles.name("embedding"), Some("token_embd.weight"));
}

#[test]
fn layers_behind_the_last_that_is_computed_are_left_alone() {
    assert_eq!(over("").unwrap().layers.len(), 3);
    assert_eq!(over("[decoder]\nlayers = 'layers - 1'").unwrap().layers.len(), 2);
    let error = over("[decoder]\nlayers = 'layers - 3'").unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Malformed, "[decoder] `layers` is 0"));
}

#[test]
fn parts_of_a_matrix_have_roles_of_their_own() {
    let part = "[[tensor]]\nrole = 'attention.key_value'\nname = 'layers.{layer}.kv'\nshape = [128, 64]\n";
    let side = "gguf = { names = ['blk.{layer}.k', 'blk.{layer}.v'], ops = ['split(0, 64, 64)']";
    let without = over(&format!("{part}{side} }}")).unwrap();
    assert_eq!(without.layers[1].roles.name("attention.key"), None);
    let with = over(&format!("{part}{side}, roles = ['attention.key', 'attention.value'] }}")).unwrap();
    let roles = &with.layers[1].roles;
    assert_eq!(
        (roles.name("attention.key"), roles.name("attention.value")),
        (Some("blk.1.k"), Some("blk.1.v"))
    );
    let error = over(&format!("{part}{side}, roles = ['attention.key'] }}")).unwrap_err();
    assert!(error.message().contains("`roles` must have one entry for each name"), "{}", error.message());
}

#[test]
fn keys_are_inherited_and_replaced_one_by_one() {
    let decoder = over(
        "[decoder.attention]\nwindow = 0\n[decoder.norm]\nplace = 'if(layers > 2, \"both\", \"before\")'",
    )
    .unwrap();
    let attention = &decoder.layers[0].attention;
    assert_eq!((attention.mask, attention.soft_cap), (Mask::CAUSAL, 50.0));
    assert_eq!(decoder.norm.place, NormPlace::Both);
}

#[test]
fn what_is_wrong_with_a_table_is_said_with_its_key() {
    for (text, want) in [
        ("[decoder.attention]\nwindw = 1", "[decoder.attention] has no `windw`: did you mean `window`?"),
        ("[decoder.attenton]\nwindow = 1", "[decoder] has no `attenton`: did you mean `attention`?"),
        ("[decoder]\nblok = 'parallel'", "[decoder] has no `blok`: did you mean `block`?"),
        ("[decoder]\nattention = 1", "`[decoder.attention]` cannot be `1`"),
        ("[decoder.norm]\nkind = 'layr'", "[decoder.norm]: `kind`: it has no `layr`: did you mean `layer`?"),
        ("[decoder.norm]\nkind = 1", "[decoder.norm]: `kind`: expected a word or an expression in quotes"),
        ("[decoder.attention]\nheads = [1]", "[decoder.attention]: `heads`"),
        ("[decoder.attention]\nheads = '1 +'", "expected a name or a number"),
        ("[decoder]\nrows = 'gguff'", "`rows` is `gguff`, which is not a dialect"),
    ] {
        let error = over(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        assert!(error.message().contains(want), "{text}: {}", error.message());
        assert!(error.message().contains("architecture table `over`"), "{}", error.message());
    }
    let error = table("id = 'x'\ndecoder = 1").unwrap_err();
    assert!(error.message().contains("`[decoder]` cannot be `1`"), "{}", error.message());
}

#[test]
fn values_that_do_not_fit_a_model_are_refused() {
    for (text, want) in [
        ("[decoder.attention]\nheads = 'round'", "their defaults depend on each other"),
        (
            "[decoder.attention]\nheads = 'num_local_heads'",
            "`num_local_heads`, which the model does not state",
        ),
        ("[decoder.attention]\nheads = 0", "layer 0: [decoder.attention] `heads` is 0"),
        ("[decoder.attention]\nheads = 1.5", "not a valid size"),
        ("[decoder.attention]\nheads = 'hidden_act'", "is \"silu\", expected a number"),
        ("[decoder.attention]\nheads = 6", "6 query heads are not a multiple of 4 key heads"),
        (
            "[decoder.rope]\ndimensions = 3",
            "the RoPE dimension 3 is odd or larger than the head dimension 16",
        ),
        ("[decoder.rope]\nscaling = 'dynamic'", "depends on the length of the text"),
        ("[decoder.feed_forward]\nactivation = '\"sine\"'", "is \"sine\", expected one of silu"),
        (
            "[decoder.experts]\ncount = 2\nused = 3",
            "the number of experts per token, 3, exceeds the number of experts, 2",
        ),
        ("[decoder.attention]\nmask = 'full'", "bidirectional attention with a sliding window"),
        (
            "[decoder]\nblock = 'parallel'\nnorm = { place = 'after_sum' }",
            "parallel blocks are only supported with norms before",
        ),
        (
            "[decoder]\nbranch_scale = 0.5\nnorm = { place = 'both' }",
            "scaled branches are only supported with norms before",
        ),
        ("[decoder.rope]\nwhen = 1.5", "expected true or false"),
    ] {
        let error = over(text).unwrap_err();
        assert!(error.message().contains(want), "{text}: {}", error.message());
    }
    assert_eq!(over("[decoder.attention]\nheads = 1000000").unwrap_err().kind(), ErrorKind::LimitExceeded);
    let many = CONFIG.replace("\"layers\": 3", "\"layers\": 1000000");
    assert_eq!(resolved(&table(BASE).unwrap(), &many).unwrap_err().kind(), ErrorKind::Malformed);
}
