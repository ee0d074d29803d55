//! Several expressions one after another, in row-major order: along the outermost axis. What is joined along another axis is
//! regions one after another.

use super::Expression;

/// These one after another; one alone is itself.
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
