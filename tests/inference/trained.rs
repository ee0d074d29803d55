//! The trained model of `tests/model`: perplexity, logits, continuations and embeddings are those of transformers and
//! llama.cpp, whatever file it lies in and however many threads compute; and mistakes that are planted are seen.

use crate::loading::{convert_to, distance, exact, loaded, logits, trained};
use apr_host::running::{LoadOptions, Loaded, Wanted};
use apr_sdk::DType;
use apr_tests::Scratch;
use base64::Engine as _;
use serde_json::Value as Json;
use std::path::Path;

fn golden() -> Json {
    let text = std::fs::read_to_string(apr_tests::root().join("tests/model/golden.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn ids(json: &Json) -> Vec<u32> {
    json.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn floats(json: &Json) -> Vec<f32> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(json.as_str().unwrap()).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// The negative logarithm of the probability of `id`.
fn loss(logits: &[f32], id: u32) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|x| f64::from(x - most).exp()).sum();
    sum.ln() - f64::from(logits[id as usize] - most)
}

/// The perplexity of the held-out text by the protocol that `tests/model/perplexity.py` states.
fn perplexity(loaded: &mut Loaded, golden: &Json) -> f64 {
    let held = &golden["held_out"];
    let (ids, chunk) = (ids(&held["ids"]), held["chunk"].as_u64().unwrap() as usize);
    let (mut sum, mut count) = (0.0, 0u64);
    for part in ids.chunks_exact(chunk) {
        let mut part = part.to_vec();
        part[0] = ids[0];
        loaded.runner.clear().unwrap();
        let all = logits(loaded, &part);
        for position in chunk / 2..chunk - 1 {
            sum += loss(&all[position], part[position + 1]);
            count += 1;
        }
    }
    assert_eq!(count, held["scored"].as_u64().unwrap());
    (sum / count as f64).exp()
}

/// How far apart two figures are, as a share of the second.
fn apart(have: f64, want: f64) -> f64 {
    ((have - want) / want).abs()
}

/// The perplexity of a file.
fn of_file(path: &Path) -> f64 {
    perplexity(&mut loaded(path, &exact()), &golden())
}

#[test]
fn the_perplexity_is_that_of_transformers_and_llama_cpp() {
    let golden = golden();
    let right = golden["held_out"]["perplexity"].as_f64().unwrap();
    let have = of_file(&trained());
    assert!(apart(have, right) < 1e-5, "{have}, not {right}");
    let scratch = Scratch::new();
    for (name, file) in golden["llama.cpp"]["files"].as_object().unwrap() {
        let want = file["perplexity"].as_f64().unwrap();
        let path = scratch.at(&format!("{name}.gguf"));
        convert_to(&trained(), &path, Some(name));
        let have = of_file(&path);
        println!("{name}: {have:.4}, llama.cpp {want:.4}");
        assert!(apart(have, want) < 1e-3, "{name}: {have}, not {want}");
    }
}

#[test]
fn mistakes_that_are_planted_cost_perplexity() {
    let golden = golden();
    let right = golden["held_out"]["perplexity"].as_f64().unwrap();
    let scratch = Scratch::new();
    let mut planted = 0;
    for fault in golden["faults"].as_array().unwrap() {
        let name = fault["name"].as_str().unwrap();
        let folder = scratch.at(name);
        if !crate::faults::plant(&trained(), &folder, fault) {
            continue;
        }
        planted += 1;
        let (have, want) = (of_file(&folder), fault["perplexity"].as_f64().unwrap());
        println!("{name}: {have:.4}, transformers {want:.4}, right {right:.4}");
        assert!(apart(have, want) < 1e-3, "{name}: {have}, not {want}");
        // The judge of the right model would see it.
        assert!(apart(have, right) > 1e-2, "{name}: {have} is as good as {right}");
    }
    assert!(planted >= 5, "{planted} faults");
}

#[test]
fn the_logits_are_those_of_transformers() {
    let golden = &golden()["logits"];
    let want = floats(&golden["logits"]);
    let vocabulary = golden["vocabulary"].as_u64().unwrap() as usize;
    let all = logits(&mut loaded(&trained(), &exact()), &ids(&golden["ids"]));
    for (position, want) in ids(&golden["positions"]).iter().zip(want.chunks_exact(vocabulary)) {
        let distance = distance(&all[*position as usize], want);
        assert!(distance < 1e-4, "position {position}: {distance:.1e}");
    }
}

/// Whatever was right before, the next token is: given the text itself, the model goes astray at no place.
#[test]
fn teacher_forced_the_most_likely_tokens_are_those_of_transformers() {
    let golden = golden();
    let teacher = &golden["teacher"];
    let want = ids(&teacher["most_likely"]);
    let text = &ids(&golden["held_out"]["ids"])[..want.len()];
    let gaps: Vec<f64> =
        teacher["gaps"].as_array().unwrap().iter().map(|gap| gap.as_f64().unwrap()).collect();
    assert_eq!((want.len(), gaps.len()), (512, 512));
    // Blocks change logits, and so which of two tokens that are nearly as likely comes first.
    for (quantize, least, count) in
        [(None, 0.02, 400), (Some("Q8_0"), 0.25, 100), (Some("Q4_K_M"), 0.25, 100)]
    {
        let name = quantize.unwrap_or("F32");
        let quantize = quantize.map(str::to_owned);
        let all = logits(&mut loaded(&trained(), &LoadOptions { quantize, ..exact() }), text);
        let mut judged = 0;
        for (position, logits) in all.iter().enumerate().filter(|(position, _)| gaps[*position] > least) {
            let best = (0u32..).zip(logits).max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
            assert_eq!(best, want[position], "{name}: position {position}, gap {}", gaps[position]);
            judged += 1;
        }
        assert!(judged >= count, "{name}: only {judged} positions");
    }
}

#[test]
fn the_continuations_are_those_of_transformers() {
    let mut loaded = loaded(&trained(), &exact());
    for text in golden()["greedy"].as_array().unwrap() {
        loaded.runner.clear().unwrap();
        let mut next = ids(&text["ids"]);
        let mut said = Vec::new();
        for _ in 0..64 {
            let logits = loaded.runner.feed(&next).unwrap();
            let best = (0u32..).zip(logits).max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
            said.push(best);
            next = vec![best];
        }
        assert_eq!(said, ids(&text["continuation"]), "{}", text["prompt"]);
        // The same, chosen by the device.
        loaded.runner.clear().unwrap();
        let prompt = ids(&text["ids"]);
        loaded.runner.feed(&prompt[..prompt.len() - 1]).unwrap();
        let mut last = *prompt.last().unwrap();
        for want in &said {
            last = loaded.runner.feed_greedy(last).unwrap();
            assert_eq!(last, *want);
        }
    }
}

#[test]
fn the_embedding_is_that_of_transformers() {
    let golden = &golden()["embedding"];
    let (ids, mut want) = (ids(&golden["ids"]), floats(&golden["values"]));
    let options = LoadOptions { wanted: Wanted::Embedding, ..exact() };
    let have = loaded(&trained(), &options).runner.embed(&ids, 1).unwrap().to_vec();
    let norm = want.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    want.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
    let distance = distance(&have, &want);
    assert!(distance < 1e-4, "{distance:.1e}");
}

#[test]
fn a_text_that_is_longer_than_a_step_of_a_prompt_has_an_embedding() {
    let options = LoadOptions { wanted: Wanted::Embedding, context: Some(1024), ..exact() };
    let ids: Vec<u32> = (0..700).map(|n| 5 + n * 37 % 400).collect();
    let have = loaded(&trained(), &options).runner.embed(&ids, 1).unwrap().to_vec();
    assert!(have.iter().all(|value| value.is_finite()) && have.iter().any(|value| *value != 0.0));
}

#[test]
fn every_format_and_any_number_of_threads_give_the_same_logits() {
    let scratch = Scratch::new();
    let prompt = ids(&golden()["logits"]["ids"]);
    let bits = |path: &Path, options: &LoadOptions| -> Vec<Vec<u32>> {
        let all = logits(&mut loaded(path, options), &prompt);
        all.iter().map(|row| row.iter().map(|x| x.to_bits()).collect()).collect()
    };
    let first = bits(&trained(), &exact());
    let (gguf, apr) = (scratch.at("m.gguf"), scratch.at("m.apr"));
    convert_to(&trained(), &gguf, None);
    convert_to(&gguf, &apr, None);
    for (path, why) in [
        (trained().join("model.safetensors"), "the file in its folder"),
        (gguf.clone(), "GGUF"),
        (apr, "APR"),
    ] {
        assert!(bits(&path, &exact()) == first, "{why}");
    }
    for threads in [2, 3, 5] {
        assert!(bits(&gguf, &LoadOptions { threads, ..exact() }) == first, "{threads} threads");
    }
    // Quantized while loading, or before.
    for recipe in ["Q8_0", "Q4_K_M"] {
        let path = scratch.at(&format!("{recipe}.gguf"));
        convert_to(&trained(), &path, Some(recipe));
        let quantize = Some(recipe.to_owned());
        let loaded = bits(&trained(), &LoadOptions { quantize, ..exact() });
        assert!(bits(&path, &exact()) == loaded, "{recipe}");
        assert!(bits(&path, &LoadOptions { threads: 2, ..exact() }) == loaded, "{recipe} by 2 threads");
    }
}

#[test]
fn keys_and_values_of_fewer_bits_are_nearly_the_same() {
    let golden = golden();
    let right = golden["held_out"]["perplexity"].as_f64().unwrap();
    for (cache, most) in [(DType::F16, 1e-4), (DType::Q8_0, 2e-3)] {
        let have = perplexity(&mut loaded(&trained(), &LoadOptions { cache, ..exact() }), &golden);
        println!("{cache}: {have:.4}");
        assert!(apart(have, right) < most, "{cache}: {have}, not {right}");
    }
}

/// F-LAYOUT-CONTRACT-005: what a model says is text, not padding or one token over and over.
#[test]
fn what_it_says_is_text() {
    let golden = golden();
    let mut loaded = loaded(&trained(), &exact());
    for text in golden["greedy"].as_array().unwrap() {
        loaded.runner.clear().unwrap();
        let prompt = ids(&text["ids"]);
        let beginning = prompt[0];
        let (mut next, mut said) = (prompt, Vec::new());
        for _ in 0..32 {
            let logits = loaded.runner.feed(&next).unwrap();
            let best = (0u32..).zip(logits).max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
            said.push(best);
            next = vec![best];
        }
        // Special tokens, padding among them, come last in this vocabulary.
        assert!(said.iter().all(|id| *id < beginning), "{said:?}");
        let most = said.iter().map(|id| said.iter().filter(|other| *other == id).count()).max().unwrap();
        assert!(most < said.len() / 2, "{said:?}");
    }
}

#[test]
fn kept_images_give_the_same_logits_and_changed_weights_are_not_taken_for_them() {
    let scratch = Scratch::new();
    let prompt = ids(&golden()["logits"]["ids"]);
    let gguf = scratch.at("m.gguf");
    convert_to(&trained(), &gguf, Some("Q8_0"));
    let options = LoadOptions { keep_images: Some(scratch.at("images")), ..exact() };
    let mut first = loaded(&gguf, &options);
    assert!(!first.facts.images_were_kept);
    let want = logits(&mut first, &prompt);
    let mut again = loaded(&gguf, &options);
    assert!(again.facts.images_were_kept);
    assert_eq!(logits(&mut again, &prompt), want);
    // A byte of the last tensor changes.
    let mut bytes = std::fs::read(&gguf).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    std::fs::write(&gguf, bytes).unwrap();
    assert!(!loaded(&gguf, &options).facts.images_were_kept);
}
