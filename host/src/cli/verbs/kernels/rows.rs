//! Rows of cells in columns.

/// Lines of cells, each as wide as its column; what is a number in every line but the first stands to the right.
pub fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|at| lines.iter().map(|cells| cells[at].chars().count()).max().unwrap_or(0));
    let to_the_right: [bool; N] =
        std::array::from_fn(|at| lines.len() > 1 && lines.iter().skip(1).all(|cells| is_number(&cells[at])));
    let mut text = String::new();
    for cells in lines {
        let mut line = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let width = widths[at];
            match to_the_right[at] {
                true => line.push_str(&format!("{cell:>width$}  ")),
                false => line.push_str(&format!("{cell:width$}  ")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A figure in few digits.
pub fn few(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.1e}") }
}

fn is_number(cell: &str) -> bool {
    cell.chars().all(|c| c.is_ascii_digit() || ".-e×%".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = [["name", "n"], ["a", "10"], ["abcde", "7"]].map(|line| line.map(str::to_owned));
        assert_eq!(aligned(&lines), "name    n\na      10\nabcde   7\n");
    }
}
