//! The same operation over other slices.

use apr_sdk::{Operation, Slice, WeightPart};

/// An operation that reads and writes other slices: those that it read, in the order of [`Operation::reads`], and those that it
/// wrote, in the order of [`Operation::writes`].
pub(super) fn moved(operation: &Operation, reads: &[Slice], writes: &[Slice]) -> Operation {
    let mut operation = operation.clone();
    let read = |at: usize, own: Slice| reads.get(at).copied().unwrap_or(own);
    let write = |at: usize, own: Slice| writes.get(at).copied().unwrap_or(own);
    let write_parts = |parts: &mut [WeightPart]| {
        parts.iter_mut().enumerate().for_each(|(at, part)| part.out = write(at, part.out));
    };
    match &mut operation {
        Operation::Embed(embed) => embed.out = write(0, embed.out),
        Operation::Norm(norm) => {
            norm.x = read(0, norm.x);
            norm.out = write(0, norm.out);
        }
        Operation::Linear(linear) => {
            linear.x = read(0, linear.x);
            linear.residual = linear.residual.map(|own| read(1, own));
            write_parts(&mut linear.parts);
        }
        Operation::HeadLinear(linear) => {
            linear.x = read(0, linear.x);
            linear.out = write(0, linear.out);
        }
        Operation::Activate(activate) => {
            activate.gate = read(0, activate.gate);
            activate.up = activate.up.map(|own| read(1, own));
            activate.out = write(0, activate.out);
        }
        Operation::Rope(rope) => {
            rope.x = read(0, rope.x);
            rope.out = write(0, rope.out);
        }
        Operation::Append(append) => {
            append.key = read(0, append.key);
            append.value = append.value.map(|own| read(1, own));
        }
        Operation::Attention(attention) => {
            attention.query = read(0, attention.query);
            attention.out = write(0, attention.out);
        }
        Operation::Route(route) => {
            route.scores = read(0, route.scores);
            route.out = write(0, route.out);
        }
        Operation::ExpertLinear(linear) => {
            linear.x = read(0, linear.x);
            linear.route = read(1, linear.route);
            write_parts(&mut linear.parts);
        }
        Operation::Combine(combine) => {
            combine.x = read(0, combine.x);
            combine.route = read(1, combine.route);
            combine.residual = combine.residual.map(|own| read(2, own));
            combine.out = write(0, combine.out);
        }
        Operation::Binary(binary) => {
            binary.a = read(0, binary.a);
            binary.b = read(1, binary.b);
            binary.out = write(0, binary.out);
        }
        Operation::Unary(unary) => {
            unary.x = read(0, unary.x);
            unary.out = write(0, unary.out);
        }
        Operation::Pool(pool) => {
            pool.x = read(0, pool.x);
            pool.out = write(0, pool.out);
        }
        _ => {}
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{Binary, BinaryKind};

    #[test]
    fn slices_move_and_all_else_stays() {
        let slice = |value| Slice { value, first: 0, width: 4 };
        let binary = Binary { kind: BinaryKind::ADD, a: slice(1), b: slice(2), out: slice(3) };
        let there = moved(&binary.into(), &[slice(7), slice(8)], &[slice(9)]);
        assert_eq!(there.reads(), [slice(7), slice(8)]);
        assert_eq!(there.writes(), [slice(9)]);
    }
}
