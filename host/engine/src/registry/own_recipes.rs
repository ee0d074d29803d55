//! A recipe for each block type that a plugin brings: every matrix of floats becomes blocks of it. A quantizer may offer
//! a better one under the same name.

use apr_sdk::{
    Assignment, BlockType, DType, DTypeKind, Error, ImportanceSink, ModelFacts, Options, Quantizer,
    RecipeDecl, Record, Result, Schemes, Source, TensorFacts, escape,
};
use regex_lite::Regex;
use std::sync::Arc;

/// A quantizer with a recipe for each type that its plugin brings.
pub(super) struct WithOwnRecipes {
    quantizer: Arc<dyn Quantizer>,
    /// The types without a recipe of their own name.
    types: Vec<DType>,
}

impl WithOwnRecipes {
    /// Adds recipes to `quantizer` for those of `brought` that its own recipes do not name.
    ///
    /// # Errors
    /// Any error from the quantizer.
    pub(super) fn wrap(quantizer: Arc<dyn Quantizer>, brought: &[BlockType]) -> Result<Arc<dyn Quantizer>> {
        let own = quantizer.recipes()?;
        let named = brought.iter().map(BlockType::name);
        let without = named.filter(|name| own.iter().all(|recipe| !recipe.name.eq_ignore_ascii_case(name)));
        let types: Vec<DType> = without.filter_map(DType::from_name).collect();
        Ok(if types.is_empty() { quantizer } else { Arc::new(WithOwnRecipes { quantizer, types }) })
    }

    fn type_of(&self, recipe: &str) -> Option<DType> {
        self.types.iter().find(|dtype| dtype.name().eq_ignore_ascii_case(recipe)).copied()
    }
}

impl Quantizer for WithOwnRecipes {
    fn recipes(&self) -> Result<Vec<RecipeDecl>> {
        let mut recipes = self.quantizer.recipes()?;
        recipes.extend(self.types.iter().map(|dtype| RecipeDecl {
            name: dtype.name().to_owned(),
            about: "all matrices in this type".to_owned(),
        }));
        Ok(recipes)
    }

    fn assign(
        &self,
        recipe: &str,
        tensors: &[TensorFacts],
        model: &ModelFacts,
        options: &Options,
    ) -> Result<Vec<Assignment>> {
        let Some(dtype) = self.type_of(recipe) else {
            return self.quantizer.assign(recipe, tensors, model, options);
        };
        let wishes = Wishes::new(dtype, options)?;
        wishes.refuse_unmatched(tensors)?;
        tensors.iter().map(|tensor| wishes.assign(tensor)).collect()
    }

    fn records(&self, recipe: &str) -> Result<Vec<Record>> {
        self.quantizer.records(recipe)
    }

    fn dtypes(&self) -> Result<Vec<DType>> {
        self.quantizer.dtypes()
    }

    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()> {
        self.quantizer.decode(dtype, blocks, row_len, out)
    }

    fn encode(
        &self,
        dtype: DType,
        rows: &[f32],
        row_len: u64,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        self.quantizer.encode(dtype, rows, row_len, importance, out)
    }

    fn repacks(&self) -> Result<Vec<(DType, DType)>> {
        self.quantizer.repacks()
    }

    fn repack(&self, from: DType, to: DType, blocks: &[u8], out: &mut [u8]) -> Result<()> {
        self.quantizer.repack(from, to, blocks, out)
    }

    fn importance(&self, source: &dyn Source, sink: &mut dyn ImportanceSink) -> Result<()> {
        self.quantizer.importance(source, sink)
    }

    fn schemes(&self) -> Option<&dyn Schemes> {
        self.quantizer.schemes()
    }
}

/// The type of the recipe, and the flags that override it.
struct Wishes {
    dtype: DType,
    output: Option<DType>,
    embedding: Option<DType>,
    leaves_output: bool,
    /// The first pattern that is found in a tensor's name counts.
    patterns: Vec<(Regex, DType)>,
}

impl Wishes {
    fn new(dtype: DType, options: &Options) -> Result<Wishes> {
        let mut wishes =
            Wishes { dtype, output: None, embedding: None, leaves_output: false, patterns: Vec::new() };
        for (name, value) in options.iter() {
            match name {
                "pure" => {}
                "leave-output-tensor" => wishes.leaves_output = value == "true",
                "output-tensor-type" => wishes.output = Some(named(name, value)?),
                "token-embedding-type" => wishes.embedding = Some(named(name, value)?),
                "tensor-type" => {
                    let lines = value.lines().filter(|line| !line.trim().is_empty());
                    wishes.patterns = lines.map(|line| pattern(name, line)).collect::<Result<_>>()?;
                }
                other => {
                    let message = format!("unknown recipe option `{}`", escape(other, 80));
                    return Err(Error::invalid_argument(message));
                }
            }
        }
        Ok(wishes)
    }

    fn refuse_unmatched(&self, tensors: &[TensorFacts]) -> Result<()> {
        let unmatched =
            |(pattern, _): &&(Regex, DType)| !tensors.iter().any(|tensor| is_named(tensor, pattern));
        match self.patterns.iter().find(unmatched) {
            Some((pattern, _)) => {
                let message = format!("--tensor-type `{}` matches no tensor", escape(pattern.as_str(), 200));
                Err(Error::invalid_argument(message)
                    .hint("correct it: run `apr tensors IN -q` to list the names, of which a part is enough"))
            }
            None => Ok(()),
        }
    }

