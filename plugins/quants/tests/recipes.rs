//! Recipes against what llama-quantize chose, tensor by tensor (`types.toml`).

use apr_sdk::{DType, ErrorKind, ModelFacts, Options, Quantizer, TensorFacts};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

#[derive(Deserialize)]
struct Golden {
    mixtures: Vec<String>,
    models: BTreeMap<String, Shape>,
    options: Vec<Case>,
}

#[derive(Deserialize)]
struct Shape {
    architecture: String,
    keys: BTreeMap<String, toml::Value>,
    kept: Vec<String>,
    tensors: String,
    types: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Case {
    model: String,
    mixture: String,
    imatrix: bool,
    pure: Option<String>,
    output_tensor_type: Option<String>,
    token_embedding_type: Option<String>,
    tensor_type: Option<String>,
    types: String,
}

/// A line of a model: its name with `L` or `A-B` for the layer, and its tensors.
struct Line {
    name: String,
    shape: Vec<u64>,
    names: Vec<String>,
}

fn golden() -> Golden {
    toml::from_str(include_str!("types.toml")).unwrap()
}

fn quants() -> Box<dyn Quantizer> {
    (apr_plugin_quants::PLUGIN.quantizer)().unwrap()
}

impl Shape {
    fn lines(&self) -> Vec<Line> {
        let layers = self.keys["block_count"].as_integer().unwrap();
        self.tensors.lines().map(|line| Line::of(line, layers)).collect()
    }

    /// Its lines, its tensors, and the lines that stay as they are.
    fn subject(&self) -> (Vec<Line>, Vec<TensorFacts>, &[String]) {
        let lines = self.lines();
        let tensors = tensors(&lines);
        (lines, tensors, &self.kept)
    }

    /// As the host hands over what a GGUF file says.
    fn of_gguf(&self, imatrix: bool) -> ModelFacts {
        let mut keys = serde_json::Map::new();
        keys.insert("general.architecture".into(), self.architecture.as_str().into());
        for (key, value) in &self.keys {
            keys.insert(format!("{}.{key}", self.architecture), serde_json::to_value(value).unwrap());
        }
        facts(None, serde_json::json!({ "gguf": keys }).to_string(), imatrix)
    }

    /// Whether a configuration of names that all formats share says all of it.
    fn is_canonical(&self) -> bool {
        !self.keys.contains_key("nextn_predict_layers")
    }

