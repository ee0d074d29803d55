//! The engine and every plugin, as functions over linear memory: a page, or a script, hands over files with their names,
//! asks for a conversion in JSON, and takes the output's files.
//!
//! Texts and bytes cross as a pointer and a length. What a call returns stays where it is until the next call.

use apr_engine::Engine;
use apr_engine::convert::Output;
use apr_engine::convert::memory::convert;
use apr_engine::convert::output::{Shards, format};
use apr_engine::open::{Held, Listed};
use apr_engine::place::Backing;
use apr_engine::planned::request::Request;
use apr_engine::registry::{Linked, Origin, Plugin, Registry};
use apr_sdk::{Error, Manifest, PluginDecl, Result};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const PLUGINS: [&PluginDecl; 11] = [
    &apr_plugin_apr::PLUGIN,
    &apr_plugin_architectures::PLUGIN,
    &apr_plugin_ggml_legacy::PLUGIN,
    &apr_plugin_gguf::PLUGIN,
    &apr_plugin_huggingface::PLUGIN,
    &apr_plugin_numpy::PLUGIN,
    &apr_plugin_onnx::PLUGIN,
    &apr_plugin_packed::PLUGIN,
    &apr_plugin_pytorch::PLUGIN,
    &apr_plugin_quants::PLUGIN,
    &apr_plugin_safetensors::PLUGIN,
];

/// The files that were handed over, the last answer, and the files that it speaks of.
#[derive(Default)]
struct State {
    inputs: Listed,
    answer: String,
    outputs: Vec<(String, Vec<u8>)>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn with_state<T>(f: impl FnOnce(&mut State) -> T) -> T {
    f(STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Room for `len` bytes, to be filled and handed to one of the functions below, which take it.
#[unsafe(no_mangle)]
pub extern "C" fn room(len: usize) -> *mut u8 {
    Box::into_raw(vec![0u8; len].into_boxed_slice()).cast()
}

/// Takes back what [`room`] gave.
///
/// # Safety
/// `at` is what `room(len)` returned, and is not used any more.
unsafe fn taken(at: *mut u8, len: usize) -> Box<[u8]> {
    // SAFETY: the caller says that `room` made it, with this length.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, len)) }
}

/// Hands over a file: its name, which may have folders, and its bytes.
///
/// # Safety
/// Both are what [`room`] returned for their lengths, and are not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn put(name: *mut u8, name_len: usize, bytes: *mut u8, bytes_len: usize) {
    // SAFETY: as the caller says.
    let (name, bytes) = unsafe { (taken(name, name_len), taken(bytes, bytes_len)) };
    let name = String::from_utf8_lossy(&name).into_owned();
    let bytes: Arc<dyn Backing> = Arc::new(Held(bytes.into()));
    with_state(|state| state.inputs.files.insert(name, bytes));
}

/// Forgets all files.
#[unsafe(no_mangle)]
pub extern "C" fn clear() {
    with_state(|state| *state = State::default());
}

/// Converts as the JSON says: `{"input": NAME, "output": NAME, "to": FORMAT, "arch": ID}`, the last two optional. The answer
/// is `{"files": [{"name", "at", "len"}], "notes": […], "warnings": […]}`, or `{"error": …}`.
///
/// # Safety
/// It is what [`room`] returned for its length, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn run(request: *mut u8, len: usize) {
    // SAFETY: as the caller says.
    let request = unsafe { taken(request, len) };
    with_state(|state| {
        let answer = converted(state, &request);
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        state.answer = answer.to_string();
    });
}

/// Where the last answer lies.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    with_state(|state| state.answer.as_ptr())
}

/// How long it is.
#[unsafe(no_mangle)]
pub extern "C" fn answer_len() -> usize {
    with_state(|state| state.answer.len())
}

fn converted(state: &mut State, request: &[u8]) -> Result<Json> {
    let asked: Json = serde_json::from_slice(request)
        .map_err(|error| Error::invalid_argument(format!("the request is not JSON: {error}")))?;
    let text = |key: &str| asked.get(key).and_then(Json::as_str).map(str::to_owned);
    let input = text("input").ok_or_else(|| Error::invalid_argument("`input` is missing"))?;
    let name = PathBuf::from(text("output").unwrap_or_else(|| input.clone()));
    let request = Request { input: input.into(), arch: text("arch"), ..Request::default() };
    let mut registry = Registry::new();
    for decl in PLUGINS {
        let manifest = Manifest::parse(decl.manifest)?;
        let state = Ok(Arc::new(Linked(decl)) as _);
        registry.add(Plugin { manifest: Some(manifest), path: None, origin: Origin::Bundled, abi: None, state });
    }
    let engine = Engine::new(registry, Arc::new(state.inputs.clone()));
    let format = format(&engine, text("to").as_deref(), text("output").as_deref().map(Path::new))?;
    let output = Output::unplaced(format, &name, &request.input, Shards::default(), request.foreign)?;
    let converted = convert(&engine, &request, output)?;
    state.outputs = converted.files;
    let file = |(name, bytes): &(String, Vec<u8>)| {
        json!({ "name": name, "at": bytes.as_ptr() as usize, "len": bytes.len() })
    };
    let files: Vec<Json> = state.outputs.iter().map(file).collect();
    Ok(json!({ "files": files, "notes": converted.outcome.notes, "warnings": converted.outcome.warnings }))
}
