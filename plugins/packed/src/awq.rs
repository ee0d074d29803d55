//! AWQ: what AutoAWQ writes, and AutoRound in that form.
//!
//! | version | `X.qweight` | `X.qzeros` | `X.scales` |
//! | --- | --- | --- | --- |
//! | gemm | I32 `[in, out / 8]`: the codes of eight rows in the order 0, 2, 4, 6, 1, 3, 5, 7 | I32 `[groups, out / 8]` | F16 `[groups, out]` |
//! | gemv | I32 `[out, in / 8]` | I32 `[out, words]`, padded | F16 `[out, words * 8]`, padded |
//!
//! | gemv_fast, llm-awq | I16 `[out / 4, in]`: four rows interleaved | F16 `[padded groups, out]`: -zero point * scale; or `X.scaled_zeros` | F16 `[padded groups, out]` |
//!
//! weight `[out, in]` = (code - zero point) * scale, in four bits; in the last version code * scale + what is stored.
//!
//! Source: `utils/packing_utils.py` and `modules/linear/` of AutoAWQ 0.2.

use crate::affine::{self, Groups};
use crate::agreement::{self, Statement};
use crate::gptq::{AUTO_ROUND, needed};
use crate::model::{Config, Found, Model, matrices};
use crate::scheme::{Scheme, States};
use crate::words::{Codes, Grid, Zeros};
use apr_sdk::{DType, Error, PackedTensor, Result, StoredTensor};

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "AWQ", states: States::Config(is_ours), understand };

/// Versions that are known. The second and third are kernels for what lies as in the first.
const VERSIONS: [&str; 6] = ["gemm", "exllama", "ipex", "gemv", "gemv_fast", "llm-awq"];

/// The keys of the width of codes.
const BITS: [&str; 2] = ["bits", "w_bit"];

/// The keys of the length of groups.
const GROUP_SIZE: [&str; 2] = ["group_size", "q_group_size"];

/// Types of scales.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// AutoAWQ's own file names no method, but what no other has.
pub fn is_ours(config: &Config<'_>) -> bool {
    let form = config.text("packing_format").or(config.text("backend"));
    let is_round = config.is_method(&AUTO_ROUND) && form.is_some_and(|form| form.contains("awq"));
    let is_own = config.text("quant_method").is_none() && config.number("w_bit").is_some();
    config.is_method(&["awq"]) || is_round || is_own
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let configs = || model.configs.iter().filter(|config| is_ours(config));
    let config = configs().next();
    for config in configs() {
        check(config)?;
    }
    let versions = configs().filter(|config| !config.is_method(&AUTO_ROUND)).filter_map(stated_version);
    agreement::same(versions, |version| arrangement(&version.value))?;
    let mut is_any = false;
    for (number, codes, module) in model.ending(".qweight") {
        let is_fast = codes.dtype == DType::I16 && config.is_some();
        if !(codes.dtype == DType::I32 || is_fast) || !found.is_free(number) {
            continue;
        }
        if let Some(version) = config.filter(|config| !config.is_method(&AUTO_ROUND)).map(version)
            && !VERSIONS.contains(&version.as_str())
        {
            let message =
                format!("unsupported AWQ version `{version}`: expected one of {}", VERSIONS.join(", "));
            return Err(Error::unsupported(message).tensor(&codes.name));
        }
        let weight = match config {
            Some(config) if is_fast => interleaved(model, (number, module), config)?,
            _ => weight(model, (number, module), config)?,
        };
        found.add(model, weight)?;
        is_any = true;
    }
    if config.is_some() {
        found.lost_beside_words(model)?;
    }
    if is_any && config.is_none() {
        found.note("no configuration states the packing scheme: AWQ is assumed from names and shapes");
    }
    Ok(())
}

/// Fails for settings that no version has.
fn check(config: &Config<'_>) -> Result<()> {
    config.group_size(&GROUP_SIZE)?;
    let other = BITS.into_iter().find(|key| config.number(key).is_some_and(|bits| bits != 4));
    other.map_or(Ok(()), |key| Err(config.wrong(key, "is not 4")))
}

/// The version: under its older key, which comes first where both are there (`AwqConfig` of transformers), its newer one, or by
/// the name of the package that packed it.
fn version(config: &Config<'_>) -> String {
    stated_version(config).map_or_else(|| "gemm".to_owned(), |version| version.value)
}

fn stated_version<'m>(config: &'m Config<'m>) -> Option<Statement<'m>> {
    let key = match config.text("backend") {
        Some("llm-awq") => "backend",
        _ => ["version", "format"].into_iter().find(|key| config.text(key).is_some())?,
    };
    let value = config.text(key)?.to_ascii_lowercase();
    Some(Statement { config, key, value })
}

/// The version that names the arrangement of codes which another one shares.
fn arrangement(version: &str) -> String {
    let first = match version {
        "exllama" | "ipex" => "gemm",
        "llm-awq" => "gemv_fast",
        other => other,
    };
    first.to_owned()
}

/// How many columns share a scale, as the configuration states it.
fn group_of(config: &Config<'_>) -> Option<u64> {
    config.group_size(&GROUP_SIZE).ok().flatten()
}

/// Groups as they are stored in the versions for vectors: filled up to whole words of zero points, and to more of them where
/// groups are short (`calculate_zeros_width`).
fn padded(row_len: u64, group: u64) -> Option<u64> {
    let step = match group {
        128.. => 8,
        64 => 16,
        32 => 32,
        _ => return None,
    };
    row_len.is_multiple_of(group).then(|| (row_len / group).next_multiple_of(step))
}

