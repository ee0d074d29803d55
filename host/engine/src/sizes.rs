//! Sizes as people write and read them.

/// Bytes from `5000000`, `5M`, `5MB` (decimal) or `5MiB` (binary), in any case.
///
/// # Errors
/// A sentence saying what a size looks like.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_uppercase();
    let factor: u64 = match unit.as_str() {
        "" | "B" => 1,
        "K" | "KB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "T" | "TB" => 1_000_000_000_000,
        "KI" | "KIB" => 1 << 10,
        "MI" | "MIB" => 1 << 20,
        "GI" | "GIB" => 1 << 30,
        "TI" | "TIB" => 1 << 40,
        _ => {
            return Err(format!(
                "invalid size `{text}`: expected a number with a unit, such as 5G (5 000 000 000 bytes) or \
                 5GiB"
            ));
        }
    };
    let number: u64 =
        number.parse().map_err(|_| format!("invalid size `{text}`: it must start with an integer"))?;
    match number.checked_mul(factor) {
        Some(0) | None => Err(format!("the size `{text}` is not between 1 byte and 18 exabytes")),
        Some(bytes) => Ok(bytes),
    }
}

/// `4.58 GB`: three digits, decimal units; exact below 1000 bytes.
pub fn show_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") };
    }
    let mut unit = 0;
    let mut scale: u64 = 1000;
    // Rounded to three digits, 999.5 of a unit is 1.00 of the next.
    while unit + 1 < UNITS.len() && u128::from(bytes) * 10 >= u128::from(scale) * 9995 {
        unit += 1;
        scale *= 1000;
    }
    // Below 10 of a unit two digits follow the point, below 100 one; decided on the rounded value.
    let hundredths = (u128::from(bytes) * 100 + u128::from(scale) / 2) / u128::from(scale);
    let tenths = (u128::from(bytes) * 10 + u128::from(scale) / 2) / u128::from(scale);
    let whole = (u128::from(bytes) + u128::from(scale) / 2) / u128::from(scale);
    let number = if hundredths < 1000 {
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    } else if tenths < 1000 {
        format!("{}.{}", tenths / 10, tenths % 10)
    } else {
        whole.to_string()
    };
    format!("{number} {}", UNITS[unit])
}

/// `39 000 000` as `39,000,000`.
pub fn show_count(count: u128) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Shows how much of `whole` a part is, in percent with a digit behind the point.
pub fn show_share(part: u64, whole: u64) -> String {
    let tenths = (u128::from(part) * 2000 / u128::from(whole.max(1))).div_ceil(2);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// `one file`, `two files`: a count and its noun.
pub fn show_number_of(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", show_count(count as u128), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal_unless_they_say_binary() {
        assert_eq!(parse_size("1M"), Ok(1_000_000));
        assert_eq!(parse_size("5gb"), Ok(5_000_000_000));
        assert_eq!(parse_size("2MiB"), Ok(2 << 20));
        assert_eq!(parse_size("300"), Ok(300));
        for bad in ["", "M", "0", "-1", "1.5G", "99999999T", "5 parsecs"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_rounded() {
        let shares = [(0, 7), (1, 3), (2, 3), (670, 1000), (5, 5), (9, 5), (0, 0)];
        let shown: Vec<_> = shares.iter().map(|(part, whole)| show_share(*part, *whole)).collect();
        assert_eq!(shown, ["0.0 %", "33.3 %", "66.7 %", "67.0 %", "100.0 %", "180.0 %", "0.0 %"]);
    }

    #[test]
    fn sizes_have_three_digits() {
        let shown: Vec<_> =
            [0, 1, 999, 1000, 1234, 99_950, 999_499, 999_500, 4_580_000_000, u64::MAX].map(show_size).into();
        let wanted = [
            "0 bytes",
            "1 byte",
            "999 bytes",
            "1.00 kB",
            "1.23 kB",
            "100 kB",
            "999 kB",
            "1.00 MB",
            "4.58 GB",
        ];
        assert_eq!(shown[..9], wanted);
        assert_eq!(shown[9], "18.4 EB");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 12, 123, 1234, 39_000_000].map(show_count), ["0", "12", "123", "1,234", "39,000,000"]);
        assert_eq!(show_number_of(1, "file"), "1 file");
        assert_eq!(show_number_of(1200, "tensor"), "1,200 tensors");
    }
}
