// Rows of values, and how they are rounded for matrices of blocks.
#pragma once
#include "types.cuh"

// A part of each row of a value.
struct Place {
    u64 at;
    u32 stride, width;
};
DEVICE float* row_at(const Place& place, u32 row) { return (float*)place.at + (u64)row * place.stride; }

// Rounds 32 elements, one a lane, to codes of -127 to 127, as the processor's kernels do. A block with a number that is
// not finite becomes NaN. All lanes take part; `codes` and `records` are where the block's lie.
DEVICE void round_block(float x, i8* codes, Record* record) {
    u32 magnitude = to_bits(x) & 0x7fffffffu, most = magnitude;
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
        u32 other = shuffle_xor(most, mask);
        most = other > most ? other : most;
    }
    float largest = from_bits(most), inverse = 127.0f / largest;
    i32 code = 0;
    float scale = largest / 127.0f;
    if (most >= 0x7f800000u) scale = from_bits(0x7fc00000u);
    else if (to_bits(inverse) >= 0x7f800000u) scale = 0.0f;
    else code = round_even(x * inverse);
    codes[lane()] = (i8)code;
    i32 sum = code;
#pragma unroll
    for (int mask = 8; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    i32 other = shuffle_xor(sum, 16);
    if (lane() == 0) *record = {scale, {(i16)sum, (i16)other}};
}

// Activations of 8 bits: rows of `stride` codes, and a record for each 32 of them. Without codes, none are wanted.
struct Rounded {
    u64 codes, records;
    u32 stride, pad;
};

// Rounds element `at` of row `row`; whole warps take part, with consecutive elements from a multiple of 32 on.
DEVICE void round_into(const Rounded& to, u32 row, u32 at, float x) {
    u64 first = (u64)row * to.stride + (at - lane());
    round_block(x, (i8*)to.codes + first, (Record*)to.records + first / 32);
}
