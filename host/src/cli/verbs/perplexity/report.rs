//! The output of `apr perplexity`.

use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::kernels::rows::aligned;
use apr_engine::wording::n_of;
use apr_host::running::Facts;
use apr_host::sizes::show_size;
use apr_inference::perplexity::{Estimate, Figures, Likelihood, Percentiles};
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::time::Duration;

/// The figures. JSON: `architecture`, `type`, `backend`, `device`; `text` (`name`, null if the base file alone says the
/// tokens; `tokens`, `window` and `windows`; `scored`, the number of tokens that were judged); `loss` (the mean of −ln p,
/// in nats) and `perplexity`, each `mean` and `error` (the standard error that the spread of the text implies);
/// `by_window`, the perplexity of all windows up to each; `seconds`, `tokens_per_second`; `base_bytes` of the file
/// that --save-base wrote; and with --kl-base `base`: `perplexity`, `correlation` of both logarithms, `log_ratio`, `ratio`
/// and `difference` of the perplexities, `divergence` (nats), `probability` (the change of the right token's) and
/// `rms_probability`, `same_top` (a share), each `mean` and `error`; `divergences` and `probabilities`, each `min`, `p0.1`,
/// `p1`, `p5`, `p10`, `p25`, `median`, `p75`, `p90`, `p95`, `p99`, `p99.9` and `max`. A figure that is not finite is null.
#[derive(Debug, Serialize)]
pub struct Measured {
    architecture: String,
    #[serde(rename = "type")]
    dtype: String,
    backend: String,
    device: String,
    text: Text,
    loss: Shown,
    perplexity: Shown,
    by_window: Vec<f64>,
    seconds: f64,
    tokens_per_second: f64,
    base_bytes: Option<u64>,
    base: Option<Distance>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The text that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Text {
    /// Its name.
    pub name: Option<String>,
    /// Tokens in windows.
    pub tokens: usize,
    /// Tokens of a window.
    pub window: usize,
    /// Number of windows.
    pub windows: usize,
    /// Number of tokens that were judged.
    pub scored: usize,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Shown {
    mean: f64,
    error: f64,
}

impl From<Estimate> for Shown {
    fn from(estimate: Estimate) -> Shown {
        Shown { mean: estimate.mean, error: estimate.error }
    }
}

/// The distance from a base.
#[derive(Debug, Serialize)]
struct Distance {
    perplexity: Shown,
    correlation: Option<f64>,
    log_ratio: Shown,
    ratio: Shown,
    difference: Shown,
    divergence: Shown,
    divergences: Spread,
    probability: Shown,
    probabilities: Spread,
    rms_probability: Shown,
    same_top: Shown,
}

/// Percentiles that are shown, each with its name.
const SHARES: [(&str, f64); 13] = [
    ("max", 1.0),
    ("p99.9", 0.999),
    ("p99", 0.99),
    ("p95", 0.95),
    ("p90", 0.9),
    ("p75", 0.75),
    ("median", 0.5),
    ("p25", 0.25),
    ("p10", 0.1),
    ("p5", 0.05),
    ("p1", 0.01),
    ("p0.1", 0.001),
    ("min", 0.0),
];

/// Percentiles, in the order of [`SHARES`].
#[derive(Debug)]
struct Spread([f64; SHARES.len()]);

impl Spread {
    fn of(values: &Percentiles) -> Spread {
        Spread(SHARES.map(|(_, share)| values.at(share).unwrap_or(f64::NAN)))
    }
}

impl Serialize for Spread {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(SHARES.iter().zip(&self.0).map(|((name, _), value)| (name, value)))
    }
}

impl Measured {
    /// The report of a model and a text, without figures yet.
    pub fn new(facts: &Facts, text: Text, time: Duration) -> Measured {
        let seconds = time.as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let tokens = text.tokens as f64;
        Measured {
            architecture: facts.architecture.clone(),
            dtype: facts.dtype.to_string(),
            backend: facts.backend.clone(),
            device: facts.device.clone(),
            text,
            loss: Shown::default(),
            perplexity: Shown::default(),
            by_window: Vec::new(),
            seconds,
            tokens_per_second: tokens / seconds,
            base_bytes: None,
            base: None,
            warnings: Vec::new(),
        }
    }

