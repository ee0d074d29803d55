// Matrices times many rows, on the tensor cores. Weights are turned into BF16, in one part or, for wider floats, in
// several that add up to the value; activations in two or three. The products of parts are summed in single precision, so
// that only what lies below the smallest parts is lost.
#include "types.cuh"

struct Matmul {
    u64 weights, bias, out, residual, x;
    u32 type, row_bytes, rows, columns, tokens, x_stride, out_stride, residual_stride, first_row, pad;
    float scale, pad2;
};

static const u32 TILE = 64, DEPTH = 32, PITCH = DEPTH + 8;

#if HAS_MMA

// Cuts 16 floats into parts of BF16, and stores each part as 32 bytes.
template <u32 PARTS>
DEVICE void store_parts(float* x, u16* to, u32 apart) {
#pragma unroll
    for (u32 part = 0; part < PARTS; part++) {
        u32 words[8];
#pragma unroll
        for (u32 n = 0; n < 8; n++) {
            words[n] = pack_bf16(x[2 * n], x[2 * n + 1]);
            if (part + 1 == PARTS) continue;
            // An infinite part leaves no rest.
            float a = x[2 * n] - from_bits(words[n] << 16), b = x[2 * n + 1] - from_bits(words[n] & 0xffff0000u);
            x[2 * n] = a == a ? a : 0.0f;
            x[2 * n + 1] = b == b ? b : 0.0f;
        }
        uint4* at = (uint4*)(to + part * apart);
        at[0] = {words[0], words[1], words[2], words[3]};
        at[1] = {words[4], words[5], words[6], words[7]};
    }
}

template <u32 WEIGHT_PARTS, u32 X_PARTS>
DEVICE void multiply_tile(const Matmul& p) {
    static const u32 APART = TILE * PITCH;
    // Pairs of parts whose product is not below what is kept.
    static const u32 MOST = WEIGHT_PARTS > X_PARTS ? WEIGHT_PARTS : X_PARTS;
    alignas(16) __shared__ u16 weights[WEIGHT_PARTS * APART];
    alignas(16) __shared__ u16 activations[X_PARTS * APART];
    u32 first_row = block_x() * TILE, first_token = block_y() * TILE;
    u32 mine = thread_x() / 2, run = thread_x() % 2;
    u32 row = first_row + mine < p.rows ? first_row + mine : p.rows - 1;
    u32 token = first_token + mine;
    const u8* of_row = (const u8*)p.weights + (u64)(p.first_row + row) * p.row_bytes;
    const float* of_token = (const float*)p.x + (u64)(token < p.tokens ? token : 0) * p.x_stride;
    u32 warp_row = warp() / 2 * 32, warp_token = warp() % 2 * 32, group = lane() / 4, in_group = lane() % 4;
    float sums[2][4][4];
#pragma unroll
    for (u32 i = 0; i < 2; i++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
#pragma unroll
            for (u32 n = 0; n < 4; n++) sums[i][j][n] = 0.0f;
    for (u32 depth = 0; depth < p.columns; depth += DEPTH) {
        float values[16];
        u32 column = depth + run * 16;
#pragma unroll
        for (u32 n = 0; n < 16; n++) values[n] = 0.0f;
        if (column < p.columns) values_of(p.type, of_row, p.columns, column / 16, values);
        if (depth > 0) block_sync();
        store_parts<WEIGHT_PARTS>(values, weights + mine * PITCH + run * 16, APART);
        if (depth == 0) wait_for_previous();
#pragma unroll
        for (u32 n = 0; n < 16; n++) values[n] = token < p.tokens && column + n < p.columns ? of_token[column + n] : 0.0f;
        store_parts<X_PARTS>(values, activations + mine * PITCH + run * 16, APART);
        block_sync();
#pragma unroll
        for (u32 k = 0; k < DEPTH; k += 16) {
#pragma unroll
            for (u32 b = 0; b < X_PARTS; b++) {
                u32 right[4][2];
#pragma unroll
                for (u32 j = 0; j < 4; j++) {
                    const u16* at = activations + b * APART + (warp_token + j * 8 + group) * PITCH + k + in_group * 2;
                    right[j][0] = *(const u32*)at;
                    right[j][1] = *(const u32*)(at + 8);
                }
#pragma unroll
                for (u32 a = 0; a < WEIGHT_PARTS; a++) {
                    if (a + b >= MOST) continue;
#pragma unroll
                    for (u32 i = 0; i < 2; i++) {
                        const u16* at = weights + a * APART + (warp_row + i * 16 + group) * PITCH + k + in_group * 2;
                        u32 left[4] = {*(const u32*)at, *(const u32*)(at + 8 * PITCH), *(const u32*)(at + 8),
                                       *(const u32*)(at + 8 * PITCH + 8)};
#pragma unroll
                        for (u32 j = 0; j < 4; j++) mma(sums[i][j], left, right[j]);
                    }
                }
            }
        }
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
#pragma unroll
            for (u32 n = 0; n < 4; n++) {
                u32 r = first_row + warp_row + i * 16 + group + n / 2 * 8;
                u32 t = first_token + warp_token + j * 8 + in_group * 2 + n % 2;
                if (r >= p.rows || t >= p.tokens) continue;
                float sum = sums[i][j][n];
                if (p.bias) sum += ((const float*)p.bias)[r];
                sum *= p.scale;
                if (p.residual) sum += ((const float*)p.residual)[(u64)t * p.residual_stride + r];
                ((float*)p.out)[(u64)t * p.out_stride + r] = sum;
            }
}

// Block types: a code of up to 8 bits times a scale. Two parts of an activation have 16 bits.
KERNEL(matmul_blocks, Matmul, 128) { release_next(); multiply_tile<1, 2>(p); }
KERNEL(matmul_bf16, Matmul, 128) { release_next(); multiply_tile<1, 3>(p); }
KERNEL(matmul_f16, Matmul, 128) { release_next(); multiply_tile<2, 3>(p); }
KERNEL(matmul_f32, Matmul, 128) { release_next(); multiply_tile<3, 3>(p); }

#endif
