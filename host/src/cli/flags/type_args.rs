//! The flags that say which types weights get.

use apr_engine::planned::quantization::{Quantization, SizeTarget};
use apr_host::sizes::parse_size;
use apr_host::storage::small_file::read_text;
use apr_sdk::{DType, DTypeKind, Error, Result, escape};
use std::path::{Path, PathBuf};

/// The flags that say which types weights get.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Weight types")]
#[group(skip)]
pub struct TypeArgs {
    /// Quantize to RECIPE (Q4_K_M, Q8_0, ..., or llama-quantize's number for it), choosing each tensor's type as
    /// llama-quantize does; int8 and int4 write rows of integers with a scale each, to .apr only; several write one
    /// output each: Q4_K_M,Q8_0
    #[arg(long, value_name = "RECIPE", group = "choosing")]
    quantize: Option<String>,
    /// Convert all float tensors to TYPE: f32, f16, bf16, f64, f8_e4m3 or f8_e5m2
    #[arg(long, value_name = "TYPE", value_parser = parse_float, conflicts_with = "choosing")]
    precision: Option<DType>,
    /// Output type, as in llama.cpp's converter: f32, f16, bf16, q8_0, or auto for the input's type
    #[arg(long, value_name = "TYPE", value_parser = parse_outtype, conflicts_with_all = ["choosing", "precision"], hide = true)]
    outtype: Option<OutType>,
    /// Dequantize all quantized tensors to TYPE: f32, f16 or bf16
    #[arg(long, value_name = "TYPE", value_parser = parse_float, conflicts_with = "choosing")]
    dequantize: Option<DType>,
    /// Leave already quantized tensors unchanged
    #[arg(long, requires = "choosing")]
    keep_quantization: bool,
    /// Allow requantizing already quantized tensors, which loses more quality than quantizing the original
    #[arg(long, requires = "choosing")]
    allow_requantize: bool,
    /// Importance matrix from llama-imatrix (GGUF or .dat)
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Use the importance matrix only for tensors whose names contain TEXT; may be repeated
    #[arg(long, value_name = "TEXT", requires = "imatrix", conflicts_with = "exclude_weights")]
    include_weights: Vec<String>,
    /// Ignore the importance matrix for tensors whose names contain TEXT; may be repeated
    #[arg(long, value_name = "TEXT", requires = "imatrix")]
    exclude_weights: Vec<String>,
    /// Override the type of tensors whose GGUF names match the regex PATTERN; may be repeated
    #[arg(long, value_name = "PATTERN=TYPE", requires = "choosing", value_parser = parse_tensor_type)]
    tensor_type: Vec<String>,
    /// Use TYPE for the output tensor
    #[arg(long, value_name = "TYPE", requires = "choosing")]
    output_tensor_type: Option<String>,
    /// Leave the output tensor unquantized
    #[arg(long, requires = "choosing", conflicts_with = "output_tensor_type")]
    leave_output_tensor: bool,
    /// Use TYPE for the token embedding
    #[arg(long, value_name = "TYPE", requires = "choosing")]
    token_embedding_type: Option<String>,
    /// Quantize all tensors to the recipe's base type
    #[arg(long, requires = "choosing")]
    pure: bool,
    /// Read the recipe from a TOML file: base, pure, output-tensor-type, token-embedding-type, and `[[tensor]]` tables
    #[arg(long, value_name = "FILE", group = "choosing")]
    recipe: Option<PathBuf>,
    /// Give each tensor the type that its counterpart has in the model FILE
    #[arg(
        long,
        value_name = "FILE",
        group = "choosing",
        conflicts_with_all = ["tensor_type", "output_tensor_type", "leave_output_tensor", "token_embedding_type", "pure"]
    )]
    recipe_from: Option<PathBuf>,
    /// Choose the largest recipe whose weights take at most SIZE bytes: 4G, 3500M
    #[arg(long, value_name = "SIZE", value_parser = parse_size, group = "choosing")]
    target_size: Option<u64>,
    /// Choose the largest recipe that takes at most BITS bits per weight: 4.5
    #[arg(long, value_name = "BITS", value_parser = parse_bits, group = "choosing")]
    target_bpw: Option<f64>,
    /// Write each tensor's quantization error to FILE, as JSON
    #[arg(long, value_name = "FILE", requires = "choosing")]
    pub report: Option<PathBuf>,
}

