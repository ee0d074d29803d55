//! Numbers for people.

/// A number in five digits at most.
pub(super) fn short(value: f32) -> String {
    let rounded = format!("{value:.4e}");
    let plain = rounded.parse::<f64>().map_or_else(|_| rounded.clone(), |value| format!("{value}"));
    if plain.len() <= 9 { plain } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_digits_are_enough() {
        let shown = [1e-5, 0.1, 1_000_000.0, 1_000.000_06, 0.333_333_34, 1.5e-20].map(short);
        assert_eq!(shown, ["0.00001", "0.1", "1000000", "1000", "0.33333", "1.5000e-20"]);
    }
}
