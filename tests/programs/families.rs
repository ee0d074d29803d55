//! Every family's program against what transformers computes, run by an interpreter that shares nothing with a backend.

use crate::golden::{Case, cases, folder, models};
use crate::interpreter::{Matrix, run};
use apr_engine::architecture::{Decoder, Layer, Rotation, decoder};
use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_inference::program::listing::listing;
use apr_inference::program::{Built, Output, Request, TensorShape, WeightOf, build};
use apr_sdk::{Activation, Bytes, DType, Mask, Payload, Pooling, RopeStyle};
use apr_tests::{Scratch, host};
use std::collections::HashMap;
use std::path::Path;

/// The most by which an output may differ, in units of their root mean square: or four times what F64 instead of F32 changes in
/// transformers itself, where that is more.
const MOST: f64 = 1e-4;

/// Models whose tables do not say how they compute.
const NOT_RUN: &[&str] = &["deepseek2", "deepseek2-lite", "jina-bert-v2", "t5"];

/// GGUF does not say that these have windows, or which GELU, as converters note.
const OTHERWISE_IN_GGUF: &[&str] = &["gemma", "mistral", "mixtral", "starcoder2"];

/// A model's tensors in the decoder's dialect.
pub struct Tensors {
    held: HashMap<String, (Vec<u64>, Vec<f32>)>,
}

impl Tensors {
    /// Those of a GGUF file of floats.
    pub fn of(model: &OpenedModel) -> Tensors {
        let held = model.model.tensors.iter().map(|tensor| {
            let Payload::Extent { extent, view: None } = tensor.payload else { panic!("{}", tensor.name) };
            let bytes = model.fetch(&Bytes::Extent(extent)).unwrap();
            let floats = crate::golden::floats(tensor.dtype, bytes.inline().unwrap()).unwrap();
            (tensor.name.clone(), (tensor.shape.clone(), floats))
        });
        Tensors { held: held.collect() }
    }

    pub fn shapes(&self) -> Vec<(String, Vec<u64>)> {
        self.held.iter().map(|(name, (shape, _))| (name.clone(), shape.clone())).collect()
    }

    pub fn built(
        &self,
        decoder: &Decoder,
        output: Output,
        context: u32,
        taps: bool,
    ) -> apr_sdk::Result<Built> {
        let tensors = |name: &str| {
            let (shape, _) = self.held.get(name)?;
            Some(TensorShape { dtype: DType::F32, shape: shape.clone() })
        };
        let floats = |name: &str| Ok(self.held[name].1.clone());
        build(&Request {
            decoder,
            tensors: &tensors,
            floats: &floats,
            cache: DType::F32,
            output,
            context,
            taps,
        })
    }

    fn matrices(&self, built: &Built) -> Vec<Matrix> {
        let matrix = |weight: &WeightOf| match weight {
            WeightOf::Tensor(name) => {
                let (shape, data) = &self.held[name];
                Matrix { columns: *shape.last().unwrap() as usize, data: data.clone() }
            }
            WeightOf::Literal { columns, values } => {
                Matrix { columns: *columns as usize, data: values.clone() }
            }
        };
        built.weights.iter().map(matrix).collect()
    }
}

pub fn opened(host: &Host, path: &Path) -> OpenedModel {
    open(host, path, &OpenOptions::default()).unwrap()
}

/// The GGUF file of a folder.
pub fn converted(host: &Host, folder: &Path, gguf: &Path) -> OpenedModel {
    let mut options = ConvertOptions {
        input: folder.to_owned(),
        output: Some(gguf.to_owned()),
        ..ConvertOptions::default()
    };
    options.quantization.precision = Some(DType::F32);
    convert(host, &options).unwrap();
    opened(host, gguf)
}

fn root_mean_square(values: &[f32]) -> f64 {
    let square: f64 = values.iter().map(|x| f64::from(*x).powi(2)).sum();
    (square / values.len() as f64).sqrt()
}

/// The largest difference, in units of the root mean square.
fn distance(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let most = got
        .iter()
        .zip(want)
        .map(|(g, w)| f64::from((g - w).abs()))
        .fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
    most / root_mean_square(want)
}

/// What a decoder's program gives for a case.
fn outputs(case: &Case, decoder: &Decoder, tensors: &Tensors, taps: bool) -> Vec<f32> {
    let output = match case.hidden {
        true => Output::Hidden { pooling: Pooling::OUTPUTS, normalize: false },
        false => Output::Logits,
    };
    let built = tensors.built(decoder, output, case.ids.len() as u32, taps).unwrap();
    // Every result of every operation has the name that some purpose gave it.
    assert_eq!(built.names.len(), built.program.operations.len());
    let nameless: Vec<_> = built.names.iter().flatten().filter(|name| name.contains("value ")).collect();
    assert!(nameless.is_empty(), "{}: {nameless:?}", case.model);
    run(&built.program, &tensors.matrices(&built), &case.ids, &case.positions, built.output)
}