/// The request of `--outtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutType {
    /// The target's usual type.
    Auto,
    /// Floats.
    Float(DType),
    /// A recipe.
    Recipe(&'static str),
}

impl TypeArgs {
    /// The recipes of `--quantize`: an output for each.
    pub fn recipes(&self) -> Vec<String> {
        let recipes = self.quantize.iter().flat_map(|recipes| recipes.split(','));
        recipes.map(|recipe| recipe.trim().to_owned()).collect()
    }

    /// The files that are read for it.
    pub fn reads(&self) -> impl Iterator<Item = &PathBuf> {
        self.recipe.iter().chain(&self.recipe_from).chain(&self.imatrix)
    }

    /// The quantization asked for.
    ///
    /// # Errors
    /// Those of reading the file of `--recipe`.
    pub fn wishes(&self) -> Result<Quantization> {
        let mut wishes = match &self.recipe {
            Some(path) => read_recipe(path)?,
            None => Quantization::default(),
        };
        let mut tensors: Vec<&str> = self.tensor_type.iter().map(String::as_str).collect();
        let before = wishes.options.get("tensor-type").unwrap_or_default().to_owned();
        // What stands on the command line goes before what stands in the file: the first that matches counts.
        tensors.extend(before.lines());
        if !tensors.is_empty() {
            wishes.options.set("tensor-type", tensors.join("\n"));
        }
        for (name, value) in [
            ("output-tensor-type", &self.output_tensor_type),
            ("token-embedding-type", &self.token_embedding_type),
        ] {
            if let Some(value) = value {
                wishes.options.set(name, value);
            }
        }
        for (name, is_set) in [("pure", self.pure), ("leave-output-tensor", self.leave_output_tensor)] {
            if is_set {
                wishes.options.set(name, "true");
            }
        }
        let size = self.target_size.map(SizeTarget::Bytes);
        let (floats, recipe) = match self.outtype {
            Some(OutType::Float(dtype)) => (Some(dtype), None),
            Some(OutType::Recipe(name)) => (None, Some(name.to_owned())),
            Some(OutType::Auto) | None => (None, None),
        };
        if recipe.is_some() && self.dequantize.is_some() {
            return Err(Error::invalid_argument(
                "--outtype with a quantized type and --dequantize cannot be used together",
            ));
        }
        Ok(Quantization {
            recipe: self.quantize.clone().or(wishes.recipe).or(recipe),
            recipe_from: self.recipe_from.clone(),
            keep_impossible: false,
            precision: self.precision.or(floats),
            repack: floats.is_some(),
            dequantize: self.dequantize,
            keep_quantization: self.keep_quantization,
            allow_requantize: self.allow_requantize,
            importance: self.imatrix.clone(),
            include_weights: self.include_weights.clone(),
            exclude_weights: self.exclude_weights.clone(),
            target: size.or(self.target_bpw.map(SizeTarget::BitsPerWeight)),
            options: wishes.options,
        })
    }
}

/// A recipe as a TOML file: `base` (a recipe's name), `pure`, `output-tensor-type`, `token-embedding-type`, and any number
/// of `[[tensor]]` with `pattern` and `type`, of which the first that matches counts.
fn read_recipe(path: &Path) -> Result<Quantization> {
    let shown = path.display().to_string();
    let text = read_text(path)?;
    recipe(&text).map_err(|message| {
        Error::invalid_argument(message).in_file(shown).hint(
            "write base = \"Q4_K_M\" and, where needed, [[tensor]] with pattern = \"...\" and type = \"Q6_K\"",
        )
    })
}

fn recipe(text: &str) -> std::result::Result<Quantization, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let mut wishes = Quantization::default();
    for (key, value) in &table {
        match key.as_str() {
            "base" => wishes.recipe = Some(string(key, value)?.to_owned()),
            "output-tensor-type" | "token-embedding-type" => wishes.options.set(key, string(key, value)?),
            "pure" => {
                let pure = value.as_bool().ok_or("`pure` must be true or false")?;
                wishes.options.set("pure", pure.to_string());
            }
            "tensor" => {
                let rules = value.as_array().ok_or("`tensor` must be a list of tables")?;
                let rules: Vec<String> =
                    rules.iter().map(tensor_rule).collect::<std::result::Result<_, _>>()?;
                wishes.options.set("tensor-type", rules.join("\n"));
            }
            other => return Err(format!("unknown key `{}`", escape(other, 80))),
        }
    }
    match wishes.recipe {
        Some(_) => Ok(wishes),
        None => Err("missing key `base`, the recipe to start from".to_owned()),
    }
}