/// The length of groups of which so many are stored, filled up: as it is stated, which is 128 where a configuration does not
/// say it; without a configuration the only one that fits.
fn padded_group(row_len: u64, stored: u64, config: Option<&Config<'_>>) -> Option<u64> {
    const USUAL: u64 = 128;
    let fits = |group: &u64| padded(row_len, *group) == Some(stored);
    let Some(config) = config else {
        let mut all = [128, 64, 32].into_iter().filter(fits);
        return all.next().filter(|_| all.next().is_none());
    };
    let is_whole = config.number("group_size").or(config.number("q_group_size")) == Some(-1);
    let stated = if is_whole { row_len } else { group_of(config).unwrap_or(USUAL) };
    Some(stated).filter(fits)
}

/// What is wrong where no length of groups fits.
fn no_group(stored: u64, row_len: u64) -> String {
    format!("{stored} padded groups do not match rows of {row_len} for any known group size")
}

/// A weight whose rows are interleaved by four.
fn interleaved(
    model: &Model<'_>,
    (number, module): (usize, &str),
    config: &Config<'_>,
) -> Result<PackedTensor> {
    let codes = model.tensor(number);
    let of = (number, module);
    let scales_at = needed(model, of, "scales")?;
    let zeros_at = match model.find(&format!("{module}.scaled_zeros")) {
        Some(at) => at,
        None => needed(model, of, "qzeros")?,
    };
    let (scales, zeros) = (model.tensor(scales_at), model.tensor(zeros_at));
    let wrong = |what: String| Error::malformed(what).tensor(&codes.name);
    let (stacked, fourth, row_len) = matrices(codes)?;
    let rows = fourth * 4;
    if stacked != 1 || rows == 0 || row_len == 0 || !row_len.is_multiple_of(affine::COLUMNS) {
        return Err(wrong(format!("its shape {:?} does not match rows interleaved by four", codes.shape)));
    }
    let stored = scales.shape.first().copied().unwrap_or(0);
    let group = padded_group(row_len, stored, Some(config))
        .ok_or_else(|| Error::malformed(no_group(stored, row_len)).tensor(&scales.name))?;
    let fits = |tensor: &StoredTensor| match tensor.shape[..] {
        [groups, of_rows] => (groups, of_rows) == (stored, rows) && FLOATS.contains(&tensor.dtype),
        _ => false,
    };
    if let Some(bad) = [scales, zeros].into_iter().find(|tensor| !fits(tensor)) {
        let message = format!(
            "it is {:?} of {}, which does not match {rows} rows of {row_len} in groups of {group}",
            bad.shape, bad.dtype
        );
        return Err(Error::malformed(message).tensor(&bad.name));
    }
    let layout = Groups {
        bits: 4,
        unit: 2,
        group,
        scales: (scales.dtype, zeros.dtype),
        is_signed: false,
        is_transposed: true,
        is_interleaved: true,
        rows,
        row_len,
    };
    let parts = [(number, "codes"), (scales_at, "scales"), (zeros_at, "scaled zero points")];
    Ok(PackedTensor {
        name: format!("{module}.weight"),
        shape: vec![rows, row_len],
        strides: Vec::new(),
        dtype: model.dtype(scales.dtype),
        about: format!("AWQ, 4 bits, groups of {group}, rows interleaved by four"),
        exact: layout.exact(),
        panel: 4,
        rows: layout.packed(),
        parts: parts.into_iter().map(|(part, what)| (part, what.to_owned())).collect(),
    })
}

fn weight(
    model: &Model<'_>,
    (number, module): (usize, &str),
    config: Option<&Config<'_>>,
) -> Result<PackedTensor> {
    let wrong = |number: usize, what: String| Error::malformed(what).tensor(&model.tensor(number).name);
    let of = (number, module);
    let version = config.map(version).unwrap_or_default();
    if ["gemv_fast", "llm-awq"].contains(&version.as_str()) {
        let message = format!("AWQ version `{version}` does not have codes of type I32");
        return Err(Error::unsupported(message).tensor(&model.tensor(number).name));
    }
    let (scales_at, zeros_at) = (needed(model, of, "scales")?, needed(model, of, "qzeros")?);
    let (codes, scales, zeros) = (model.tensor(number), model.tensor(scales_at), model.tensor(zeros_at));
    let ([a, b], [c, d], [e, f]) = (&codes.shape[..], &scales.shape[..], &zeros.shape[..]) else {
        return Err(wrong(number, "its codes, scales or zero points are not a matrix".to_owned()));
    };
    let (a, b, c, d, e, f) = (*a, *b, *c, *d, *e, *f);
    let stated = config.and_then(group_of);
    let is_rows = version == "gemv" || (config.is_none() && d != b.saturating_mul(8) && c == a);
    let (rows, row_len) = if is_rows { (a, b.saturating_mul(8)) } else { (b.saturating_mul(8), a) };
    if rows == 0 || row_len == 0 {
        return Err(wrong(number, format!("its shape {:?} cannot hold codes", codes.shape)));
    }
    let stored = if is_rows { d } else { c };
    let group = match is_rows {
        true => padded_group(row_len, stored, config)
            .ok_or_else(|| wrong(scales_at, no_group(stored, row_len)))?,
        false => stated.unwrap_or_else(|| row_len.div_ceil(stored.max(1))),
    };
    let n_groups = row_len.div_ceil(group);
    let fits = match is_rows {
        // Rows of scales and of zero points are padded.
        true => c == rows && e == rows && f.checked_mul(8) == Some(d),
        false => d == rows && f == b && c == n_groups && e == n_groups && row_len.is_multiple_of(group),
    };
    if !fits || zeros.dtype != DType::I32 {
        let message = format!(
            "its shape {:?}, or {:?} of its zero points, does not match {rows} rows of {row_len} in groups \
             of {group}",
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
        matrix_rows: rows,
        rows,
        row_len,
    };
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
