//! Bytes that operations have to read from memory: weights, keys and values.

use apr_sdk::{MatrixSpec, Operation, PagedState, Program, State};

/// Bytes of weights that an operation reads in a step of so many rows. Each matrix is read once for all of them.
pub fn of_weights(operation: &Operation, specs: &[MatrixSpec], rows: u64) -> u64 {
    let weights = operation.weights();
    let weights = weights.iter().filter_map(|weight| spec_of(*weight, specs));
    match operation {
        Operation::Embed(_) => weights.map(|spec| spec.row_bytes().saturating_mul(rows)).sum(),
        Operation::ExpertLinear(linear) => {
            let all: u64 = weights.map(MatrixSpec::bytes).sum();
            // No more experts are read than there are.
            let used = u64::from(linear.used).saturating_mul(rows).min(u64::from(linear.experts));
            (all / u64::from(linear.experts.max(1))).saturating_mul(used)
        }
        Operation::Linear(linear) => linear
            .parts
            .iter()
            .filter_map(|part| Some(spec_of(part.weight, specs)?.row_bytes() * u64::from(part.out.width)))
            .sum(),
        _ => weights.map(MatrixSpec::bytes).sum(),
    }
}

/// Bytes of keys and values that an operation reads, once for all rows of a step that ends at a position, or writes for each of
/// its rows.
pub fn of_states(operation: &Operation, program: &Program, rows: u64, end: u64) -> u64 {
    let Some(state) = operation.state() else { return 0 };
    let state = usize::try_from(state).ok().and_then(|number| program.states.get(number));
    let Some(State::Paged(state)) = state else { return 0 };
    let positions = match operation {
        Operation::Append(_) => rows,
        // A window's first row sees as many positions before it.
        _ if state.window > 0 => end.min(rows.saturating_add(u64::from(state.window))),
        _ => end,
    };
    of_position(state).saturating_mul(positions)
}

/// Bytes of one position's keys and values.
fn of_position(state: &PagedState) -> u64 {
    let (bytes, per) = state.dtype.info().map_or((4, 1), |info| (info.block_bytes, info.block_elements));
    let elements = u64::from(state.heads) * (u64::from(state.key) + u64::from(state.value));
    elements.saturating_mul(u64::from(bytes)) / u64::from(per.max(1))
}

fn spec_of(weight: u32, specs: &[MatrixSpec]) -> Option<&MatrixSpec> {
    specs.get(usize::try_from(weight).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{Append, Attention, DType, Embed, ExpertLinear, Linear, Mask, RowIndex, Slice, WeightPart};

    fn slice(width: u32) -> Slice {
        Slice { value: 0, first: 0, width }
    }

    #[test]
    fn a_table_is_read_by_the_row_and_a_matrix_once() {
        let specs = [MatrixSpec::new(DType::F16, 10, 8).unwrap()];
        let embed = Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: slice(8) }.into();
        assert_eq!((of_weights(&embed, &specs, 1), of_weights(&embed, &specs, 5)), (16, 80));
        let parts = vec![WeightPart { weight: 0, first_row: 0, bias: None, out: slice(6) }];
        let linear = Linear { x: slice(8), parts: parts.clone(), residual: None, scale: 1.0 }.into();
        assert_eq!((of_weights(&linear, &specs, 1), of_weights(&linear, &specs, 5)), (96, 96));
        let experts =
            ExpertLinear { x: slice(8), route: slice(4), experts: 5, used: 2, shared_input: true, parts };
        let experts = experts.into();
        assert_eq!((of_weights(&experts, &specs, 1), of_weights(&experts, &specs, 9)), (64, 160));
    }

    #[test]
    fn a_window_is_read_as_far_as_it_reaches() {
        let state = PagedState { heads: 2, key: 4, value: 4, dtype: DType::F16, window: 0 };
        let windowed = PagedState { window: 8, ..state };
        let states = vec![State::Paged(state), State::Paged(windowed)];
        let program = Program { states, ..Program::default() };
        let attention = Attention {
            state: 0,
            query: slice(8),
            out: slice(8),
            heads: 2,
            scale: 1.0,
            mask: Mask::CAUSAL,
            window: 0,
            soft_cap: 0.0,
            sinks: None,
            slopes: Vec::new(),
            value_first: 0,
        };
        let append = Append { state: 0, key: slice(8), value: Some(slice(8)) }.into();
        assert_eq!(of_states(&append, &program, 3, 100), 3 * 32);
        assert_eq!(of_states(&attention.clone().into(), &program, 1, 100), 100 * 32);
        assert_eq!(of_states(&Attention { state: 1, ..attention }.into(), &program, 2, 100), 10 * 32);
    }
}
