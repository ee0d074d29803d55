//! Schemes that are recognised and not unpacked: by what a configuration announces, or by tensors that no other scheme has.
//!
//! Most are codecs of their own, with trained tables or a search behind them, or codes that are arranged for one kernel of one
//! device. Sources: `quantization_config.py` and `integrations/` of transformers 5, exllamav2, exllamav3, quip-sharp, qtip,
//! SqueezeLLM, Marlin, Quark.

use crate::model::{Config, Found, Model};
use crate::scheme::{Scheme, States};
use apr_sdk::{DType, Error, Result};
use serde_json::Value as Json;

/// The scheme that stands for all of these.
pub static SCHEME: Scheme = Scheme { name: "refused", states: States::Config(is_refused), understand };

/// A scheme that is not unpacked.
struct Refused {
    /// Its name.
    name: &'static str,
    /// How configurations announce it.
    methods: &'static [&'static str],
    /// Tensors that only it has: the ending of a name; or that of codes, and of another tensor beside them.
    signs: &'static [(&'static str, &'static str)],
}

/// All of them.
static REFUSED: &[Refused] = &[
    of("EXL2", &["exl2"], &[(".q_invperm", ""), (".q_weight", ".q_scale")]),
    of("EXL3", &["exl3"], &[(".trellis", ".suh"), (".trellis", ".svh"), (".trellis", ".su")]),
    of("QTIP", &["qtip"], &[(".trellis", ".SU")]),
    of("QuIP#", &["quip", "quip_sharp"], &[(".Qidxs", "")]),
    of("AQLM", &["aqlm"], &[(".codes", ".codebooks")]),
    of("VPTQ", &["vptq"], &[(".indices", ".centroids.weight"), (".indices", ".centroids")]),
    of("SpQR", &["spqr"], &[(".dense_weights", ".row_offsets")]),
    of("HIGGS", &["higgs"], &[(".weight", ".tables2")]),
    of("quanto", &["quanto"], &[("._data", "._scale")]),
    of("EETQ", &["eetq"], &[]),
    of("Quark", &["quark"], &[(".weight_quantizer.scale", ""), (".weight_quantizer.zero_point", "")]),
    of("FP-Quant", &["fp_quant"], &[(".qweight", ".weight_global_scale"), (".qweight", ".act_global_scale")]),
    of("QQQ", &["qqq"], &[(".B", ".s_channel")]),
    of("Marlin 2:4", &["marlin_24", "gptq_marlin_24"], &[(".B_24", ".B_meta")]),
    of("Marlin", &["marlin"], &[(".B", ".s")]),
    of("SqueezeLLM", &["squeezellm"], &[(".qweight", ".lookup_table")]),
    of("FBGEMM", &["fbgemm"], &[]),
    of("SINQ", &["sinq"], &[]),
    of("Four Over Six", &["four_over_six", "fouroversix"], &[]),
    of("Metal", &["metal"], &[]),
    of("compressed-tensors with sparse weights", &[], &[(".bitmask", ".compressed")]),
    of("torch.ao", &[], &[("._packed_params.dtype", "")]),
];

const fn of(
    name: &'static str,
    methods: &'static [&'static str],
    signs: &'static [(&'static str, &'static str)],
) -> Refused {
    Refused { name, methods, signs }
}

/// Members of configurations that turn weights, which are turned back while the model runs: compressed-tensors, GPTQModel,
/// AutoRound.
const TURNED: [&str; 3] = ["transform_config", "rotation", "rotation_config"];

/// Whether a member says that something is turned.
fn turns(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => false,
        Json::String(how) => !how.is_empty() && how != "none",
        Json::Array(all) => !all.is_empty(),
        Json::Object(all) => all.get("config_groups").map_or(!all.is_empty(), turns),
        _ => true,
    }
}

