//! The table that llama-bench prints.

use super::Benched;
use apr_host::running::Facts;
use apr_sdk::escape;
use serde::Serialize;
use std::fmt;

/// Facts about the model.
#[derive(Clone, Debug, Serialize)]
pub struct Model {
    /// Its architecture.
    pub name: String,
    #[serde(rename = "type")]
    dtype: String,
    bytes: u64,
    parameters: u64,
    bytes_per_token: u64,
}

impl Model {
    /// That of a loaded model.
    pub fn of(facts: &Facts) -> Model {
        Model {
            name: facts.architecture.clone(),
            dtype: facts.dtype.to_string(),
            bytes: facts.bytes,
            parameters: facts.parameters,
            bytes_per_token: facts.bytes_per_token,
        }
    }

    /// Its architecture, size and type.
    pub fn title(&self) -> String {
        format!("{} {} {}", escape(&self.name, 40), rounded(self.parameters), self.dtype)
    }

    /// Operations for a token: a multiplication and an addition for each weight that is read.
    pub fn operations(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let [parameters, read, all] = [self.parameters, self.bytes_per_token, self.bytes].map(|n| n as f64);
        if all > 0.0 { 2.0 * parameters * read / all } else { 0.0 }
    }

    /// Bytes of weights that are read for a token.
    pub fn bytes_read(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let bytes = self.bytes_per_token as f64;
        bytes
    }
}

/// `1.5B`, `360M`, `3.4M`.
fn rounded(parameters: u64) -> String {
    let (unit, name) = match parameters {
        999_500_000.. => (1_000_000_000, "B"),
        999_500.. => (1_000_000, "M"),
        _ => return format!("{:.0}K", f64::from(u32::try_from(parameters).unwrap_or(0)) / 1e3),
    };
    match (parameters + unit / 20) / (unit / 10) {
        tenths @ ..100 => format!("{}.{}{name}", tenths / 10, tenths % 10),
        tenths => format!("{}{name}", (tenths + 5) / 10),
    }
}

/// `762.81 MiB`, as llama-bench shows sizes.
fn size(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let bytes = bytes as f64;
    let mib = bytes / 1024f64.powi(2);
    let gib = bytes / 1024f64.powi(3);
    if gib >= 1.0 { format!("{gib:.2} GiB") } else { format!("{mib:.2} MiB") }
}

/// `1.24 B`.
fn parameters(count: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let count = count as f64;
    if count >= 1e9 { format!("{:.2} B", count / 1e9) } else { format!("{:.2} M", count / 1e6) }
}

/// Writes the table, and what bounds an answer.
pub fn write(f: &mut fmt::Formatter<'_>, benched: &Benched) -> fmt::Result {
    let model = &benched.model;
    let title = model.title();
    let width = title.chars().count().max(30);
    writeln!(
        f,
        "| {:width$} | {:>10} | {:>10} | {:10} | {:>7} | {:>15} | {:>20} |",
        "model", "size", "params", "backend", "threads", "test", "t/s"
    )?;
    writeln!(
        f,
        "| {} | ---------: | ---------: | ---------- | ------: | --------------: | -------------------: |",
        "-".repeat(width)
    )?;
    let size = size(model.bytes);
    let parameters = parameters(model.parameters);
    for test in &benched.tests {
        let rate = format!("{:.2} ± {:.2}", test.tokens_per_second, test.deviation);
        writeln!(
            f,
            "| {title:width$} | {size:>10} | {parameters:>10} | {:10} | {:>7} | {:>15} | {rate:>20} |",
            escape(&benched.backend, 40),
            benched.threads,
            test.test
        )?;
    }
    for test in &benched.tests {
        let Some(bytes) = test.bytes_per_second else { continue };
        write!(f, "\n{} reads {:.2} GB/s of weights", test.test, bytes / 1e9)?;
        match (test.share, benched.floor_bytes_per_second) {
            (Some(share), Some(floor)) => {
                writeln!(f, ": {:.0} % of the memory bandwidth, {:.2} GB/s", share * 100.0, floor / 1e9)?
            }
            _ => writeln!(f)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_llama_bench() {
        assert_eq!(
            (size(799_862_784), size(4_920_000_000)),
            ("762.81 MiB".to_owned(), "4.58 GiB".to_owned())
        );
        assert_eq!(
            (parameters(1_240_000_000), parameters(3_400_000)),
            ("1.24 B".to_owned(), "3.40 M".to_owned())
        );
        let all = [1_543_714_304, 8_030_261_248, 361_821_120, 3_412_224, 70_553_706_496].map(rounded);
        assert_eq!(all, ["1.5B", "8.0B", "362M", "3.4M", "71B"]);
    }
}
