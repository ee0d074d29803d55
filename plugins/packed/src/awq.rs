//! AWQ: what AutoAWQ writes, and AutoRound in that form.
//!
//! | version | `X.qweight` | `X.qzeros` | `X.scales` |
//! | --- | --- | --- | --- |
//! | gemm | I32 `[in, out / 8]`: the codes of eight rows in the order 0, 2, 4, 6, 1, 3, 5, 7 | I32 `[groups, out / 8]` | F16 `[groups, out]` |
//! | gemv | I32 `[out, in / 8]` | I32 `[out, words]`, padded | F16 `[out, words * 8]`, padded |
//!
//! weight `[out, in]` = (code - zero point) * scale, in four bits.
//!
//! Source: `utils/packing_utils.py` and `modules/linear/` of AutoAWQ 0.2.

use crate::gptq::needed;
use crate::model::{Config, Found, Model};
use crate::scheme::Scheme;
use crate::words::{Codes, Grid, Zeros};
use apr_sdk::{DType, Error, PackedTensor, Result};

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "AWQ", understand };

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let is_round =
        |config: &&Config<'_>| config.text("packing_format").is_some_and(|form| form.contains("awq"));
    let config =
        model.config(&["awq"]).or_else(|| model.config(&["auto-round", "intel/auto-round"]).filter(is_round));
    if let Some(config) = config {
        if config.number("bits").or(config.number("w_bit")).is_some_and(|bits| bits != 4) {
            return Err(config.wrong("bits", "is not 4"));
        }
        if config.text("version").is_some_and(|version| version.eq_ignore_ascii_case("gemv_fast")) {
            let message = "AWQ in its version `gemv_fast` cannot be unpacked";
            return Err(Error::unsupported(message).in_file(config.file));
        }
    }
    let mut is_any = false;
    for (number, codes, module) in model.ending(".qweight") {
        if codes.dtype != DType::I32 || !found.is_free(number) {
            continue;
        }
        let weight = weight(model, (number, module), config)?;
        found.add(model, weight)?;
        is_any = true;
    }
    if is_any && config.is_none() {
        found.note("no configuration says how weights are packed: as AWQ, as names and shapes tell");
    }
    Ok(())
}

fn weight(
    model: &Model<'_>,
    (number, module): (usize, &str),
    config: Option<&Config<'_>>,
) -> Result<PackedTensor> {
    let wrong = |number: usize, what: String| Error::malformed(what).tensor(&model.tensor(number).name);
    let of = (number, module);
    let (scales_at, zeros_at) = (needed(model, of, "scales")?, needed(model, of, "qzeros")?);
    let (codes, scales, zeros) = (model.tensor(number), model.tensor(scales_at), model.tensor(zeros_at));
    let ([a, b], [c, d], [e, f]) = (&codes.shape[..], &scales.shape[..], &zeros.shape[..]) else {
        return Err(wrong(number, "its codes, scales or zero points are no matrix".to_owned()));
    };
    let (a, b, c, d, e, f) = (*a, *b, *c, *d, *e, *f);
    let stated = config.and_then(|config| config.number("group_size").or(config.number("q_group_size")));
    let stated = stated.and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0);
    let is_rows =
        config.and_then(|config| config.text("version")).is_some_and(|of| of.eq_ignore_ascii_case("gemv"))
            || (config.is_none() && d != b.saturating_mul(8) && c == a);
    let (rows, row_len) = if is_rows { (a, b.saturating_mul(8)) } else { (b.saturating_mul(8), a) };
    if rows == 0 || row_len == 0 {
        return Err(wrong(number, format!("its shape {:?} holds no codes", codes.shape)));
    }
    let stored = if is_rows { d } else { c };
    let group = stated.unwrap_or_else(|| row_len.div_ceil(stored.max(1)));
    let n_groups = row_len.div_ceil(group);
    let fits = match is_rows {
        // Rows of scales and of zero points are padded.
        true => c == rows && e == rows && d >= n_groups && f.saturating_mul(8) >= n_groups,
        false => d == rows && f == b && c == n_groups && e == n_groups,
    };
    if !fits || zeros.dtype != DType::I32 {
        let message = format!(
            "its shape {:?}, or {:?} of its zero points, does not fit {rows} rows of {row_len} in groups of {group}",
            scales.shape, zeros.shape
        );
        return Err(wrong(scales_at, message));
    }
    let grid = Grid {
        bits: 4,
        codes: if is_rows { Codes::Rows } else { Codes::Eights },
        zeros: if is_rows { Zeros::Groups } else { Zeros::Eights },
        scales: scales.dtype,
        group,
        groups: if is_rows { d } else { n_groups },
        zero_words: if is_rows { f } else { 0 },
        has_index: false,
        is_one: false,
        rows,
        row_len,
    };
    if is_rows && d > f.saturating_mul(8) {
        return Err(wrong(zeros_at, "it has fewer zero points than there are scales".to_owned()));
    }
    let parts = [(number, "codes"), (scales_at, "scales"), (zeros_at, "zero points")];
    Ok(PackedTensor {
        name: format!("{module}.weight"),
        shape: vec![rows, row_len],
        strides: Vec::new(),
        dtype: model.dtype(scales.dtype),
        about: format!("AWQ, 4 bits, groups of {group}"),
        exact: grid.exact(),
        panel: grid.panel(),
        rows: grid.packed(),
        parts: parts.into_iter().map(|(part, what)| (part, what.to_owned())).collect(),
    })
}
