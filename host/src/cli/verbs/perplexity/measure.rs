//! Measures a loaded model, window by window.

use super::report::{Measured, Text};
use crate::cli::verbs::running::signs::explained;
use apr_engine::hints;
use apr_host::destination::output_file::OutputFile;
use apr_host::host::Host;
use apr_host::running::Loaded;
use apr_inference::perplexity::base::{Base, Header};
use apr_inference::perplexity::{Divergence, Judge, Likelihood, Recorder, Spike, Windows, score, scored};
use apr_sdk::{Error, ErrorKind, Result};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Tokens of a window, unless the user says otherwise, or the model was trained with fewer.
pub const WINDOW: u32 = 512;

/// Mean divergence and share of equal choices beyond which a base is hardly of the same vocabulary: a model that
/// guesses is 5 nats from most others, and finds the same token the most probable for one of hundreds.
const STRANGE_DIVERGENCE: f64 = 5.0;
const STRANGE_SHARE: f64 = 0.02;

/// Refuses another window than that of a base.
///
/// # Errors
/// InvalidArgument.
pub fn check_window(given: Option<u32>, of_base: u32) -> Result<()> {
    match given {
        Some(given) if given != of_base => {
            let message = format!("the base file has windows of {of_base} tokens, not {given}");
            Err(Error::invalid_argument(message)
                .hint(format!("remove --context, or pass --context {of_base}")))
        }
        _ => Ok(()),
    }
}

/// A measurement of a model.
pub struct Measurement<'a> {
    /// The host.
    pub host: &'a Host,
    /// The model's path.
    pub model: &'a Path,
    /// The text's name.
    pub text: Option<&'a str>,
    /// The token that begins every text.
    pub first: Option<u32>,
    /// Windows at most.
    pub most: Option<usize>,
}

impl Measurement<'_> {
    /// The perplexity of a text; writes a base file if there is one to write.
    ///
    /// # Errors
    /// As [`Windows::new`] and [`score`]; Io.
    pub fn measure(
        &self,
        loaded: &mut Loaded,
        ids: Vec<u32>,
        output: Option<OutputFile>,
    ) -> Result<Measured> {
        let size = usize::try_from(loaded.runner.context()).unwrap_or(usize::MAX);
        let windows = Windows::new(ids, size, self.first, self.most).map_err(|error| match self.text {
            Some(name) => error.in_file(name),
            None => error,
        })?;
        let began = Instant::now();
        let mut curve = Vec::new();
        let Some(output) = output else {
            let mut likelihood = Likelihood::default();
            for (number, window) in windows.iter().enumerate() {
                self.window(loaded, &window, number, windows.len(), &mut likelihood)?;
                curve.push(likelihood.perplexity().mean);
            }
            let mut measured = self.report(loaded, &windows, began).with_likelihood(&likelihood, curve);
            measured.warnings.extend(likelihood.spike().map(told));
            return Ok(measured);
        };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let header = Header {
            window: loaded.runner.context(),
            vocabulary: number(loaded.runner.width()),
            windows: number(windows.len()),
        };
        let mut staged = output.create()?;
        let shown = staged.file.clone();
        let mut give = |bytes: &[u8]| staged.write_all(bytes).map_err(|error| shown.failed(&error));
        give(&header.to_bytes(windows.ids())?)?;
        let mut recorder = Recorder::new(&mut give);
        for (number, window) in windows.iter().enumerate() {
            self.window(loaded, &window, number, windows.len(), &mut recorder)?;
            curve.push(recorder.likelihood.perplexity().mean);
        }
        let likelihood = recorder.likelihood;
        staged.finish()?;
        let report = self.report(loaded, &windows, began).with_likelihood(&likelihood, curve);
        Ok(report.with_base_file(header.file_len()))
    }

    /// The distance from a base. If a text is given, it must be the base's.
    ///
    /// # Errors
    /// InvalidArgument for a base of another vocabulary or text; as [`score`].
    pub fn compare(&self, loaded: &mut Loaded, base: Base<'_>, ids: Option<&[u32]>) -> Result<Measured> {
        let vocabulary = loaded.runner.width();
        if usize::try_from(base.header.vocabulary) != Ok(vocabulary) {
            let message = format!(
                "the base file is of a model with another vocabulary: it has {} tokens, this model has {vocabulary}",
                base.header.vocabulary
            );
            let hint = "write a base file of this model's original with `apr perplexity MODEL TEXT --save-base FILE`";
            return Err(Error::invalid_argument(message).hint(hint));
        }
        if let Some(ids) = ids {
            check_text(ids, &base.ids)?;
        }
        let size = usize::try_from(base.header.window).unwrap_or(usize::MAX);
        let windows = Windows::of_whole(base.ids.clone(), size, self.first, self.most);
        let began = Instant::now();
        let mut divergence = Divergence::new(base);
        let mut curve = Vec::new();
        for (number, window) in windows.iter().enumerate() {
            self.window(loaded, &window, number, windows.len(), &mut divergence)?;
            curve.push(divergence.perplexity().mean);
        }
        let figures = divergence.figures();
        let mut measured = self.report(loaded, &windows, began).with_figures(&figures, curve);
        if figures.divergence.mean > STRANGE_DIVERGENCE && figures.same_top.mean < STRANGE_SHARE {
            let text = "the model and the base agree almost nowhere: the base file is probably of a model \
                        with another tokenizer; pass the text too, and its tokens are compared";
            measured.warnings.push(text.to_owned());
        }
        Ok(measured)
    }

    /// Measures one window.
    fn window(
        &self,
        loaded: &mut Loaded,
        ids: &[u32],
        number: usize,
        count: usize,
        judge: &mut dyn Judge,
    ) -> Result<()> {
        self.host.check_cancelled()?;
        self.host.progress.stage(Some(&format!("window {} of {count}", number + 1)));
        let scored = score(&mut loaded.runner, self.host.crew.as_ref(), ids, judge);
        self.host.progress.stage(None);
        scored.map_err(|error| {
            // Any other error is no fault of what was computed, and may be one of the base file.
            if error.kind() != ErrorKind::Failed {
                return error;
            }
            let message = format!("window {}: {}", number + 1, error.message());
            explained(error.with_message(message), self.model).in_file(self.model.display().to_string())
        })
    }

    fn report(&self, loaded: &Loaded, windows: &Windows, began: Instant) -> Measured {
        let text = Text {
            name: self.text.map(str::to_owned),
            window: windows.size(),
            windows: windows.len(),
            tokens: windows.ids().len(),
            scored: windows.len() * scored(windows.size()),
        };
        Measured::new(&loaded.facts, text, began.elapsed())
    }
}

/// A spike in words.
fn told(spike: Spike) -> String {
    hints::SPIKE.told(&format!(
        "the model foretells {} tokens of the text, from judged token {} on, much worse than the rest: {:.2} nats, where \
         the median is {:.2}: look at that part of the text, such as its language and encoding",
        spike.tokens,
        spike.first + 1,
        spike.loss,
        spike.median
    ))
}

/// Refuses a text that is not the base's; the base may be of its beginning.
fn check_text(ids: &[u32], of_base: &[u32]) -> Result<()> {
    let Some(at) = (0..of_base.len()).find(|at| ids.get(*at) != of_base.get(*at)) else { return Ok(()) };
    let here = ids.get(at).map_or("nothing".to_owned(), |id| id.to_string());
    let message = format!(
        "the base file is of another text or another tokenizer: its token {at} is {}, here it is {here}",
        of_base[at]
    );
    Err(Error::invalid_argument(message).hint("remove the text to use the base file's own tokens"))
}
