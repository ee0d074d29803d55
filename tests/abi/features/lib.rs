//! A plugin of one format for each thing that can cross the interface: the id says which. What its quantizer fails at is in
//! a token, which the tests change in each copy of the library. The tests build it by itself, outside of the workspace.

use apr_sdk::*;

mod reading;
mod writing;

apr_sdk::export_plugin! {
    id: features,
    manifest: "
        formats=extent view blocks sequential part crc32 crc32_hex crc32c_masked sha256 digests asks_sha256 fills_crc32c encoded fails_dtypes panics_dtypes
        extent.roles=read
        view.roles=read
        blocks.roles=read
        sequential.roles=read
        part.roles=read
        crc32.roles=read
        crc32_hex.roles=read
        crc32c_masked.roles=read
        sha256.roles=read
        digests.roles=write
        asks_sha256.roles=write
        fills_crc32c.roles=write
        encoded.roles=write
        fails_dtypes.roles=write
        panics_dtypes.roles=write
        quantizers=features_quant
    ",
    reader: |format| Some(Box::new(reading::Feature::of(format))),
    writer: |format| Some(Box::new(writing::Feature::of(format))),
    quantizer: || Some(Box::new(Quant)),
}

#[used]
static TOKEN: [u8; 20] = *b"rogue-token-00000000";

/// What the quantizer is to fail at, and whether by a panic.
fn wrong() -> (String, bool) {
    let token: String = std::hint::black_box(&TOKEN).iter().map(|byte| char::from(*byte)).collect();
    let rest = token["rogue-token-".len()..].trim_end_matches('0').to_owned();
    match rest.strip_suffix('!') {
        Some(what) => (what.to_owned(), true),
        None => (rest, false),
    }
}

/// Gives an answer, unless this is what fails.
fn unless<T>(what: &str, answer: T) -> Result<T> {
    let (wrong, by_panic) = wrong();
    if wrong != what {
        return Ok(answer);
    }
    assert!(!by_panic, "{what} panics");
    Err(Error::plugin(format!("cannot say its {what}")).hint("try another"))
}

/// Knows one type and one recipe.
struct Quant;

impl Quantizer for Quant {
    fn dtypes(&self) -> Result<Vec<DType>> {
        unless("dtypes", vec![DType::Q8_1])
    }

    fn decode(&self, _: DType, _: &[u8], _: u64, out: &mut [f32]) -> Result<()> {
        out.fill(1.0);
        Ok(())
    }

    fn encode(&self, _: DType, _: &[f32], _: u64, _: Option<&[f32]>, out: &mut [u8]) -> Result<()> {
        out.fill(2);
        Ok(())
    }

    fn repacks(&self) -> Result<Vec<(DType, DType)>> {
        unless("repacks", vec![(DType::Q8_1, DType::Q8_0)])
    }

    fn recipes(&self) -> Result<Vec<RecipeDecl>> {
        let recipe = RecipeDecl { name: "FEATURES".to_owned(), about: "one type for all".to_owned() };
        unless("recipes", vec![recipe])
    }

    fn assign(
        &self,
        _: &str,
        tensors: &[TensorFacts],
        _: &ModelFacts,
        _: &Options,
    ) -> Result<Vec<Assignment>> {
        Ok(vec![Assignment::KEEP; tensors.len()])
    }

    fn records(&self, recipe: &str) -> Result<Vec<Record>> {
        unless("records", vec![("safetensors".to_owned(), "recipe".to_owned(), Value::from_string(recipe))])
    }

    fn importance(&self, _: &dyn Source, _: &mut dyn ImportanceSink) -> Result<()> {
        Err(Error::unsupported("no importance matrix"))
    }
}
