//! A page about a model, or about two: one HTML file that needs no network, no script and no other file. What it shows was
//! measured by the engine (`survey`); templates beside this file say how it looks, and escape all that they are given.

mod activations;
mod heat;
mod histogram;
pub mod inspect_summary;
mod line_chart;
mod numbers;
mod page;
mod rows;
mod view;

pub use activations::Activations;
pub use line_chart::{LineChart, Mark};
pub use page::chart_page;

use apr_engine::survey::Survey;
use apr_sdk::Result;

/// The most tensors that a page lists: with some 700 bytes each it stays small enough for a browser.
pub const MOST_TENSORS: usize = 5000;

/// The page about what was measured, with the activations of a traced text if there is one.
///
/// # Errors
/// Io, if a template fails; that is a bug.
pub fn survey_page(survey: &Survey, activations: Option<&Activations>) -> Result<String> {
    page::render("survey.html", view::View::new(survey, activations))
}
