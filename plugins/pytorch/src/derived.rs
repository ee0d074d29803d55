//! What torch's quantized tensors stand for: the values beside them, described so that schemes unpack them.
//!
//! Source: `_rebuild_qtensor` in `torch/_utils.py` of PyTorch 2.15.

use apr_sdk::{Derived, DerivedNumbers, DerivedWeight, Value};
use std::collections::{HashMap, HashSet};

/// What such tensors are called.
const BY: &str = "torch quantized";

/// Describes the tensors among `names` that have `values` beside them; `None` if there are none.
pub fn describe(names: &HashSet<&str>, values: &[(String, Value)]) -> Option<Derived> {
    let by_key: HashMap<&str, &Value> = values.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let mut derived = Derived::default();
    for (key, scheme) in values {
        let Some(name) = key.strip_suffix(".q_scheme").filter(|name| names.contains(name)) else { continue };
        let beside = |suffix: &str| format!("{name}.{suffix}");
        let value = |suffix: &str| by_key.get(beside(suffix).as_str()).copied();
        let whole = |suffix: &str| value(suffix).and_then(Value::as_i64);
        let mut weight = DerivedWeight {
            name: name.to_owned(),
            by: BY.to_owned(),
            codes: name.to_owned(),
            ..DerivedWeight::default()
        };
        if scheme.as_str().is_some_and(|scheme| scheme.starts_with("per_tensor")) {
            let scale = value("q_scale").and_then(Value::as_f64);
            weight.scales = DerivedNumbers::Values(scale.into_iter().collect());
            #[allow(clippy::cast_precision_loss, reason = "what F64 does not hold is no code, and refused")]
            let zero = whole("q_zero_point").map(|zero| zero as f64);
            weight.zeros = Some(DerivedNumbers::Values(zero.into_iter().collect()));
        } else {
            weight.scales = DerivedNumbers::Tensor(beside("q_scales"));
            weight.zeros = Some(DerivedNumbers::Tensor(beside("q_zero_points")));
            weight.axis = Some(whole("q_axis").unwrap_or(0));
        }
        let keys = ["q_scheme", "q_scale", "q_zero_point", "q_axis"].map(beside);
        derived.keys.extend(keys.into_iter().filter(|key| by_key.contains_key(key.as_str())));
        derived.weights.push(weight);
    }
    (!derived.weights.is_empty()).then_some(derived)
}
