//! The checks of an architecture table: what `apr arch check` finds in it by itself.

use super::check_line::Line;
use apr_engine::architecture::{Table, check};
use apr_sdk::{Error, Result};

/// Checks the table `id`; its text and those of its bases come from `text_of`. `say` hears of the check as it starts and
/// as it ends.
///
/// # Errors
/// Any error from `say`.
pub fn check_table(
    id: &str,
    text_of: &dyn Fn(&str) -> Result<String>,
    say: &dyn Fn(&Line) -> Result<()>,
) -> Result<()> {
    say(&Line::new(id, "table", "started", String::new()))?;
    let (result, detail) = match judge(id, text_of) {
        Ok(what) => ("passed", what),
        Err(error) => ("failed", error.to_string()),
    };
    say(&Line::new(id, "table", result, detail))
}

fn judge(id: &str, text_of: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let table = Table::parse(&text_of(id)?, text_of)?;
    if table.id != id {
        return Err(Error::failed(format!("the table's id is `{}`", table.id)));
    }
    let findings = check(&table);
    if let Some(first) = findings.errors.first() {
        return Err(Error::failed(format!("{} errors, first: {first}", findings.errors.len())));
    }
    if table.draft {
        return Err(Error::failed("it is a draft: check its guesses, then remove `draft = true`"));
    }
    Ok(match &findings.warnings[..] {
        [] => "sound".to_owned(),
        [first, ..] => format!("sound; {} warnings, first: {first}", findings.warnings.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn result(text: &str) -> (String, String) {
        let last = RefCell::new(None);
        let text_of = |id: &str| match id {
            "mine" => Ok(text.to_owned()),
            _ => Err(Error::not_found("no such table")),
        };
        check_table("mine", &text_of, &|line| {
            *last.borrow_mut() = Some((line.result.clone(), line.detail.clone()));
            Ok(())
        })
        .unwrap();
        last.into_inner().unwrap()
    }

    #[test]
    fn a_table_that_is_not_sound_fails() {
        for (text, why) in [
            ("id = \"other\"\nname = \"x\"\nrope = \"none\"", "the table's id is `other`"),
            ("id = \"mine\"\nname = \"x\"\nrope = \"none\"\ndraft = true", "a draft"),
            ("id = \"mine\"\nbase = \"none\"", "no such table"),
            ("id =", ""),
        ] {
            let (result, detail) = result(text);
            assert!(result == "failed" && detail.contains(why), "{text}: {result} {detail}");
        }
        assert_eq!(result("id = \"mine\"\nname = \"x\"\nrope = \"none\"").0, "passed");
    }
}
