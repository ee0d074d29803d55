// Matrices times a few rows: reading the matrix once is what costs. Some lanes take a row or several: each lane takes units
// of the row in turn, and the lanes' sums are added up in a fixed order. A turn's units are fetched while the turn before
// is computed; the first two turns, before the kernel that makes the activations has ended.
#pragma once
#include "types.cuh"

struct Part {
    u64 weights, bias, out;
    u32 row_bytes, rows, out_stride, first_block, type, expert_rows;
};

static const u32 MODE_PLAIN = 0, MODE_HEADS = 1, MODE_EXPERTS = 2;

struct Matvec {
    Part parts[4];
    // Codes or floats, records, what is added, and the experts' numbers.
    u64 x, records, residual, route;
    u32 part_count, columns, units, blocks, x_stride, tokens, lanes, residual_stride, mode, used, is_shared, experts,
        route_stride;
    float scale;
};

// The expert that a route's element names.
DEVICE u32 expert_of(float number, u32 experts) {
    u32 expert = number > 0.0f ? (u32)number : 0;
    return expert < experts ? expert : experts - 1;
}

DEVICE Codes rows_of(const Matvec& p, const Codes*) { return {(const i8*)p.x, (const Record*)p.records, p.x_stride}; }
DEVICE Plain rows_of(const Matvec& p, const Plain*) { return {(const float*)p.x, p.x_stride}; }

// Fetches a lane's next units of some rows, those from `unit` on that there are, and moves on.
template <class T, u32 ROWS, u32 UNROLL>
DEVICE void fetch(typename T::Cursor& at, const u64* apart, u32 unit, const Matvec& p, typename T::Unit (*to)[ROWS]) {
#pragma unroll
    for (u32 n = 0; n < UNROLL; n++) {
        if (unit + n * p.lanes < p.units)
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) T::load(at, apart[r], to[n][r]);
        T::move(at, p.lanes);
    }
}

// The rows of one part. `X` is a row of activations.
template <class T, class X, u32 TOKENS, u32 ROWS, u32 UNROLL>
DEVICE void multiply(const Matvec& p, const Part& part) {
    __shared__ float scratch[4];
    u32 in_block = thread_x() / p.lanes, first = ((block_x() - part.first_block) * (threads_x() / p.lanes) + in_block) * ROWS;
    u32 mine = thread_x() % p.lanes, y = block_y();
    u32 token = block_z() * TOKENS, x_first = token, x_step = 1;
    const u8* weights = (const u8*)part.weights;
    u32 out_first = 0, bias_first = 0;
    if (p.mode == MODE_HEADS) {
        weights += (u64)y * part.rows * part.row_bytes;
        out_first = y * part.rows;
        x_first = token * p.used + y;
        x_step = p.used;
    } else if (p.mode == MODE_EXPERTS) {
        // Which matrix it is depends on what came before.
        wait_for_previous();
        u32 choice = y % p.used;
        token = y / p.used;
        u32 expert = expert_of(((const float*)p.route)[(u64)token * p.route_stride + choice], p.experts);
        weights += (u64)expert * part.expert_rows * part.row_bytes;
        out_first = choice * part.rows;
        bias_first = expert * part.rows;
        x_first = p.is_shared ? token : y;
    }
    // Rows that are not there are computed as the last one; so are tokens.
    u32 row = first < part.rows ? first : part.rows - 1, below = part.rows - 1 - row, others = p.tokens - token - 1;
    u64 apart[ROWS];
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) apart[r] = (u64)(r < below ? r : below) * part.row_bytes;
    typename T::Cursor at = T::start(weights + (u64)row * part.row_bytes, p.blocks, mine);
    X x = rows_of(p, (X*)nullptr).at(x_first, T::column(mine));
    float sums[ROWS][TOKENS];
#pragma unroll
    for (u32 r = 0; r < ROWS; r++)
#pragma unroll
        for (u32 m = 0; m < TOKENS; m++) sums[r][m] = 0.0f;
    bool waited = p.mode == MODE_EXPERTS;
    // A turn is fetched while the one before it is computed.
    typename T::Unit w[UNROLL][ROWS];
    typename T::Cursor to = at;
    fetch<T, ROWS, UNROLL>(at, apart, mine, p, w);
#pragma unroll 1
    for (u32 unit = mine; unit < p.units;) {
        typename T::Unit next[UNROLL][ROWS];
        fetch<T, ROWS, UNROLL>(at, apart, unit + UNROLL * p.lanes, p, next);
        if (!waited) wait_for_previous();
        waited = true;
#pragma unroll
        for (u32 n = 0; n < UNROLL; n++) {
            if (n == 0 || unit < p.units)
#pragma unroll
                for (u32 m = 0; m < TOKENS; m++) {
                    X of_token = TOKENS == 1 ? x : x.at((m < others ? m : others) * x_step, 0);
#pragma unroll
                    for (u32 r = 0; r < ROWS; r++) sums[r][m] += T::dot(w[n][r], to, of_token);
                }
            unit += p.lanes;
            x.move(p.lanes * T::COLUMNS);
        }
#pragma unroll
        for (u32 n = 0; n < UNROLL; n++)
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) w[n][r] = next[n][r];
    }
    // Lanes beyond the last unit have not waited yet, and none may leave before what came before it has ended.
    if (!waited) wait_for_previous();
#pragma unroll
    for (u32 r = 0; r < ROWS; r++)
#pragma unroll
        for (u32 m = 0; m < TOKENS; m++) {
            float sum = sums[r][m];
            for (u32 mask = p.lanes < WARP ? p.lanes / 2 : WARP / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
            if (p.lanes > WARP) {
                // Several warps share a row.
                block_sync();
                if (lane() == 0) scratch[warp()] = sum;
                block_sync();
                u32 of_row = thread_x() / p.lanes * (p.lanes / WARP);
                sum = 0.0f;
                for (u32 w = 0; w < p.lanes / WARP; w++) sum += scratch[of_row + w];
            }
            u32 to = first + r;
            if ((r * TOKENS + m) % p.lanes != mine || to >= part.rows || token + m >= p.tokens) continue;
            if (part.bias) sum += ((const float*)part.bias)[bias_first + to];
            sum *= p.scale;
            if (p.residual) sum += ((const float*)p.residual)[(u64)(token + m) * p.residual_stride + to];
            ((float*)part.out)[(u64)(token + m) * part.out_stride + out_first + to] = sum;
        }
}

DEVICE u32 part_of_block(const Matvec& p) {
    u32 part = 0;
    while (part + 1 < p.part_count && block_x() >= p.parts[part + 1].first_block) part++;
    return part;
}

#define MATVEC(name, T, X, TOKENS, ROWS, UNROLL, BLOCKS) \
    KERNEL_OF(matvec_##name##_##TOKENS##x##ROWS, Matvec, 128, BLOCKS) { \
        release_next(); \
        multiply<T, X, TOKENS, ROWS, UNROLL>(p, p.parts[part_of_block(p)]); \
    }

// For one token, one row or two at a time: which is faster depends on the shape. ONE and TWO are how many units of a row a lane
// fetches at once then, and BLOCKS how many blocks of the second kind a processor has registers for.
#define MATVECS(name, T, X, ONE, TWO, BLOCKS) \
    MATVEC(name, T, X, 1, 1, ONE, 5) \
    MATVEC(name, T, X, 1, 2, TWO, BLOCKS) \
    MATVEC(name, T, X, 2, 2, TWO, 2) \
    MATVEC(name, T, X, 4, 2, 1, 2) \
    MATVEC(name, T, X, 8, 2, 1, 2)
