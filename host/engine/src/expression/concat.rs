//! Several expressions in sequence, in row-major order: along the outermost axis. Joining along another axis
//! is a sequence of regions.
//! regions one after another.

use super::Expression;

/// The parts in sequence; a single part is returned as it is.
pub fn concat(parts: Vec<Expression>) -> Expression {
    let mut flat: Vec<Expression> = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Expression::Concat(inner) => flat.extend(inner),
            one => flat.push(one),
        }
    }
    match <[Expression; 1]>::try_from(flat) {
        Ok([one]) => one,
        Err(flat) => Expression::Concat(flat),
    }
}
