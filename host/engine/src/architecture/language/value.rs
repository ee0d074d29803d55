//! Scalars of the language, and the typed values of files that they stand for.

use crate::architecture::language::expression::Scalar;
use apr_sdk::{Value, ValueType};

/// A typed value as a scalar; `None` if it is still in a file, or text that is not UTF-8.
pub fn from_value(value: &Value) -> Option<Scalar> {
    let held = value.bytes.inline()?;
    if value.kind == ValueType::ARRAY {
        return value.items().iter().map(from_value).collect::<Option<_>>().map(Scalar::List);
    }
    Some(match value.kind {
        ValueType::BOOL => Scalar::Bool(value.as_bool()?),
        ValueType::STRING => Scalar::Text(value.as_str()?.to_owned()),
        // The shortest decimal for this float: what people wrote.
        ValueType::F32 => Scalar::Float(value.as_f32()?.to_string().parse().ok()?),
        ValueType::F64 => Scalar::Float(value.as_f64()?),
        ValueType::U8 => Scalar::Int(value.as_u8()?.into()),
        ValueType::I8 => Scalar::Int(value.as_i8()?.into()),
        ValueType::U16 => Scalar::Int(value.as_u16()?.into()),
        ValueType::I16 => Scalar::Int(value.as_i16()?.into()),
        ValueType::U32 => Scalar::Int(value.as_u32()?.into()),
        ValueType::I32 => Scalar::Int(value.as_i32()?.into()),
        ValueType::U64 => Scalar::Int(value.as_u64()?.try_into().ok()?),
        ValueType::I64 => Scalar::Int(i64::from_le_bytes(held.try_into().ok()?)),
        _ => return None,
    })
}

/// A scalar as a typed value, of the requested type or otherwise its natural one.
pub fn typed(value: &Scalar, kind: Option<(ValueType, bool)>) -> Option<Value> {
    match (value, kind) {
        (Scalar::List(items), Some((of, true))) => {
            let mut bytes = Vec::new();
            for item in items {
                bytes.extend_from_slice(typed(item, Some((of, false)))?.bytes.inline()?);
            }
            Some(Value::from_items(of, items.len() as u64, &bytes))
        }
        (one, Some((_, true))) => typed(&Scalar::List(vec![one.clone()]), kind),
        (Scalar::List(items), None) => {
            let of = match items.first() {
                Some(Scalar::Int(_)) => ValueType::I64,
                Some(Scalar::Float(_)) => ValueType::F64,
                Some(Scalar::Bool(_)) => ValueType::BOOL,
                // As readers have a list of nothing.
                Some(Scalar::Text(_)) | None => ValueType::STRING,
                Some(Scalar::List(_)) => return None,
            };
            typed(value, Some((of, true)))
        }
        // A list with one value for all layers is not a number, even if one is requested.
        (Scalar::List(_), Some((_, false))) => None,
        (Scalar::Bool(truth), None | Some((ValueType::BOOL, _))) => Some(Value::from_bool(*truth)),
        (Scalar::Text(text), None | Some((ValueType::STRING, _))) => Some(Value::from_string(text)),
        (Scalar::Float(x), None | Some((ValueType::F64, _))) => Some(Value::from_f64(*x)),
        #[allow(clippy::cast_possible_truncation, reason = "the file's type is F32")]
        (Scalar::Float(x), Some((ValueType::F32, _))) => {
            let narrow = *x as f32;
            let is_lost = x.is_finite() && !narrow.is_finite() || narrow == 0.0 && *x != 0.0;
            (!is_lost).then(|| Value::from_f32(narrow))
        }
        // A float without fraction counts as an integer.
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the float is whole, and sizes are far below 2^53"
        )]
        (Scalar::Float(x), Some(_)) if x.fract() == 0.0 && x.abs() < 9e15 => {
            typed(&Scalar::Int(*x as i64), kind)
        }
        (Scalar::Int(n), None | Some((ValueType::I64, _))) => Some(Value::from_i64(*n)),
        (Scalar::Int(n), Some((of, _))) => match of {
            ValueType::U8 => Some(Value::from_u8(u8::try_from(*n).ok()?)),
            ValueType::I8 => Some(Value::from_i8(i8::try_from(*n).ok()?)),
            ValueType::U16 => Some(Value::from_u16(u16::try_from(*n).ok()?)),
            ValueType::I16 => Some(Value::from_i16(i16::try_from(*n).ok()?)),
            ValueType::U32 => Some(Value::from_u32(u32::try_from(*n).ok()?)),
            ValueType::I32 => Some(Value::from_i32(i32::try_from(*n).ok()?)),
            ValueType::U64 => Some(Value::from_u64(u64::try_from(*n).ok()?)),
            ValueType::F32 | ValueType::F64 => {
                typed(&Scalar::Float(n.to_string().parse().ok()?), Some((of, false)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A value with its floats rounded to F32.
#[allow(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub(in crate::architecture) fn narrowed(value: &Scalar) -> Scalar {
    match value {
        Scalar::Float(x) => Scalar::Float((*x as f32).into()),
        Scalar::List(items) => Scalar::List(items.iter().map(narrowed).collect()),
        other => other.clone(),
    }
}

/// Returns whether a list stands for JSON null, which states nothing.
pub fn is_null(value: &Scalar) -> bool {
    matches!(value, Scalar::List(items) if matches!(&items[..], [Scalar::Text(text)] if text == "null"))
}

/// Returns whether a value stands for JSON null.
pub(in crate::architecture) fn says_null(value: &Value) -> bool {
    value.kind == ValueType::ARRAY && from_value(value).is_some_and(|value| is_null(&value))
}
