//! Derived weights: what a reader says of tensors that are only the codes of a weight, where the format itself says how
//! values are computed from them. The host hands it to the schemes of packed weights, which know nothing of the format.
//!
//! ```text
//! value = (code - zero point) * scale
//! ```

use crate::{DType, Error, Result};
use serde_json::{Map, Value as Json, json};

/// The key under which schemes find the description among what announces packed weights ([`crate::Announced`]).
pub const DERIVED: &str = "derived";

/// A reader's description of a model's derived weights, as one fact.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Derived {
    /// The weights.
    pub weights: Vec<DerivedWeight>,
    /// Keys of the reader's own format that say nothing true any more once weights are in the place of their codes.
    pub keys: Vec<String>,
    /// Tensors that no weight depends on, such as scales of what is computed.
    pub unused: Vec<String>,
    /// Codes whose values cannot be computed from what the file says.
    pub unknown: Vec<DerivedUnknown>,
    /// Weights that the tool that packed them described in the file's metadata, in words that only that tool's scheme knows.
    pub stated: Vec<DerivedStated>,
}

/// A file's metadata about a weight, in the words of the tool that packed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DerivedStated {
    /// The weight's name.
    pub name: String,
    /// The description's name for the packing, for messages; empty if it gives none.
    pub by: String,
    /// The description as it stands there; empty if the file names the weight and does not describe it.
    pub json: String,
}

/// Codes of a weight whose values cannot be computed: what needs the weight is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DerivedUnknown {
    /// The tensor of the codes.
    pub codes: String,
    /// The format's operation that reads them, in a few words: `MatMulInteger`.
    pub by: String,
    /// The reason why their values are unknown, as the end of a sentence: `its scales are computed while the model runs`.
    pub why: String,
}

/// Layout of codes in a tensor of bytes, where the format has no type for them: the lowest bits of a byte first, and
/// each row from a byte of its own. Zero points that are bytes lie likewise, each row filled up to a whole byte.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedPacking {
    /// The type of the codes.
    pub codes: DType,
    /// Their shape, whose last dimension is the row.
    pub shape: Vec<u64>,
    /// Codes in a stored row, with those at its end that mean nothing.
    pub stored: u64,
    /// True if the weight has rows and columns of its codes exchanged.
    pub is_transposed: bool,
}

/// The computation of a weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DerivedWeight {
    /// The weight's name.
    pub name: String,
    /// The format's operation that computes it, in a few words: `DequantizeLinear`.
    pub by: String,
    /// The tensor of the codes.
    pub codes: String,
    /// Scales.
    pub scales: DerivedNumbers,
    /// Zero points; `None` if all are zero.
    pub zeros: Option<DerivedNumbers>,
    /// The axis of the codes that scales run along; `None` if there is one scale for all. Negative from the end.
    pub axis: Option<i64>,
    /// Number of codes along the axis that share a scale, whose shape is then that of the codes with the axis divided.
    pub block: Option<u64>,
    /// Tensors that hold nothing but what is said here: their names.
    pub beside: Vec<String>,
    /// Layout of the codes in bytes; `None` if they are the elements of their tensor.
    pub packing: Option<DerivedPacking>,
}

/// Numbers that a weight is computed with.
#[derive(Clone, Debug, PartialEq)]
pub enum DerivedNumbers {
    /// Those of a tensor of the model, of this name.
    Tensor(String),
    /// These.
    Values(Vec<f64>),
}

impl Default for DerivedNumbers {
    fn default() -> DerivedNumbers {
        DerivedNumbers::Values(Vec::new())
    }
}

impl DerivedNumbers {
    /// A number that JSON cannot say is text.
    fn to_json(&self) -> Json {
        let values = match self {
            DerivedNumbers::Tensor(name) => return Json::from(name.as_str()),
            DerivedNumbers::Values(values) => values.iter(),
        };
        let values = values.map(|value| match value.is_finite() {
            true => Json::from(*value),
            false => Json::from(value.to_string()),
        });
        values.collect()
    }

    fn of(json: &Json) -> Option<DerivedNumbers> {
        if let Some(name) = json.as_str() {
            return Some(DerivedNumbers::Tensor(name.to_owned()));
        }
        let values =
            json.as_array()?.iter().map(|json| json.as_f64().or_else(|| json.as_str()?.parse().ok()));
        Some(DerivedNumbers::Values(values.collect::<Option<_>>()?))
    }
}

impl DerivedPacking {
    fn to_json(&self) -> Json {
        json!({
            "codes": self.codes.name(),
            "shape": self.shape,
            "stored": self.stored,
            "is_transposed": self.is_transposed,
        })
    }

    fn of(json: &Json) -> Option<DerivedPacking> {
        Some(DerivedPacking {
            codes: DType::from_name(json.get("codes")?.as_str()?)?,
            shape: json.get("shape")?.as_array()?.iter().map(Json::as_u64).collect::<Option<_>>()?,
            stored: json.get("stored")?.as_u64()?,
            is_transposed: json.get("is_transposed")?.as_bool()?,
        })
    }
}

impl DerivedUnknown {
    fn to_json(&self) -> Json {
        json!({"codes": self.codes, "by": self.by, "why": self.why})
    }