/// The folder of a case, and the file of floats made of it.
fn written(host: &Host, scratch: &Scratch, case: &Case) -> (OpenedModel, OpenedModel) {
    let folder = scratch.at(&format!("{}-{}", case.model, case.name)).join(&case.model);
    case.write_to(&folder);
    let file = converted(host, &folder, &folder.with_extension("gguf"));
    (opened(host, &folder), file)
}

/// What transformers itself changes in F64, in units of the outputs' root mean square.
fn noise(case: &Case) -> f64 {
    let text = std::fs::read_to_string(folder(&case.model).join("logits.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let found = json["cases"].as_array().unwrap().iter().find(|c| c["name"] == case.name.as_str()).unwrap();
    found["f64_difference"].as_f64().unwrap() / root_mean_square(&case.want)
}

#[test]
fn every_familys_program_computes_what_transformers_computes() {
    let (host, scratch) = (host(), Scratch::new());
    let (mut complaints, mut count) = (Vec::new(), 0);
    let all = models();
    for model in all.iter().filter(|model| !NOT_RUN.contains(&model.as_str())) {
        for case in cases(model) {
            let (folder, file) = written(&host, &scratch, &case);
            let tensors = Tensors::of(&file);
            for (source, from) in [("folder", &folder), ("file", &file)] {
                if source == "file" && OTHERWISE_IN_GGUF.contains(&model.as_str()) {
                    continue;
                }
                let decoder = decoder(&host, &from.model, None, &tensors.shapes()).unwrap();
                let made = outputs(&case, &decoder, &tensors, false);
                // Values of their own change nothing.
                if source == "folder" {
                    assert!(made == outputs(&case, &decoder, &tensors, true), "{model}");
                }
                let (distance, most) = (distance(&made, &case.want), MOST.max(4.0 * noise(&case)));
                println!("{model} {} ({source}): {distance:.1e} of {most:.1e}", case.name);
                if distance.is_nan() || distance > most {
                    complaints
                        .push(format!("{model} {} ({source}): {distance:.1e} of {most:.1e}", case.name));
                }
                count += 1;
            }
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert!(count > 80, "{count} cases");
}

/// A change to a decoder, in words and in deed.
type Fault = (&'static str, &'static str, fn(&mut Decoder));

#[test]
fn what_a_table_says_wrongly_is_seen() {
    fn each(decoder: &mut Decoder, change: fn(&mut Layer)) {
        decoder.layers.iter_mut().for_each(change);
    }
    fn rope(decoder: &mut Decoder, change: fn(&mut Rotation)) {
        decoder.layers.iter_mut().filter_map(|layer| layer.attention.rope.as_mut()).for_each(change);
    }
    let faults: &[Fault] = &[
        ("gemma2", "no soft cap of scores", |d| each(d, |layer| layer.attention.soft_cap = 0.0)),
        ("gemma2", "no soft cap of logits", |d| d.output.soft_cap = 0.0),
        ("gemma2", "no windows", |d| {
            each(d, |layer| (layer.attention.mask, layer.attention.window) = (Mask::CAUSAL, 0));
        }),
        ("gemma2", "windows one wider", |d| each(d, |layer| layer.attention.window += 1)),
        ("gemma2", "windows in the other layers", |d| {
            each(d, |layer| {
                (layer.attention.mask, layer.attention.window) = match layer.attention.window {
                    0 => (Mask::WINDOW, 64),
                    _ => (Mask::CAUSAL, 0),
                }
            });
        }),
        ("gemma2", "another scale of scores", |d| each(d, |layer| layer.attention.scale *= 1.1)),
        ("gemma2", "embeddings not scaled", |d| d.input.scale = 1.0),
        ("gemma3", "one rotation for all layers", |d| {
            let last = d.layers[5].attention.rope.clone();
            d.layers.iter_mut().for_each(|layer| layer.attention.rope.clone_from(&last));
        }),
        ("llama", "neighbours for halves", |d| rope(d, |rope| rope.style = RopeStyle::HALF)),
        ("llama", "another base", |d| {
            rope(d, |rope| rope.frequencies.iter_mut().for_each(|f| *f = f.powf(1.25)))
        }),
        ("llama3", "factors left out", |d| rope(d, |rope| rope.takes_factors = false)),
        ("phi3", "short factors", |d| rope(d, |rope| rope.original = Some(1000))),
        ("phi3", "no magnitude", |d| rope(d, |rope| rope.magnitude = 1.0)),
        ("phi2", "all elements rotate", |d| rope(d, |rope| rope.frequencies = vec![1.0; 8])),
        ("qwen3-moe", "weights not normalized", |d| {
            each(d, |layer| layer.experts.as_mut().unwrap().normalize = false);
        }),
        ("stablelm", "in parallel", |d| each(d, |layer| layer.parallel = !layer.parallel)),
        ("bloom", "slopes of other heads", |d| each(d, |layer| layer.attention.slopes.reverse())),
        ("bert", "tanh for erf", |d| {
            each(d, |layer| layer.feed_forward.activation = Activation::GELU_TANH);
        }),
        ("bert", "no token type", |d| d.input.types = false),
        ("command-r", "logits not scaled", |d| d.output.scale = 1.0),
    ];
    let host = host();
    let mut unseen = Vec::new();
    for (model, what, fault) in faults {
        let scratch = Scratch::new();
        let case = cases(model).into_iter().find(|case| case.name == "sharp").unwrap();
        let (folder, file) = written(&host, &scratch, &case);
        let tensors = Tensors::of(&file);
        let mut decoder = decoder(&host, &folder.model, None, &tensors.shapes()).unwrap();
        fault(&mut decoder);
        let distance = distance(&outputs(&case, &decoder, &tensors, false), &case.want);
        println!("{model}, {what}: {distance:.1e}");
        if distance < 5.0 * MOST.max(4.0 * noise(&case)) {
            unseen.push(format!("{model}, {what}: {distance:.1e}"));
        }
    }
    assert!(unseen.is_empty(), "{unseen:#?}");
}

#[test]
fn listings_are_as_checked_in() {
    let (host, scratch) = (host(), Scratch::new());
    for model in ["llama", "gemma2"] {
        let case = cases(model).swap_remove(0);
        let (folder, file) = written(&host, &scratch, &case);
        let tensors = Tensors::of(&file);
        let decoder = decoder(&host, &folder.model, None, &tensors.shapes()).unwrap();
        let built = tensors.built(&decoder, Output::Logits, 64, false).unwrap();
        let text = listing(&built.program, &built.weights);
        let path = apr_tests::root().join(format!("tests/programs/listings/{model}.txt"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "BLESS=1 writes it");
    }
}

#[test]
fn a_model_whose_table_does_not_say_how_it_computes_is_refused_with_a_hint() {
    let (host, scratch) = (host(), Scratch::new());
    for (model, want) in [
        ("t5", "cannot be run: its table has no [decoder]"),
        ("jina-bert-v2", "cannot be run: its bidirectional"),
    ] {
        let folder = scratch.at(model);
        apr_testkit::Checkpoint::golden(&crate::golden::folder(model)).unwrap().write_to(&folder).unwrap();
        let error = decoder(&host, &opened(&host, &folder).model, None, &[]).unwrap_err();
        assert_eq!(error.kind(), apr_sdk::ErrorKind::Unsupported);
        assert!(error.message().contains(want) && error.hint_text().is_some(), "{error}");
    }
}

#[test]
fn what_a_file_states_but_its_table_does_not_cover_is_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = scratch.at("llama");
    apr_testkit::Checkpoint::golden(&crate::golden::folder("llama")).unwrap().write_to(&folder).unwrap();
    let mut options = ConvertOptions {
        input: folder,
        output: Some(scratch.at("m.gguf")),
        set: vec![("llama.attention.scale:f32".to_owned(), "0.5".to_owned())],
        ..ConvertOptions::default()
    };
    options.quantization.precision = Some(DType::F32);
    convert(&host, &options).unwrap();
    let file = opened(&host, &scratch.at("m.gguf"));
    let error = decoder(&host, &file.model, None, &Tensors::of(&file).shapes()).unwrap_err();
    assert_eq!(error.kind(), apr_sdk::ErrorKind::Unsupported);
    assert!(error.message().contains("llama.attention.scale"), "{error}");
}

#[test]
fn more_positions_than_a_model_has_are_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let case = cases("gpt2").swap_remove(0);
    let (folder, file) = written(&host, &scratch, &case);
    let tensors = Tensors::of(&file);
    let decoder = decoder(&host, &folder.model, None, &tensors.shapes()).unwrap();
    tensors.built(&decoder, Output::Logits, 128, false).unwrap();
    let error = tensors.built(&decoder, Output::Logits, 129, false).unwrap_err();
    assert_eq!(error.kind(), apr_sdk::ErrorKind::LimitExceeded);
    assert!(error.message().contains("the model has only 128"), "{error}");
}