    /// As the host hands over what another format's configuration says.
    fn canonical(&self, imatrix: bool) -> ModelFacts {
        let names = [
            ("block_count", "num_hidden_layers"),
            ("attention.head_count", "num_attention_heads"),
            ("attention.head_count_kv", "num_key_value_heads"),
            ("expert_count", "num_local_experts"),
        ];
        let said = names.iter().filter_map(|(key, name)| Some((*name, self.keys.get(*key)?)));
        let config: BTreeMap<_, _> = said.collect();
        facts(Some(&self.architecture), serde_json::to_string(&config).unwrap(), imatrix)
    }
}

fn facts(architecture: Option<&str>, config: String, has_importance: bool) -> ModelFacts {
    let mut facts = ModelFacts::default();
    facts.architecture = architecture.map(str::to_owned);
    facts.config = config;
    facts.has_importance = has_importance;
    facts
}

impl Line {
    fn of(line: &str, layers: i64) -> Line {
        let mut words = line.split(' ');
        let name = words.next().unwrap().to_owned();
        let range = |part: &str| -> Option<RangeInclusive<i64>> {
            if part == "L" {
                return Some(0..=layers - 1);
            }
            let (first, last) = part.split_once('-')?;
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        let parts: Vec<_> = name.split('.').collect();
        let names = match parts.iter().enumerate().find_map(|(at, part)| Some((at, range(part)?))) {
            None => vec![name.clone()],
            Some((at, range)) => {
                let with =
                    |n: i64| [&parts[..at], &[n.to_string().as_str()], &parts[at + 1..]].concat().join(".");
                range.map(with).collect()
            }
        };
        Line { name, shape: words.map(|n| n.parse().unwrap()).collect(), names }
    }
}

/// What the golden text says of each tensor, and whether importance is needed; `None` for a refusal.
fn expand(text: &str, lines: &[Line], kept: &[String]) -> Option<(Vec<DType>, bool)> {
    let mut parts = text.split("; ");
    let head = parts.next().unwrap();
    if head.starts_with("refused") {
        return None;
    }
    let (base, importance) = head.strip_suffix(" importance").map_or((head, false), |base| (base, true));
    let dtype = |name: &str| DType::from_name(name).unwrap_or_else(|| panic!("no type {name}"));
    let mut said: BTreeMap<&str, Vec<DType>> = BTreeMap::new();
    for part in parts {
        let (name, runs) = part.split_once(' ').unwrap();
        let each = runs.split(' ').flat_map(|run| {
            let (count, kind) = run.split_once('*').unwrap_or(("1", run));
            std::iter::repeat_n(dtype(kind), count.parse().unwrap())
        });
        assert!(said.insert(name, each.collect()).is_none(), "{name} twice");
    }
    let mut all = Vec::new();
    for line in lines {
        let types = match said.remove(line.name.as_str()) {
            Some(one) if one.len() == 1 => vec![one[0]; line.names.len()],
            Some(each) => each,
            None if kept.contains(&line.name) => vec![DType::F32; line.names.len()],
            None => vec![dtype(base); line.names.len()],
        };
        assert_eq!(types.len(), line.names.len(), "{}", line.name);
        all.extend(types);
    }
    assert!(said.is_empty(), "no lines {said:?}");
    Some((all, importance))
}

fn tensors(lines: &[Line]) -> Vec<TensorFacts> {
    let each = lines.iter().flat_map(|line| line.names.iter().map(|name| (name, &line.shape)));
    let fact = |(name, shape): (&String, &Vec<u64>)| {
        let mut facts = TensorFacts::default();
        // The name in the model is another.
        facts.name = format!("model.{name}");
        facts.names = vec![("hf".into(), format!("hf.{name}")), ("gguf".into(), name.clone())];
        facts.shape.clone_from(shape);
        facts.dtype = Some(DType::F32);
        facts
    };
    each.map(fact).collect()
}

/// Compares; gives how many decisions there were, and adds what differs.
fn compare(
    (lines, tensors, kept): &(Vec<Line>, Vec<TensorFacts>, &[String]),
    mixture: &str,
    facts: &ModelFacts,
    options: &Options,
    expected: &str,
    differing: &mut Vec<String>,
) -> usize {
    let assigned = quants().assign(mixture, tensors, facts, options);
    let Some((expected, importance)) = expand(expected, lines, kept) else {
        match assigned {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}"),
            Ok(_) => differing.push(format!("{mixture}: llama-quantize refuses")),
        }
        return 1;
    };
    let assigned = assigned.unwrap_or_else(|error| panic!("{mixture}: {error:?}"));
    for ((tensor, assigned), expected) in tensors.iter().zip(&assigned).zip(&expected) {
        let found = assigned.dtype.unwrap_or(DType::F32);
        if found != *expected {
            differing.push(format!("{mixture}: {} is {found}, not {expected}", tensor.name));
        }
    }
    let needs = |(tensor, assigned): (&TensorFacts, &apr_sdk::Assignment)| {
        // At the ends llama-quantize asks for none, and then stops where the type cannot do without.
        let name = tensor.name_in("gguf");
        assigned.needs_importance && !name.starts_with("token_embd") && !name.starts_with("per_layer_token")
    };
    let needed = tensors.iter().zip(&assigned).any(needs);
    if !facts.has_importance && needed != importance {
        differing.push(format!("{mixture}: importance is needed: {needed}, not {importance}"));
    }
    expected.len()
}

#[test]
fn every_mixture_chooses_what_llama_quantize_chooses() {
    let golden = golden();
    let (mut decisions, mut differing) = (0, Vec::new());
    for (name, model) in &golden.models {
        let subject = model.subject();
        for mixture in &golden.mixtures {
            for imatrix in [false, true] {
                // What is not said is the mixture's own type, for all.
                let without = model.types.get(mixture).unwrap_or(mixture);
                let given = model.types.get(&format!("{mixture} + imatrix"));
                let expected = if imatrix { given.unwrap_or(without) } else { without };
                let mut found = Vec::new();
                let options = Options::new();
                decisions +=
                    compare(&subject, mixture, &model.of_gguf(imatrix), &options, expected, &mut found);
                if imatrix && model.is_canonical() {
                    let facts = model.canonical(imatrix);
                    compare(&subject, &mixture.to_lowercase(), &facts, &options, expected, &mut found);
                }
                differing.extend(found.into_iter().map(|line| format!("{name}, imatrix {imatrix}, {line}")));
            }
        }
    }
    println!("{decisions} decisions, {} differ", differing.len());
    assert!(differing.is_empty(), "{} differ: {:#?}", differing.len(), &differing[..differing.len().min(20)]);
    assert!(decisions > 800_000, "only {decisions} decisions");
}

#[test]
fn options_are_heeded_as_llama_quantize_heeds_them() {
    let golden = golden();
    let mut differing = Vec::new();
    for case in &golden.options {
        let mut options = Options::new();
        let given = [
            ("pure", &case.pure),
            ("output-tensor-type", &case.output_tensor_type),
            ("token-embedding-type", &case.token_embedding_type),
            ("tensor-type", &case.tensor_type),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                options.set(name, value.as_str());
            }
        }
        let model = &golden.models[&case.model];
        let facts = model.of_gguf(case.imatrix);
        compare(&model.subject(), &case.mixture, &facts, &options, &case.types, &mut differing);
    }
    assert!(golden.options.len() >= 15);
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn names_are_found_in_any_case_and_aliases_are_the_middle_ones() {
    let golden = golden();
    let model = &golden.models["gqa"];
    let (_, tensors, _) = model.subject();
    let assign = |recipe: &str| quants().assign(recipe, &tensors, &model.of_gguf(false), &Options::new());
    for (alias, name) in [("q3_k", "Q3_K_M"), ("Q4_k", "q4_k_m"), ("Q5_K", "Q5_K_M")] {
        assert_eq!(assign(alias).unwrap(), assign(name).unwrap(), "{alias}");
    }
    let declared = quants().recipes().unwrap();
    assert!(declared.iter().all(|recipe| assign(&recipe.name).is_ok()));
    let names: Vec<_> = declared.iter().map(|recipe| recipe.name.as_str()).collect();
    assert!(golden.mixtures.iter().all(|mixture| names.contains(&mixture.as_str())));
    let error = assign("Q9_Z").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.hint_text().unwrap().contains("Q4_K_M"), "{error:?}");
}