fn string<'v>(key: &str, value: &'v toml::Value) -> std::result::Result<&'v str, String> {
    value.as_str().ok_or_else(|| format!("`{key}` must be a string"))
}

fn tensor_rule(rule: &toml::Value) -> std::result::Result<String, String> {
    let known =
        rule.as_table().filter(|table| table.keys().all(|key| ["pattern", "type"].contains(&key.as_str())));
    let [pattern, dtype] =
        ["pattern", "type"].map(|key| known.and_then(|table| table.get(key)).and_then(toml::Value::as_str));
    match (pattern, dtype) {
        (Some(pattern), Some(dtype)) => parse_tensor_type(&format!("{pattern}={dtype}")),
        _ => Err("a [[tensor]] table must have exactly `pattern` and `type`".to_owned()),
    }
}

fn parse_tensor_type(text: &str) -> std::result::Result<String, String> {
    match text.rsplit_once('=') {
        Some((pattern, dtype)) if !pattern.is_empty() && !dtype.is_empty() && !text.contains('\n') => {
            Ok(text.to_owned())
        }
        _ => Err("expected PATTERN=TYPE, such as attn_v=Q6_K".to_owned()),
    }
}

/// A scalar float type by its name, in any case; `fp16` and the like are the names of PyTorch's users.
fn parse_float(text: &str) -> std::result::Result<DType, String> {
    let upper = text.to_ascii_uppercase();
    let name = match upper.as_str() {
        "FP16" | "HALF" => "F16",
        "FP32" | "FLOAT" => "F32",
        "FP64" | "DOUBLE" => "F64",
        "BFLOAT16" => "BF16",
        other => other,
    };
    match DType::from_name(name).map(|dtype| (dtype, dtype.info())) {
        Some((dtype, Some(info))) if info.kind == DTypeKind::Float && info.block_elements == 1 => Ok(dtype),
        _ => {
            Err("expected f32, f16, bf16, f64, f8_e4m3 or f8_e5m2; use --quantize for block types".to_owned())
        }
    }
}

/// Parses a type by its name in llama.cpp's converter.
fn parse_outtype(text: &str) -> std::result::Result<OutType, String> {
    match text.to_ascii_lowercase().as_str() {
        "auto" => Ok(OutType::Auto),
        "q8_0" => Ok(OutType::Recipe("Q8_0")),
        _ => parse_float(text).map(OutType::Float).map_err(|_| {
            "expected f32, f16, bf16, q8_0 or auto; use --quantize for other block types".to_owned()
        }),
    }
}

fn parse_bits(text: &str) -> std::result::Result<f64, String> {
    let bits = text.parse::<f64>().ok().filter(|bits| bits.is_finite() && *bits > 0.0);
    bits.ok_or_else(|| "expected a number greater than 0, such as 4.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_several_names() {
        assert_eq!(parse_float("fp16"), Ok(DType::F16));
        assert_eq!(parse_float("BF16"), Ok(DType::BF16));
        assert_eq!(parse_float("f8_e4m3"), Ok(DType::F8_E4M3));
        for bad in ["q4_k", "i8", "f4_e2m1", ""] {
            assert!(parse_float(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_converters_types_are_floats_a_recipe_or_left_to_it() {
        assert_eq!(parse_outtype("auto"), Ok(OutType::Auto));
        assert_eq!(parse_outtype("q8_0"), Ok(OutType::Recipe("Q8_0")));
        assert_eq!(parse_outtype("bf16"), Ok(OutType::Float(DType::BF16)));
        assert!(parse_outtype("q4_k_m").is_err_and(|message| message.contains("--quantize")));
    }

    #[test]
    fn patterns_may_have_equals_signs() {
        assert!(parse_tensor_type("a=b=Q4_K").is_ok());
        for bad in ["a", "=Q4_K", "a=", "a\n=Q4_K"] {
            assert!(parse_tensor_type(bad).is_err(), "{bad}");
        }
        assert!(parse_bits("4.5").is_ok() && parse_bits("-1").is_err() && parse_bits("inf").is_err());
    }
}