    /// The same with a perplexity.
    #[must_use]
    pub fn with_likelihood(self, likelihood: &Likelihood, by_window: Vec<f64>) -> Measured {
        let (loss, perplexity) = (likelihood.loss().into(), likelihood.perplexity().into());
        Measured { loss, perplexity, by_window, ..self }
    }

    /// The same after a base file of so many bytes was written.
    #[must_use]
    pub fn with_base_file(self, bytes: u64) -> Measured {
        Measured { base_bytes: Some(bytes), ..self }
    }

    /// The same with the distance from a base.
    #[must_use]
    pub fn with_figures(self, figures: &Figures, by_window: Vec<f64>) -> Measured {
        let perplexity = figures.perplexity;
        let loss = Shown { mean: perplexity.mean.ln(), error: perplexity.error / perplexity.mean };
        let base = Distance {
            perplexity: figures.base.into(),
            correlation: figures.correlation,
            log_ratio: figures.log_ratio.into(),
            ratio: figures.ratio.into(),
            difference: figures.difference.into(),
            divergence: figures.divergence.into(),
            divergences: Spread::of(&figures.divergences),
            probability: figures.probability.into(),
            probabilities: Spread::of(&figures.probabilities),
            rms_probability: figures.root_mean_square.into(),
            same_top: figures.same_top.into(),
        };
        Measured { loss, perplexity: perplexity.into(), by_window, base: Some(base), ..self }
    }
}

impl Report for Measured {
    fn json(&self) -> Result<Json> {
        with_schema("apr.perplexity/1", self)
    }

    fn quiet(&self) -> String {
        format!("{:.6}\n", self.perplexity.mean)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn done(&self) -> Option<&'static str> {
        self.base_bytes.map(|_| "the base file was written")
    }
}

/// A line with a mean and its error, both times `factor`.
fn line(name: &str, shown: Shown, factor: f64, unit: &str) -> [String; 4] {
    let [mean, error] = [shown.mean, shown.error].map(|value| format!("{:.6}", value * factor));
    [name.to_owned(), mean, format!("± {error}"), unit.to_owned()]
}

impl Distance {
    fn lines(&self) -> Vec<[String; 4]> {
        vec![
            line("perplexity of the base", self.perplexity, 1.0, ""),
            line("ratio to the base", self.ratio, 1.0, ""),
            line("logarithm of the ratio", self.log_ratio, 1.0, ""),
            line("difference from the base", self.difference, 1.0, ""),
            [
                "correlation of the logarithms".to_owned(),
                self.correlation.map_or("-".to_owned(), |value| format!("{:.2}", value * 100.0)),
                String::new(),
                "%".to_owned(),
            ],
            line("mean divergence (KL)", self.divergence, 1.0, "nats"),
            line("mean change of p", self.probability, 100.0, "%"),
            line("RMS change of p", self.rms_probability, 100.0, "%"),
            line("same most probable token", self.same_top, 100.0, "%"),
        ]
    }

    fn spread(&self) -> Vec<[String; 3]> {
        let mut lines = vec![["of all tokens", "divergence", "change of p, %"].map(str::to_owned)];
        for (at, (name, _)) in SHARES.iter().enumerate() {
            let divergence = format!("{:.6}", self.divergences.0[at]);
            let probability = format!("{:.3}", self.probabilities.0[at] * 100.0);
            lines.push([(*name).to_owned(), divergence, probability]);
        }
        lines
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        writeln!(
            f,
            "{} {} on {} ({})",
            escape(&self.architecture, 40),
            self.dtype,
            self.backend,
            escape(&self.device, 80)
        )?;
        let name = text.name.as_deref().map_or("the base file's text".to_owned(), |name| escape(name, 200));
        writeln!(
            f,
            "{name}: {} of {} tokens, {} of them judged\n",
            n_of(text.windows, "window"),
            text.window,
            text.scored
        )?;
        let mut lines =
            vec![line("perplexity", self.perplexity, 1.0, ""), line("mean of -ln p", self.loss, 1.0, "nats")];
        lines.extend(self.base.iter().flat_map(Distance::lines));
        f.write_str(&aligned(&lines))?;
        if let Some(base) = &self.base {
            write!(f, "\n{}", aligned(&base.spread()))?;
        }
        if let Some(bytes) = self.base_bytes {
            writeln!(f, "\nbase file of {} written", show_size(bytes))?;
        }
        writeln!(f, "\n{:.1} s, {:.0} tokens/s", self.seconds, self.tokens_per_second)
    }
}
