//! The ten stages of one model.

use super::stage_report::{Checked, Seen};
use super::{Args, text_of};
use crate::cli::context::Context;
use crate::cli::sandbox_worker::{Given, tokens_of};
use crate::cli::verbs::departure::TEXT;
use crate::cli::verbs::running::loading::open_model;
use crate::cli::verbs::running::prompt::{ids_without_pattern, of_text};
use apr_engine::crew::Crew;
use apr_engine::open::OpenedModel;
use apr_engine::progress::Stage;
use apr_host::host::Host;
use apr_host::running::{LoadOptions, Wanted, load_with_values};
use apr_inference::generation::Decoder;
use apr_inference::stages::{RoundTrip, Subject, check};
use apr_inference::tapped::Tapped;
use apr_inference::tokens::Encoding;
use apr_sandbox::Tokens;
use apr_sdk::{Error, Result};

/// Tokens that are run unless the user says how many.
const TOKENS: usize = 64;

/// Loads the model and judges its stages.
///
/// # Errors
/// InvalidArgument for no tokens or too many; what loading and computing raised.
pub(super) fn run(args: &Args, context: &Context) -> Result<Checked> {
    let given_text = text_of(args)?;
    let host = context.host();
    let stage = Stage::new(host.progress.as_ref(), "loading the model");
    let opened = open_model(&args.file, &args.open, &host)?;
    let options = args.model.to_options(host.threads().width(), Wanted::Any)?;
    let options = LoadOptions { taps: true, ..options };
    let tokenizer = Tokenizer::of(&host, &opened, given_text.is_some(), context)?;
    let (mut loaded, values) = load_with_values(&host, &opened, &options)?;
    drop(stage);
    let most = args.tokens.map_or(TOKENS, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let vocabulary = usize::try_from(loaded.facts.vocabulary).unwrap_or(usize::MAX);
    let mut subject = Subject { vocabulary, ..Subject::default() };
    let mut ids = match &tokenizer {
        Tokenizer::Works(tokens) => {
            let text = given_text.as_deref().unwrap_or(TEXT);
            subject.round_trip = Some(round_trip(tokens, text)?);
            subject.tokens = Some(tokens.facts().n_tokens);
            of_text(tokens, text)?
        }
        Tokenizer::Broken(why) => {
            subject.round_trip = Some(RoundTrip::Broken(why.clone()));
            Vec::new()
        }
        Tokenizer::Absent => Vec::new(),
    };
    let has_text = !ids.is_empty();
    // Ids that the model does not know are stage 1's to tell, and cannot run.
    ids.retain(|id| *id < loaded.facts.vocabulary);
    if !has_text && given_text.is_none() {
        ids = ids_without_pattern(u32::try_from(most).unwrap_or(u32::MAX), loaded.facts.vocabulary);
    }
    ids.truncate(most.min(loaded.runner.rows()));
    let stage = Stage::new(host.progress.as_ref(), "checking stages");
    let mut model =
        Tapped::new(&mut loaded.runner, &loaded.built, loaded.device.as_ref(), &loaded.weights, &values);
    let stages = check(&mut model, &ids, &subject, &|| host.check_cancelled())
        .map_err(|error| error.in_file(args.file.display().to_string()))?;
    drop(stage);
    let mut warnings = opened.warnings.clone();
    warnings.extend(loaded.facts.warnings.iter().cloned());
    let seen = Seen { tokens: ids.len(), of_text: has_text };
    Ok(Checked::new(&loaded.facts, stages, seen, warnings))
}

/// The tokenizer of a model.
enum Tokenizer {
    /// It is understood.
    Works(Box<Tokens>),
    /// The model states one that is not, for this reason.
    Broken(String),
    /// The model states none.
    Absent,
}

impl Tokenizer {
    /// Reads a model's tokenizer. Without one, a text cannot be run.
    fn of(host: &Host, opened: &OpenedModel, has_text: bool, context: &Context) -> Result<Tokenizer> {
        // A tokenizer that is stated and cannot be read is no tokenizer that is missing.
        let is_stated = !matches!(opened.tokenizer(host), Ok(None));
        match Given::of(host, opened).and_then(|given| tokens_of(given, host, opened, context)) {
            Ok(tokens) => Ok(Tokenizer::Works(Box::new(tokens))),
            Err(error) if has_text => Err(error),
            Err(error) if is_stated => Ok(Tokenizer::Broken(error.message().to_owned())),
            Err(_) => Ok(Tokenizer::Absent),
        }
    }
}

/// The tokens of a text, the text that they stand for, and its tokens.
fn round_trip(tokens: &Tokens, text: &str) -> Result<RoundTrip> {
    let plainly = Encoding { add_special: false, plain: false };
    let ids = tokens.encode(text, plainly)?;
    if ids.is_empty() {
        return Err(Error::invalid_argument("the text has no tokens").hint("specify a longer text"));
    }
    let text = tokens.decode(&ids, false)?;
    let again = tokens.encode(&text, plainly)?;
    Ok(RoundTrip::Done { ids, text, again })
}
