//! Writes quantized tensors: the values that the reader placed beside a tensor tell how it is quantized.

use crate::layout::{QSCHEMES, storage_of};
use apr_sdk::{Tensor, Value};

/// How a tensor is quantized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantized {
    /// One scale and zero point.
    PerTensor {
        /// The scheme's name.
        scheme: &'static str,
        /// One scale for the whole tensor.
        scale: f64,
        /// One zero point for the whole tensor.
        zero_point: i64,
    },
    /// One scale and zero point for each index of one axis.
    PerChannel {
        /// The scheme's name.
        scheme: &'static str,
        /// The number of the scales' tensor.
        scales: usize,
        /// The number of the zero points' tensor.
        zero_points: usize,
        /// The axis that the scales and zero points run along.
        axis: i64,
    },
}

impl Quantized {
    /// By the values (by key) and the tensors (by name) beside `tensor`. `None` where they do not say it whole: it is
    /// written as plain integers then, and the values stay values.
    pub fn of<'v>(
        tensor: &Tensor,
        value: impl Fn(&str) -> Option<&'v Value>,
        number: impl Fn(&str) -> Option<usize>,
    ) -> Option<Quantized> {
        storage_of(tensor.dtype, true)?;
        let key = |suffix: &str| format!("{}.{suffix}", tensor.name);
        let scheme = value(&key("q_scheme"))?.as_str()?;
        let scheme = QSCHEMES.into_iter().find(|known| *known == scheme)?;
        let whole = |suffix: &str| value(&key(suffix)).and_then(Value::as_i64);
        if scheme.starts_with("per_tensor") {
            let scale = value(&key("q_scale"))?.as_f64()?;
            return Some(Quantized::PerTensor { scheme, scale, zero_point: whole("q_zero_point")? });
        }
        let [scales, zero_points] = ["q_scales", "q_zero_points"].map(|suffix| number(&key(suffix)));
        Some(Quantized::PerChannel {
            scheme,
            scales: scales?,
            zero_points: zero_points?,
            axis: whole("q_axis")?,
        })
    }
}
