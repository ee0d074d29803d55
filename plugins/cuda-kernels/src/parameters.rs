//! The kernels' parameters, field by field as in `cuda/*.cuh`. A test compares their sizes with those that the kernels were
//! compiled with.

use bytemuck::{Pod, Zeroable};

macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }
    )*};
}

parameters! {
    /// A part of each row of a value; without a width, there is none.
    Place { at: u64, stride: u32, width: u32 }
    /// Activations of 8 bits; without codes, none are wanted.
    Rounded { codes: u64, records: u64, stride: u32, pad: u32 }
    /// A matrix of a product.
    Part {
        weights: u64, bias: u64, out: u64, row_bytes: u32, rows: u32, out_stride: u32, first_block: u32, kind: u32,
        expert_rows: u32,
    }
    /// Products with a few rows.
    Matvec {
        parts: [Part; 4], x: u64, records: u64, residual: u64, route: u64, part_count: u32, columns: u32, units: u32,
        blocks: u32, x_stride: u32, tokens: u32, lanes: u32, residual_stride: u32, mode: u32, used: u32,
        is_shared: u32, experts: u32, route_stride: u32, scale: f32,
    }
    /// Activations as parts of BF16.
    Cut { x: u64, to: u64, x_stride: u32, columns: u32, wide: u32, tokens: u32, parts: u32, pad: u32 }
    /// Products with many rows.
    Matmul {
        weights: u64, bias: u64, out: u64, residual: u64, x: u64, partials: u64, kind: u32, row_bytes: u32, rows: u32,
        columns: u32, tokens: u32, x_stride: u32, out_stride: u32, residual_stride: u32, first_row: u32,
        split_columns: u32, splits: u32, scale: f32,
    }
    /// Rows of a table.
    Embed {
        table: u64, index: u64, out: Place, kind: u32, row_bytes: u32, columns: u32, offset: u32, scale: f32, pad: u32,
    }
    /// Rows that the batch brings.
    Copy { x: Place, out: Place }
    /// A normalization.
    Norm {
        x: Place, out: Place, gain: u64, bias: u64, to: Rounded, width: u32, gain_step: u32, bias_step: u32,
        is_centred: u32, epsilon: f32, pad: u32,
    }
    /// An activation function.
    Activate { gate: Place, up: Place, out: Place, to: Rounded, kind: u32, alpha: f32, limit: f32, pad: u32 }
    /// Two values.
    Binary { a: Place, b: Place, out: Place, kind: u32, pad: u32 }
    /// One value.
    Unary { x: Place, out: Place, kind: u32, a: f32, b: f32, pad: u32 }
    /// The weighted sum over the chosen experts.
    Combine { x: Place, route: Place, out: Place, residual: Place, used: u32, pad: u32 }
    /// The choice of experts.
    Route {
        scores: Place, out: Place, bias: u64, score: u32, normalize: u32, groups: u32, groups_used: u32, scale: f32,
        pad: u32,
    }
    /// Means of rows.
    Pool { x: Place, out: Place, rows: u64, first: u64, normalize: u32, pad: u32 }
    /// The largest logit.
    Greedy { logits: Place, candidates: u64, counters: u64, ids: u64, rows: u64 }
    /// Activations to 8 bits.
    Quantize { x: u64, to: Rounded, x_stride: u32, columns: u32, parts: u32, pad: u32 }
    /// Activations padded to whole units.
    Pad { x: u64, to: u64, x_stride: u32, columns: u32, parts: u32, to_stride: u32 }
    /// Cosines and sines.
    Turn { positions: u64, frequencies: u64, angles: u64, pairs: u32, magnitude: f32 }
    /// Heads that turn.
    Turning {
        x: Place, out: Place, angles: u64, heads: u32, width: u32, first: u32, pairs: u32, is_interleaved: u32,
        pad: u32,
    }
    /// Where a state's keys and values lie.
    Cache {
        pages: u64, keys: u64, values: u64, most_pages: u32, cells: u32, heads: u32, key: u32, value: u32,
        key_bytes: u32, value_bytes: u32, pad: u32,
    }
    /// Rotary positions, and rows into a cache.
    Rotate {
        query: Turning, key: Turning, value: Place, cache: Cache, positions: u64, sequences: u64, value_heads: u32,
        pad: u32,
    }
    /// Attention over a cache.
    Attention {
        query: Place, out: Place, cache: Cache, positions: u64, sequences: u64, lengths: u64, sinks: u64, slopes: u64,
        partials: u64, counters: u64, to: Rounded, group: u32, per_block: u32, sets: u32, view: u32, is_view: u32,
        mask: u32, window: u32, splits: u32, scale: f32, soft_cap: f32,
    }
}

/// The bytes of parameters.
pub(crate) fn bytes<T: Pod>(parameters: &T) -> Box<[u8]> {
    bytemuck::bytes_of(parameters).into()
}