    fn of(json: &Json) -> Option<DerivedUnknown> {
        Some(DerivedUnknown { codes: text(json, "codes")?, by: text(json, "by")?, why: text(json, "why")? })
    }
}

impl DerivedStated {
    fn to_json(&self) -> Json {
        json!({"name": self.name, "by": self.by, "json": self.json})
    }

    fn of(json: &Json) -> Option<DerivedStated> {
        Some(DerivedStated { name: text(json, "name")?, by: text(json, "by")?, json: text(json, "json")? })
    }
}

impl DerivedWeight {
    fn to_json(&self) -> Json {
        let mut map = Map::new();
        map.insert("name".into(), self.name.as_str().into());
        map.insert("by".into(), self.by.as_str().into());
        map.insert("codes".into(), self.codes.as_str().into());
        map.insert("scales".into(), self.scales.to_json());
        if let Some(zeros) = &self.zeros {
            map.insert("zeros".into(), zeros.to_json());
        }
        if let Some(axis) = self.axis {
            map.insert("axis".into(), axis.into());
        }
        if let Some(block) = self.block {
            map.insert("block".into(), block.into());
        }
        if !self.beside.is_empty() {
            map.insert("beside".into(), self.beside.clone().into());
        }
        if let Some(packing) = &self.packing {
            map.insert("packing".into(), packing.to_json());
        }
        Json::Object(map)
    }

    fn of(json: &Json) -> Option<DerivedWeight> {
        Some(DerivedWeight {
            name: text(json, "name")?,
            by: text(json, "by")?,
            codes: text(json, "codes")?,
            scales: DerivedNumbers::of(json.get("scales")?)?,
            zeros: match json.get("zeros") {
                Some(zeros) => Some(DerivedNumbers::of(zeros)?),
                None => None,
            },
            axis: json.get("axis").and_then(Json::as_i64),
            block: json.get("block").and_then(Json::as_u64),
            beside: json.get("beside").map_or(Some(Vec::new()), texts)?,
            packing: match json.get("packing") {
                Some(json) => Some(DerivedPacking::of(json)?),
                None => None,
            },
        })
    }
}

fn text(json: &Json, key: &str) -> Option<String> {
    json.get(key)?.as_str().map(str::to_owned)
}

fn texts(json: &Json) -> Option<Vec<String>> {
    json.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

impl Derived {
    /// The description as JSON, which is how it crosses between plugins.
    pub fn to_json(&self) -> String {
        let weights: Vec<Json> = self.weights.iter().map(DerivedWeight::to_json).collect();
        let unknown: Vec<Json> = self.unknown.iter().map(DerivedUnknown::to_json).collect();
        let stated: Vec<Json> = self.stated.iter().map(DerivedStated::to_json).collect();
        let unused = &self.unused;
        json!({"weights": weights, "keys": self.keys, "unused": unused, "unknown": unknown, "stated": stated})
            .to_string()
    }

    /// Reads the output of [`Derived::to_json`].
    ///
    /// # Errors
    /// Plugin for anything else.
    pub fn from_json(text: &[u8]) -> Result<Derived> {
        let json = serde_json::from_slice::<Json>(text).ok();
        let derived = json.as_ref().and_then(Derived::of);
        derived.ok_or_else(|| Error::plugin("a description of derived weights is invalid"))
    }

    fn of(json: &Json) -> Option<Derived> {
        Some(Derived {
            weights: json.get("weights")?.as_array()?.iter().map(DerivedWeight::of).collect::<Option<_>>()?,
            keys: texts(json.get("keys")?)?,
            unused: texts(json.get("unused")?)?,
            unknown: json
                .get("unknown")?
                .as_array()?
                .iter()
                .map(DerivedUnknown::of)
                .collect::<Option<_>>()?,
            stated: json.get("stated")?.as_array()?.iter().map(DerivedStated::of).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back() {
        let derived = Derived {
            weights: vec![
                DerivedWeight {
                    name: "w".into(),
                    by: "X".into(),
                    codes: "q".into(),
                    scales: DerivedNumbers::Values(vec![0.1, f64::from(0.1f32), f64::INFINITY]),
                    zeros: Some(DerivedNumbers::Tensor("z".into())),
                    axis: Some(-1),
                    block: Some(32),
                    beside: vec!["s".into()],
                    packing: Some(DerivedPacking {
                        codes: DType::U4,
                        shape: vec![3, 40],
                        stored: 48,
                        is_transposed: true,
                    }),
                },
                DerivedWeight::default(),
            ],
            keys: vec!["k".into()],
            unused: vec!["u".into()],
            unknown: vec![DerivedUnknown { codes: "c".into(), by: "Y".into(), why: "w".into() }],
            stated: vec![DerivedStated { name: "m".into(), by: "Z".into(), json: "{}".into() }],
        };
        assert_eq!(Derived::from_json(derived.to_json().as_bytes()).unwrap(), derived);
        for text in [
            "",
            "{}",
            r#"{"weights":[{}],"keys":[]}"#,
            r#"{"weights":[],"keys":[1],"unused":[],"unknown":[],"stated":[]}"#,
            r#"{"weights":[],"keys":[],"unused":[],"unknown":[],"stated":[{"name":"w"}]}"#,
        ] {
            assert!(Derived::from_json(text.as_bytes()).is_err(), "{text}");
        }
    }
}
