// Rows of values, and how they are rounded for matrices of blocks.
#pragma once
#include "types.cuh"

// A part of each row of a value.
struct Place {
    u64 at;
    u32 stride, width;
};
DEVICE float* row_at(const Place& place, u32 row) { return (float*)place.at + (u64)row * place.stride; }

// Activations of 8 bits: rows of `stride` codes, a multiple of 64, and a record for each 32 of them. Without codes, none
// are wanted.
struct Rounded {
    u64 codes, records;
    u32 stride, pad;
};

// Rounds four elements from `at` on, a multiple of 4, of row `row` to codes of -127 to 127, as the processor's kernels do:
// eight lanes have a block of 32, and whole warps take part. A block with a number that is not finite becomes NaN.
DEVICE void round_into(const Rounded& to, u32 row, u32 at, const float4& y, bool is_there) {
    u32 most = 0;
    float x[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (u32 n = 0; n < 4; n++) {
        u32 magnitude = to_bits(x[n]) & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
    }
#pragma unroll
    for (int mask = 4; mask > 0; mask /= 2) {
        u32 other = shuffle_xor(most, mask);
        most = other > most ? other : most;
    }
    float largest = from_bits(most), inverse = 127.0f / largest, scale = largest / 127.0f;
    bool is_zero = to_bits(inverse) >= 0x7f800000u, is_nan = most >= 0x7f800000u;
    u32 codes = 0;
    i32 sum = 0;
#pragma unroll
    for (u32 n = 0; n < 4; n++) {
        i32 code = is_zero || is_nan ? 0 : round_even(x[n] * inverse);
        codes |= (u32)(u8)code << n * 8;
        sum += code;
    }
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    i32 other = shuffle_xor(sum, 4);
    if (!is_there) return;
    u64 first = (u64)row * to.stride;
    *(u32*)((i8*)to.codes + first + code_at(to.stride, at)) = codes;
    if (is_nan) scale = from_bits(0x7fc00000u);
    if (is_zero) scale = 0.0f;
    if (lane() % 8 == 0) ((Record*)to.records)[(first + at) / 32] = {scale, {(i16)sum, (i16)other}};
}

// Four elements from `at` on; those beyond the end are zero.
DEVICE float4 load_four(const float* x, u32 at, u32 width) {
    if (at + 4 <= width && ((u64)(x + at) & 15) == 0) return *(const float4*)(x + at);
    float4 y = {0.0f, 0.0f, 0.0f, 0.0f};
    if (at < width) y.x = x[at];
    if (at + 1 < width) y.y = x[at + 1];
    if (at + 2 < width) y.z = x[at + 2];
    if (at + 3 < width) y.w = x[at + 3];
    return y;
}

DEVICE void store_four(float* x, u32 at, u32 width, const float4& y) {
    if (at + 4 <= width && ((u64)(x + at) & 15) == 0) {
        *(float4*)(x + at) = y;
        return;
    }
    if (at < width) x[at] = y.x;
    if (at + 1 < width) x[at + 1] = y.y;
    if (at + 2 < width) x[at + 2] = y.z;
    if (at + 3 < width) x[at + 3] = y.w;
}
