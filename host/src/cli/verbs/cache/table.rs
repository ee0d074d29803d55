//! Tables as text: a head, and columns as wide as their widest cell.

use std::fmt;

/// Writes rows below a head, two spaces between columns; the last is not padded.
pub fn write_table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    head: [&str; N],
    rows: &[[String; N]],
) -> fmt::Result {
    let lines: Vec<[String; N]> =
        std::iter::once(head.map(str::to_owned)).chain(rows.iter().cloned()).collect();
    let widths: [usize; N] =
        std::array::from_fn(|at| lines.iter().map(|cells| cells[at].chars().count()).max().unwrap_or(0));
    for line in &lines {
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            match at + 1 == N {
                true => writeln!(f, "{cell}")?,
                false => write!(f, "{cell:width$}  ")?,
            }
        }
    }
    Ok(())
}
