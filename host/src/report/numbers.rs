//! Numbers as a page shows them: short, aligned, with a true minus.

/// A measured number with four digits: `0.01235`, `−1.235e−8`; `–` for none.
pub fn show(value: Option<f64>) -> String {
    let Some(value) = value else { return "–".to_owned() };
    let size = value.abs();
    let text = match size {
        0.0 => "0".to_owned(),
        1e-3..1e5 => {
            // Digits behind the point, so that there are four in all.
            let digits = (0..=6).find(|n| size * 10f64.powi(*n) >= 999.95).unwrap_or(6);
            format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
        }
        _ => format!("{value:.3e}"),
    };
    text.replace('-', "−")
}

/// A share in percent with two digits: `0.42`, `4.2`, `42`; `NaN` for what is no number.
pub fn percent(share: f64) -> String {
    if share.is_nan() {
        return "NaN".to_owned();
    }
    let percent = share * 100.0;
    match percent {
        0.0 => "0".to_owned(),
        ..0.0095 => format!("{percent:.0e}").replace('-', "−"),
        ..0.095 => format!("{percent:.3}"),
        ..0.95 => format!("{percent:.2}"),
        ..9.5 => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let shown = [0.0123456, -12.34567, 99999.4, 123456.0, -1.2345e-8, 0.0, 1.0, 0.001]
            .map(|value| show(Some(value)));
        assert_eq!(shown, ["0.01235", "−12.35", "99999", "1.235e5", "−1.235e−8", "0", "1.000", "0.001000"]);
        assert_eq!(show(None), "–");
    }

    #[test]
    fn shares_have_two_digits() {
        let shown = [0.0, 0.00000123, 0.000123, 0.0042, 0.042, 0.42, 1.5, f64::NAN].map(percent);
        assert_eq!(shown, ["0", "1e−4", "0.012", "0.42", "4.2", "42", "150", "NaN"]);
    }
}