    fn assign(&self, tensor: &TensorFacts) -> Result<Assignment> {
        let role = tensor.role.as_deref();
        let info = tensor.dtype.and_then(DType::info);
        let has_floats = info.is_none_or(|info| matches!(info.kind, DTypeKind::Float | DTypeKind::Block));
        let is_matrix = tensor.shape.iter().rev().skip(1).any(|&n| n > 1);
        if !has_floats || !is_matrix || self.leaves_output && role == Some("output") {
            return Ok(Assignment::KEEP);
        }
        let by_role = match role {
            Some("output") => self.output,
            Some("embedding") => self.embedding,
            _ => None,
        };
        let by_pattern = || self.patterns.iter().find(|(pattern, _)| is_named(tensor, pattern));
        let wanted = by_role.or_else(|| by_pattern().map(|(_, dtype)| *dtype));
        let dtype = wanted.unwrap_or(self.dtype);
        let columns = tensor.shape.last().copied().unwrap_or(1);
        let per_block = dtype.info().map_or(1, |info| u64::from(info.block_elements));
        if columns.is_multiple_of(per_block) {
            return Ok(Assignment::to(dtype));
        }
        let why = format!("rows of {columns} are not a multiple of the block size {per_block} of {dtype}");
        match wanted {
            Some(_) => Err(Error::invalid_argument(why)
                .tensor(tensor.name.as_str())
                .hint("choose a type with smaller blocks, such as F16")),
            None => Ok(Assignment::KEEP.with_note(format!("not quantized: {why}"))),
        }
    }
}

/// Whether a pattern is in a name: it may be written for the names of any dialect.
fn is_named(tensor: &TensorFacts, pattern: &Regex) -> bool {
    let mut names = tensor.names.iter().map(|(_, name)| name);
    pattern.is_match(&tensor.name) || names.any(|name| pattern.is_match(name))
}

/// `PATTERN=TYPE`, for names in lower case.
fn pattern(option: &str, line: &str) -> Result<(Regex, DType)> {
    let shown = escape(line, 200);
    let (pattern, dtype) = line.rsplit_once('=').ok_or_else(|| {
        Error::invalid_argument(format!("--{option}: expected PATTERN=TYPE, found `{shown}`"))
    })?;
    let regex = Regex::new(&pattern.to_ascii_lowercase()).map_err(|error| {
        let message =
            format!("--{option}: the pattern of `{shown}` is not a valid regular expression: {error}");
        Error::invalid_argument(message)
    })?;
    Ok((regex, named(option, dtype)?))
}

fn named(option: &str, name: &str) -> Result<DType> {
    let dtype = DType::from_name(&name.trim().to_ascii_uppercase());
    let kind = dtype.and_then(DType::info).map(|info| info.kind);
    match (dtype, kind) {
        (Some(dtype), Some(DTypeKind::Float | DTypeKind::Block)) => Ok(dtype),
        _ => {
            let message = format!("--{option}: no tensor can be written in `{}`", escape(name, 80));
            Err(Error::invalid_argument(message).hint("use a float type such as F16, or a block type"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl Quantizer for Plain {
        fn dtypes(&self) -> Result<Vec<DType>> {
            Ok(Vec::new())
        }
    }

    fn tensor(name: &str, shape: &[u64], dtype: DType) -> TensorFacts {
        let mut facts = TensorFacts::default();
        facts.name = name.to_owned();
        facts.shape = shape.to_vec();
        facts.dtype = Some(dtype);
        facts
    }

    #[test]
    fn matrices_of_floats_become_blocks_unless_a_flag_says_otherwise() {
        let block = BlockType::parse("OWN_RECIPE", "32 18").unwrap();
        let dtype = block.provide().unwrap();
        let quantizer = WithOwnRecipes::wrap(Arc::new(Plain), &[block]).unwrap();
        assert_eq!(quantizer.recipes().unwrap()[0].name, "OWN_RECIPE");
        let mut output = tensor("head", &[2, 64], DType::BF16);
        output.role = Some("output".to_owned());
        let mut first = tensor("first", &[2, 64], DType::F32);
        first.names = vec![("other".to_owned(), "a.weight".to_owned())];
        let tensors = [
            first,
            tensor("a.bias", &[64], DType::F32),
            tensor("ids", &[2, 64], DType::I32),
            tensor("narrow", &[2, 40], DType::F16),
            output,
            tensor("b.weight", &[2, 64], DType::Q4_0),
        ];
        let assign = |options: &Options| {
            let assigned = quantizer.assign("own_recipe", &tensors, &ModelFacts::default(), options)?;
            Ok::<_, Error>(assigned.into_iter().map(|one| one.dtype).collect::<Vec<_>>())
        };
        let [own, keep] = [Some(dtype), None];
        assert_eq!(assign(&Options::new()).unwrap(), [own, keep, keep, keep, own, own]);
        let options = Options::new().with("tensor-type", "^A=q8_0").with("leave-output-tensor", "true");
        assert_eq!(assign(&options).unwrap(), [Some(DType::Q8_0), keep, keep, keep, keep, own]);
        for (option, value) in
            [("tensor-type", "narrow=Q8_0"), ("tensor-type", "a=I8"), ("tensor-type", "[=F16"), ("x", "y")]
        {
            assert!(assign(&Options::new().with(option, value)).is_err(), "{option} {value}");
        }
    }
}
