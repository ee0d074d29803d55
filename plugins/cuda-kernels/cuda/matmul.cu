// Matrices times many rows, on the tensor cores. Weights are turned into BF16, in one part or, for wider floats, in several
// that add up to the value; activations in two or three, by a kernel of their own, for all blocks need them. The products
// of parts are summed in single precision, so that only what lies below the smallest parts is lost.
#include "activations.cuh"

// Activations as parts: `parts` times `tokens` rows of `wide` BF16, those beyond `columns` being zero.
struct Cut {
    u64 x, to;
    u32 x_stride, columns, wide, tokens, parts, pad;
};

struct Matmul {
    // `x` is what Cut made. With several splits, each block has some of the columns, and leaves its sums in `partials`.
    u64 weights, bias, out, residual, x, partials;
    u32 type, row_bytes, rows, columns, tokens, x_stride, out_stride, residual_stride, first_row, split_columns, splits;
    float scale;
};

// What a result becomes.
DEVICE void finish(const Matmul& p, u32 token, u32 row, float sum) {
    if (p.bias) sum += ((const float*)p.bias)[row];
    sum *= p.scale;
    if (p.residual) sum += ((const float*)p.residual)[(u64)token * p.residual_stride + row];
    ((float*)p.out)[(u64)token * p.out_stride + row] = sum;
}

static const u32 DEPTH = 32, PITCH = DEPTH + 8;

#if HAS_MMA

// Cuts 8 floats into parts of BF16, of which each is 16 bytes.
template <u32 PARTS>
DEVICE void cut(float* x, uint4* parts) {
#pragma unroll
    for (u32 part = 0; part < PARTS; part++) {
        u32 words[4];
#pragma unroll
        for (u32 n = 0; n < 4; n++) {
            words[n] = pack_bf16(x[2 * n], x[2 * n + 1]);
            if (part + 1 == PARTS) continue;
            // An infinite part leaves no rest.
            float a = x[2 * n] - from_bits(words[n] << 16), b = x[2 * n + 1] - from_bits(words[n] & 0xffff0000u);
            x[2 * n] = a == a ? a : 0.0f;
            x[2 * n + 1] = b == b ? b : 0.0f;
        }
        parts[part] = {words[0], words[1], words[2], words[3]};
    }
}

KERNEL(cut, Cut, 128) {
    release_next();
    wait_for_previous();
    u32 at = (block_x() * threads_x() + thread_x()) * 8, token = block_y();
    if (at >= p.wide) return;
    const float* row = (const float*)p.x + (u64)token * p.x_stride;
    float4 low = load_four(row, at, p.columns), high = load_four(row, at + 4, p.columns);
    float x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint4 parts[3];
    cut<3>(x, parts);
    u16* to = (u16*)p.to + (u64)token * p.wide + at;
#pragma unroll
    for (u32 part = 0; part < 3; part++)
        if (part < p.parts) *(uint4*)(to + (u64)part * p.tokens * p.wide) = parts[part];
}