fn is_refused(config: &Config<'_>) -> bool {
    REFUSED.iter().any(|refused| config.is_method(refused.methods))
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    for config in &model.configs {
        let is_turned = |key: &&str| config.json.get(key).is_some_and(turns);
        if let Some(key) = TURNED.iter().find(|key| is_turned(key)) {
            let message = format!("weights with a `{key}` cannot be unpacked: they are rotated at run time");
            return Err(Error::unsupported(message).in_file(config.file));
        }
    }
    for refused in REFUSED {
        let is_announced = model.config(refused.methods).is_some();
        let signs = refused.signs.iter().find_map(|(ending, beside)| {
            let mut all = model.ending(ending).filter(|(number, ..)| found.is_free(*number));
            all.find(|(_, tensor, name)| {
                let is_pair =
                    || holds_codes(tensor.dtype) && model.find(&format!("{name}{beside}")).is_some();
                beside.is_empty() || is_pair()
            })
        });
        // An announcement alone is not enough: the weights may be plain.
        let codes =
            || model.tensors().find(|(_, tensor)| tensor.shape.len() > 1 && holds_codes(tensor.dtype));
        let tensor = signs.map(|(_, tensor, _)| tensor);
        let tensor = tensor.or_else(|| if is_announced { codes().map(|(_, tensor)| tensor) } else { None });
        if let Some(tensor) = tensor {
            let message = format!("weights packed by {} cannot be unpacked", refused.name);
            let hint = "convert the model from which it was made, or another quantization of it";
            return Err(Error::unsupported(message).tensor(&tensor.name).hint(hint));
        }
    }
    Ok(())
}

/// Whether a type is one that packed codes have.
fn holds_codes(dtype: DType) -> bool {
    ![DType::F64, DType::F32, DType::F16, DType::BF16, DType::BOOL].contains(&dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{Announced, StoredModel, StoredTensor};

    fn refusal(method: &str, tensors: &[(&str, DType)]) -> Option<String> {
        let tensor = |(name, dtype): &(&str, DType)| StoredTensor {
            name: format!("layers.0.up{name}"),
            dtype: *dtype,
            shape: vec![4, 8],
        };
        let mut stored = StoredModel::default();
        stored.tensors = tensors.iter().map(tensor).collect();
        if !method.is_empty() {
            let json = format!("{{\"quant_method\": \"{method}\"}}");
            stored.announced.push(Announced {
                file: "config.json".into(),
                key: "quantization_config".into(),
                json,
            });
        }
        let model = Model::new(&stored).ok()?;
        let error = understand(&model, &mut Found::new(&model)).err()?;
        assert_eq!(error.kind(), apr_sdk::ErrorKind::Unsupported);
        assert!(error.tensor_name().is_some_and(|name| name.starts_with("layers.0.up")), "it names a tensor");
        Some(error.message().to_owned())
    }

    #[test]
    fn every_scheme_is_refused_by_its_name_when_it_is_announced() {
        for refused in REFUSED {
            for method in refused.methods {
                let message = refusal(method, &[(".weight", DType::I8)]).unwrap_or_default();
                assert!(message.contains(refused.name), "{method}: {message}");
                assert_eq!(refusal(method, &[(".weight", DType::BF16)]), None, "{method} with plain weights");
            }
        }
    }

    #[test]
    fn every_scheme_is_refused_by_its_name_for_its_tensors() {
        for refused in REFUSED {
            for (ending, beside) in refused.signs {
                let tensors = [(*ending, DType::I16), (*beside, DType::F16)];
                let count = if beside.is_empty() { 1 } else { 2 };
                let message = refusal("", &tensors[..count]).unwrap_or_default();
                assert!(
                    message.contains(&format!("packed by {} cannot", refused.name)),
                    "{ending} {beside}: {message}"
                );
            }
        }
    }

    #[test]
    fn plain_models_are_not() {
        assert_eq!(refusal("", &[(".weight", DType::BF16), (".bias", DType::BF16)]), None);
        assert_eq!(refusal("", &[(".B", DType::BF16), (".s", DType::BF16)]), None);
        assert_eq!(refusal("gptq", &[(".qweight", DType::I32), (".scales", DType::F16)]), None);
    }
}
