//! Pages: the templates, the style sheet, and the policy that keeps a page from asking for anything else.

use crate::report::line_chart::{LineChart, Mark};
use crate::report::numbers::show;
use apr_sdk::{Error, Result, escape};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The style sheet of every page.
const STYLE: &str = include_str!("style.css");

/// Templates by their names: the frame of every page, and what stands in it.
const TEMPLATES: [(&str, &str); 6] = [
    ("page.html", include_str!("page.html")),
    ("survey.html", include_str!("survey.html")),
    ("heat_map.html", include_str!("heat_map.html")),
    ("activations.html", include_str!("activations.html")),
    ("tensors.html", include_str!("tensors.html")),
    ("chart.html", include_str!("chart.html")),
];

/// A page of this template.
///
/// # Errors
/// Io, if the template fails; that is a bug.
pub fn render(template: &str, view: impl Serialize) -> Result<String> {
    let view = Value::from(Serde(&view));
    fill(template, view).map_err(|error| Error::io(format!("the page cannot be made: {error:#}")))
}

fn fill(template: &str, view: Value) -> std::result::Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    let sum = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    // No script, no picture, no font, no address: nothing but the style sheet that has this sum.
    let policy = format!("default-src 'none'; style-src 'sha256-{sum}'; base-uri 'none'; form-action 'none'");
    let version = env!("CARGO_PKG_VERSION");
    environment.get_template(template)?.render(context! { policy, style => STYLE, version, view })
}

/// A page with a chart, and its numbers in a table: a heading, what it shows, the heads of two columns.
///
/// # Errors
/// Io, if its template fails; that is a bug.
pub fn chart_page(heading: &str, lead: &str, columns: [&str; 2], chart: &LineChart) -> Result<String> {
    #[derive(Serialize)]
    struct View<'v> {
        title: String,
        lead: String,
        columns: [&'v str; 2],
        marks: Vec<(String, String)>,
        svg: String,
    }
    let view = View {
        title: escape(heading, 400),
        lead: escape(lead, 400),
        columns,
        marks: chart.marks().iter().map(|mark: &Mark| (mark.label.clone(), show(Some(mark.value)))).collect(),
        svg: chart.inline(),
    };
    render("chart.html", view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_what_is_shown_stays_text() {
        let mark = Mark { label: "<b>&\"'\u{202e}".to_owned(), value: 0.5 };
        let chart = LineChart::new("<script>alert(1)</script>", vec![mark]);
        let page = chart_page("</style><img src=x>", "<i>", ["<hr>", "b"], &chart).unwrap();
        for tag in ["<script", "<img", "<b>", "<i>", "<hr>", "\u{202e}"] {
            assert!(!page.contains(tag), "{tag} in {page}");
        }
        assert!(page.contains("&lt;b&gt;&amp;") && page.contains("u{202e}"), "{page}");
    }

    #[test]
    fn the_policy_lets_nothing_in_but_the_style_sheet() {
        let page = chart_page("t", "l", ["a", "b"], &LineChart::new("t", Vec::new())).unwrap();
        let sum = BASE64_STANDARD.encode(Sha256::digest(STYLE));
        let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        assert_eq!(style, STYLE);
        assert!(page.contains(&sum.replace('/', "&#x2f;")) || page.contains(&sum), "{page}");
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("<script"));
    }
}