// A tile of ROWS x TOKENS results, each depth fetched while the one before it is multiplied if it is AHEAD. Two warps side
// by side have the rows, and as many as needed the tokens, 32 each.
template <u32 WEIGHT_PARTS, u32 X_PARTS, u32 ROWS, u32 TOKENS, bool AHEAD>
DEVICE void multiply_tile(const Matmul& p) {
    static const u32 THREADS = 2 * TOKENS, IN_WARP = ROWS / 2, I = IN_WARP / 16;
    // 16 bytes of activations that a thread copies for each part.
    static const u32 COPIES = TOKENS * (DEPTH / 8) / THREADS;
    // Pairs of parts whose product is not below what is kept.
    static const u32 MOST = WEIGHT_PARTS > X_PARTS ? WEIGHT_PARTS : X_PARTS;
    alignas(16) __shared__ u16 weights[WEIGHT_PARTS * ROWS * PITCH];
    alignas(16) __shared__ u16 activations[X_PARTS * TOKENS * PITCH];
    u32 first_row = block_x() * ROWS, first_token = block_y() * TOKENS;
    u32 mine = thread_x() / 2, run = thread_x() % 2;
    u32 row = first_row + mine < p.rows ? first_row + mine : p.rows - 1;
    const u8* of_row = (const u8*)p.weights + (u64)(p.first_row + row) * p.row_bytes;
    u32 warp_row = warp() % 2 * IN_WARP, warp_token = warp() / 2 * 32, group = lane() / 4, in_group = lane() % 4;
    float sums[I][4][4];
#pragma unroll
    for (u32 i = 0; i < I; i++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
#pragma unroll
            for (u32 n = 0; n < 4; n++) sums[i][j][n] = 0.0f;
    uint4 w[2][WEIGHT_PARTS], x[X_PARTS][COPIES];
    // Fetches what a depth needs, into registers.
    auto fetch_weights = [&](u32 depth) {
        float values[16];
        u32 column = depth + run * 16;
#pragma unroll
        for (u32 n = 0; n < 16; n++) values[n] = 0.0f;
        if (column < p.columns) values_of(p.type, of_row, p.columns, column / 16, values);
        cut<WEIGHT_PARTS>(values, w[0]);
        cut<WEIGHT_PARTS>(values + 8, w[1]);
    };
    auto fetch_activations = [&](u32 depth) {
#pragma unroll
        for (u32 n = 0; n < COPIES; n++) {
            u32 chunk = thread_x() + n * THREADS, token = first_token + chunk / 4;
            const u16* at = (const u16*)p.x + (u64)(token < p.tokens ? token : p.tokens - 1) * p.x_stride + depth + chunk % 4 * 8;
#pragma unroll
            for (u32 part = 0; part < X_PARTS; part++) x[part][n] = *(const uint4*)(at + (u64)part * p.tokens * p.x_stride);
        }
    };
    u32 first = block_z() * p.split_columns;
    u32 end = first + p.split_columns < p.columns ? first + p.split_columns : p.columns;
    if (AHEAD) {
        fetch_weights(first);
        wait_for_previous();
        fetch_activations(first);
    }
#pragma unroll 1
    for (u32 depth = first; depth < end; depth += DEPTH) {
        if (!AHEAD) {
            fetch_weights(depth);
            if (depth == first) wait_for_previous();
            fetch_activations(depth);
        }
        if (depth > first) block_sync();
#pragma unroll
        for (u32 part = 0; part < WEIGHT_PARTS; part++) {
            uint4* to = (uint4*)(weights + (part * ROWS + mine) * PITCH + run * 16);
            to[0] = w[0][part];
            to[1] = w[1][part];
        }
#pragma unroll
        for (u32 n = 0; n < COPIES; n++) {
            u32 chunk = thread_x() + n * THREADS;
#pragma unroll
            for (u32 part = 0; part < X_PARTS; part++)
                *(uint4*)(activations + (part * TOKENS + chunk / 4) * PITCH + chunk % 4 * 8) = x[part][n];
        }
        block_sync();
        if (AHEAD && depth + DEPTH < end) {
            fetch_weights(depth + DEPTH);
            fetch_activations(depth + DEPTH);
        }
#pragma unroll
        for (u32 k = 0; k < DEPTH; k += 16) {
#pragma unroll
            for (u32 a = 0; a < WEIGHT_PARTS; a++) {
                u32 left[I][4];
#pragma unroll
                for (u32 i = 0; i < I; i++) {
                    const u16* at = weights + (a * ROWS + warp_row + i * 16 + group) * PITCH + k + in_group * 2;
                    left[i][0] = *(const u32*)at;
                    left[i][1] = *(const u32*)(at + 8 * PITCH);
                    left[i][2] = *(const u32*)(at + 8);
                    left[i][3] = *(const u32*)(at + 8 * PITCH + 8);
                }
#pragma unroll
                for (u32 b = 0; b < X_PARTS; b++) {
                    if (a + b >= MOST) continue;
#pragma unroll
                    for (u32 j = 0; j < 4; j++) {
                        const u16* at = activations + (b * TOKENS + warp_token + j * 8 + group) * PITCH + k + in_group * 2;
                        u32 right[2] = {*(const u32*)at, *(const u32*)(at + 8)};
#pragma unroll
                        for (u32 i = 0; i < I; i++) mma(sums[i][j], left[i], right);
                    }
                }
            }
        }
    }
#pragma unroll
    for (u32 i = 0; i < I; i++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
#pragma unroll
            for (u32 n = 0; n < 4; n++) {
                u32 r = first_row + warp_row + i * 16 + group + n / 2 * 8;
                u32 t = first_token + warp_token + j * 8 + in_group * 2 + n % 2;
                if (r >= p.rows || t >= p.tokens) continue;
                if (p.splits > 1)
                    ((float*)p.partials)[((u64)block_z() * p.tokens + t) * p.rows + r] = sums[i][j][n];
                else
                    finish(p, t, r, sums[i][j][n]);
            }
}

// Adds up what the splits left, always in the same order.
KERNEL(matmul_sum, Matmul, 256) {
    release_next();
    wait_for_previous();
    u32 row = block_x() * threads_x() + thread_x(), token = block_y();
    if (row >= p.rows) return;
    float sum = 0.0f;
    for (u32 split = 0; split < p.splits; split++)
        sum += ((const float*)p.partials)[((u64)split * p.tokens + token) * p.rows + row];
    finish(p, token, row, sum);
}

// Block types: a code of up to 8 bits times a scale. Two parts of an activation have 16 bits. Large tiles read everything
// less often, small ones keep more of the device busy, and have registers to fetch ahead; three parts of both leave no room
// for large ones.
KERNEL_OF(matmul_blocks, Matmul, 128, 4) { release_next(); multiply_tile<1, 2, 64, 64, true>(p); }
KERNEL_OF(matmul_blocks_large, Matmul, 256, 2) { release_next(); multiply_tile<1, 2, 128, 128, false>(p); }
KERNEL(matmul_bf16, Matmul, 128) { release_next(); multiply_tile<1, 3, 64, 64, true>(p); }
KERNEL_OF(matmul_bf16_large, Matmul, 256, 1) { release_next(); multiply_tile<1, 3, 128, 128, false>(p); }
KERNEL(matmul_f16, Matmul, 128) { release_next(); multiply_tile<2, 3, 64, 64, true>(p); }
KERNEL(matmul_f32, Matmul, 128) { release_next(); multiply_tile<3, 3, 64, 64, true>(p); }

#endif
