//! ComfyUI: each packed layer says itself how it is packed, as JSON in a tensor or in the metadata of the file.
//!
//! ```text
//! X.comfy_quant    U8, JSON: {"format": "nvfp4", ...}; or the same under "layers" in `_quantization_metadata`, by X
//! X.weight         the codes
//!
//! float8_e4m3fn, float8_e5m2   FP8 [.., in]         X.weight_scale floats, one or [out, 1]
//! int8_tensorwise              I8 [.., in]          likewise
//! mxfp8                        E4M3 [out, in]       X.weight_scale E8M0 (or its bytes), for 32 columns each, in tiles of 128 by 4
//! nvfp4                        U8 [out, in / 2], the upper bits first
//!                                                   X.weight_scale E4M3 (or its bytes), for 16 columns each, in such tiles;
//!                                                   X.weight_scale_2, one; X.pre_quant_scale [in], factors of columns
//!
//! scaled_fp8       in older files: each X.weight in FP8 has X.scale_weight, one
//! ```
//!
//! Scales in tiles have the shape of the matrix that the tiles fill, so that with 128 rows and 4 columns they look like scales in rows.
//! Codes are filled up to multiples of 16 or 32 rows and columns, and nothing says by how many but the length of a bias.
//!
//! Sources: `_load_quantized_module` in `comfy/ops.py` and `convert_old_quants` in `comfy/utils.py` of ComfyUI; `tensor/` and
//! `backends/eager/quantization.py` of comfy-kitchen 0.2.40.

mod layer;
mod older;

use crate::model::{Config, Found, Model};
use crate::scheme::{Scheme, States};
use apr_sdk::{DType, Error, Result};
use layer::Layer;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The scheme.
pub static SCHEME: Scheme =
    Scheme { name: "ComfyUI", states: States::Said { config: is_ours, marks: &[MARK] }, understand };

/// The ending of the tensor that says how a layer is packed.
const MARK: &str = ".comfy_quant";

/// The key of a file's metadata that says it for all layers.
const METADATA: &str = "_quantization_metadata";

/// What a tensor is called that says it.
const IS_MARK: &str = "how the weight is packed";

/// Endings of scales of activations.
const UNUSED: [&str; 2] = [".input_scale", ".scale_input"];

fn is_ours(config: &Config<'_>) -> bool {
    config.key == METADATA
}

/// A layer as it is stated: what says so, and what it says.
struct Stated {
    /// The tensor that says it, if one does.
    mark: Option<usize>,
    json: Json,
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let Some(layers) = layers(model, found)? else { return Ok(()) };
    let is_older = older::understand(model, found)?;
    if layers.is_empty() && !is_older {
        return Ok(());
    }
    for (name, stated) in &layers {
        let Some(number) = model.find(&format!("{name}.weight")) else {
            if let Some(mark) = stated.mark {
                let message = format!("its codes are missing: expected `{name}.weight`");
                return Err(Error::malformed(message).tensor(&model.tensor(mark).name));
            }
            continue;
        };
        let layer = Layer { model, name, number, codes: model.tensor(number), said: &stated.json };
        layer.add_to(found)?;
        if let Some(mark) = stated.mark {
            found.unused(model, mark, IS_MARK)?;
        }
    }
    refuse_unstated(model, found, !layers.is_empty())?;
    for ending in UNUSED {
        for (number, ..) in model.ending(ending) {
            if found.is_free(number) {
                found.unused(model, number, "a scale of activations")?;
            }
        }
    }
    Ok(())
}

/// What is stated, by the names of layers; `None` while contents are asked for.
fn layers(model: &Model<'_>, found: &mut Found) -> Result<Option<BTreeMap<String, Stated>>> {
    let mut layers: BTreeMap<String, Stated> = BTreeMap::new();
    for config in model.configs.iter().filter(|config| is_ours(config)) {
        let of = config.json.get("layers").and_then(Json::as_object);
        let of = of.ok_or_else(|| config.wrong("layers", "is missing or not an object"))?;
        for (name, json) in of {
            // Shards may each describe the whole model.
            let before = layers.insert(name.clone(), Stated { mark: None, json: json.clone() });
            if before.is_some_and(|before| before.json != *json) {
                return Err(config.wrong(&format!("layers.{name}"), "differs between files"));
            }
        }
    }
    let mut is_read = true;
    for (number, tensor, name) in model.ending(MARK) {
        let Some(bytes) = found.contents(model, number) else {
            is_read = false;
            continue;
        };
        let json: Json = match tensor.dtype {
            DType::U8 => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
            other => Err(format!("its type is {other}")),
        }
        .map_err(|what| Error::malformed(format!("it must contain JSON: {what}")).tensor(&tensor.name))?;
        match layers.get_mut(name) {
            Some(stated) if stated.json != json => {
                let message =
                    format!("it states {json}, but `{METADATA}` of the file states {}", stated.json);
                return Err(Error::malformed(message).tensor(&tensor.name));
            }
            Some(stated) => stated.mark = Some(number),
            None => drop(layers.insert(name.to_owned(), Stated { mark: Some(number), json })),
        }
    }
    Ok(is_read.then_some(layers))
}

/// Fails for codes with scales of which nothing is stated, where it is of others.
fn refuse_unstated(model: &Model<'_>, found: &Found, is_stated: bool) -> Result<()> {
    for (number, scales, name) in model.ending(".weight_scale").filter(|_| is_stated) {
        let codes = model.find(&format!("{name}.weight")).filter(|codes| found.is_free(*codes));
        if found.is_free(number) && codes.is_some() {
            let message = format!(
                "it scales `{name}.weight`, whose packing is not described, although `comfy_quant` or \
                 `{METADATA}` describes that of others"
            );
            return Err(Error::unsupported(message).tensor(&scales.name));
        }
    }
    Ok(())
}