#[test]
fn types_that_llama_quantize_has_no_name_for_are_for_every_matrix() {
    let golden = golden();
    let (_, tensors, _) = golden.models["gqa"].subject();
    for dtype in [DType::MXFP4, DType::NVFP4] {
        let facts = golden.models["gqa"].of_gguf(false);
        let assigned = quants().assign(dtype.name(), &tensors, &facts, &Options::new()).unwrap();
        let matrices = tensors.iter().zip(&assigned).filter(|(tensor, _)| tensor.shape.len() > 1);
        assert!(matrices.clone().count() > 190);
        assert!(matrices.into_iter().all(|(_, assigned)| assigned.dtype == Some(dtype)));
    }
}

#[test]
fn what_is_not_said_is_taken_from_the_tensors() {
    let golden = golden();
    // Layers, shared keys and experts show in names and shapes.
    for name in ["gqa", "tied", "experts-60", "experts-8-heads", "width-200"] {
        let model = &golden.models[name];
        let (_, mut tensors, _) = model.subject();
        for tensor in &mut tensors {
            // The rows that the golden models leave out.
            let heads = |key: &str| u64::try_from(model.keys[key].as_integer().unwrap()).unwrap();
            match tensor.name.rsplit_once('.').unwrap().0.rsplit_once('.').map(|(_, last)| last) {
                Some("attn_q") => tensor.shape[0] = 64 * heads("attention.head_count"),
                Some("attn_k" | "attn_v") => tensor.shape[0] = 64 * heads("attention.head_count_kv"),
                _ => {}
            }
        }
        for mixture in &golden.mixtures {
            let assign = |facts| quants().assign(mixture, &tensors, facts, &Options::new()).ok();
            let bare = facts(Some(&model.architecture), String::new(), true);
            assert_eq!(assign(&bare), assign(&model.of_gguf(true)), "{name} {mixture}");
        }
    }
}

