//! `apr run --ids`: a prompt and an answer in ids, for models without a tokenizer.

use apr_engine::hints;
use apr_inference::generation::Decoder;
use apr_sdk::{Error, Result};

/// The decoder of ids into a list: a comma stands before each id but the prompt's first.
pub struct Ids;

impl Decoder for Ids {
    fn knows(&self, _: u32) -> bool {
        true
    }

    fn decode(&self, ids: &[u32], _: bool) -> Result<String> {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        Ok(ids.join(","))
    }
}

/// Refuses ids that the model does not have.
///
/// # Errors
/// InvalidArgument, naming the first of them.
pub fn check(ids: &[u32], vocabulary: u32) -> Result<()> {
    match ids.iter().find(|id| **id >= vocabulary) {
        None => Ok(()),
        Some(id) => Err(Error::invalid_argument(
            hints::VOCABULARY.told(&format!("the model has no token {id}: its vocabulary has {vocabulary}")),
        )
        .hint("specify ids from 0 to the vocabulary's last")),
    }
}