#[test]
fn what_tables_call_otherwise_is_known() {
    let golden = golden();
    // Mistral and Mixtral are `llama` to GGUF; how many keys Falcon has is not always what it says.
    let falcon =
        r#"{"num_hidden_layers": 32, "num_attention_heads": 8, "num_key_value_heads": 8, "kv_heads": 1}"#;
    let seventy = r#"{"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8}"#;
    let cases = [("seventy", "mistral", seventy, "Q4_K_S"), ("falcon", "falcon", falcon, "Q2_K")];
    for (name, table, config, mixture) in cases {
        let (_, tensors, _) = golden.models[name].subject();
        let assign = |facts: &ModelFacts| quants().assign(mixture, &tensors, facts, &Options::new()).unwrap();
        let expected = assign(&golden.models[name].of_gguf(false));
        assert_eq!(assign(&facts(Some(table), config.into(), false)), expected, "{table}");
        // Neither can be told otherwise.
        let other = config.replace(r#", "kv_heads": 1"#, "").replace("80", "81");
        assert_ne!(assign(&facts(Some(table), other, false)), expected, "{table}");
    }
}

#[test]
fn another_type_is_explained() {
    let golden = golden();
    let model = &golden.models["width-288"];
    let (_, tensors, _) = model.subject();
    let assigned = quants().assign("Q4_K_M", &tensors, &model.of_gguf(false), &Options::new()).unwrap();
    let at = tensors.iter().position(|tensor| tensor.name == "model.blk.7.attn_q.weight").unwrap();
    assert_eq!(assigned[at].dtype, Some(DType::Q5_0));
    assert_eq!(
        assigned[at].note.as_deref(),
        Some("Q5_0 instead of Q4_K: rows of 288 are not a multiple of the block size 256")
    );
    let norm = tensors.iter().position(|tensor| tensor.name == "model.output_norm.weight").unwrap();
    assert_eq!(assigned[norm], apr_sdk::Assignment::KEEP);
}

#[test]
fn integers_stay() {
    let mut tensors =
        tensors(&[Line::of("blk.0.ffn_up.weight 8 256", 1), Line::of("blk.0.ids.weight 8 256", 1)]);
    tensors[1].dtype = Some(DType::I32);
    let assigned = quants().assign("Q8_0", &tensors, &ModelFacts::default(), &Options::new()).unwrap();
    assert_eq!((assigned[0].dtype, assigned[1].dtype), (Some(DType::Q8_0), None));
}

#[test]
fn importance_is_not_wanted_where_nothing_is_encoded() {
    let mut tensors =
        tensors(&[Line::of("blk.0.ffn_up.weight 8 256", 1), Line::of("blk.0.x.weight 8 256", 1)]);
    tensors[1].dtype = Some(DType::IQ2_XXS);
    let assigned = quants().assign("IQ2_XXS", &tensors, &ModelFacts::default(), &Options::new()).unwrap();
    assert_eq!([0, 1].map(|n: usize| assigned[n].needs_importance), [true, false]);
}

#[test]
fn every_block_type_for_weights_can_be_asked_for() {
    let tensors = tensors(&[Line::of("output.weight 8 256", 1)]);
    for dtype in quants().dtypes().unwrap() {
        let options = Options::new().with("output-tensor-type", dtype.name().to_lowercase());
        let assigned = quants().assign("Q8_0", &tensors, &ModelFacts::default(), &options);
        // These two are for activations.
        let is_for_weights = ![DType::Q8_1, DType::Q8_K].contains(&dtype);
        assert_eq!(assigned.ok().and_then(|all| all[0].dtype), is_for_weights.then_some(dtype), "{dtype}");
    }
}

#[test]
fn the_output_stays_as_it_is_where_that_is_asked() {
    let lines = ["output.weight 8 256", "token_embd.weight 8 256", "blk.0.ffn_up.weight 8 256"];
    let tensors = tensors(&lines.map(|line| Line::of(line, 1)));
    let options = Options::new().with("leave-output-tensor", "true");
    let assigned = quants().assign("Q8_0", &tensors, &ModelFacts::default(), &options).unwrap();
    let dtypes: Vec<_> = assigned.iter().map(|one| one.dtype).collect();
    assert_eq!(dtypes, [None, Some(DType::Q8_0), Some(DType::Q8_0)]);
}

#[test]
fn a_wrong_option_is_named() {
    let tensors = tensors(&[Line::of("token_embd.weight 8 200", 1), Line::of("output.weight 8 200", 1)]);
    let wrong = [
        ("Q8_0", "output-tensor-type", "Q4_X", "--output-tensor-type: no tensor can be written in `Q4_X`"),
        ("Q8_0", "output-tensor-type", "Q8_K", "--output-tensor-type: no tensor can be written in `Q8_K`"),
        ("Q8_0", "token-embedding-type", "", "--token-embedding-type: no tensor can be written in ``"),
        ("Q8_0", "tensor-type", "attn_v", "--tensor-type: expected PATTERN=TYPE, found `attn_v`"),
        ("Q8_0", "tensor-type", "=Q8_0", "--tensor-type: expected PATTERN=TYPE, found `=Q8_0`"),
        ("Q8_0", "tensor-type", "attn_v=Q8", "--tensor-type: no tensor can be written in `Q8`"),
        (
            "Q8_0",
            "tensor-type",
            "a(=Q8_0",
            "--tensor-type: the pattern of `a(=Q8_0` is not a valid regular expression",
        ),
        ("Q8_0", "tensor-type", "a(?!b)=Q8_0", "is not a valid regular expression"),
        ("Q8_0", "shout", "true", "unknown recipe option `shout`"),
        ("F16", "tensor-type", "a=Q8_0", "--tensor-type has no effect with F16"),
        (
            "Q8_0",
            "token-embedding-type",
            "Q4_K",
            "--token-embedding-type: rows of 200 are not a multiple of the block size of Q4_K",
        ),
        (
            "Q8_0",
            "output-tensor-type",
            "Q8_0",
            "--output-tensor-type: rows of 200 are not a multiple of the block size of Q8_0",
        ),
    ];
    for (recipe, name, value, message) in wrong {
        let options = Options::new().with(name, value);
        let error = quants().assign(recipe, &tensors, &ModelFacts::default(), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}={value}");
        assert!(error.message().contains(message), "{name}={value}: {error:?}");
    }
    let broken = facts(None, "{".into(), false);
    let error = quants().assign("Q8_0", &tensors, &broken, &Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
