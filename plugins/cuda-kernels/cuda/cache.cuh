// Keys and values of past positions. A page holds PAGE positions of one sequence for every state of a program; in it,
// keys, and then values, lie head by head, and position by position.
#pragma once
#include "activations.cuh"

static const u32 PAGE = 64;
static const u32 CELLS_F32 = 0, CELLS_F16 = 1, CELLS_Q8_0 = 2;

struct Cache {
    // For each sequence the addresses of its pages.
    u64 pages;
    // Where in a page this state's keys and values begin, and the bytes of a position's.
    u64 keys, values;
    u32 most_pages, cells, heads, key, value, key_bytes, value_bytes, pad;
};

DEVICE u8* page_of(const Cache& c, u32 sequence, u32 position) {
    return (u8*)((const u64*)c.pages)[(u64)sequence * c.most_pages + position / PAGE];
}
DEVICE u8* key_at(const Cache& c, u8* page, u32 head, u32 position) {
    return page + c.keys + (u64)(head * PAGE + position % PAGE) * c.key_bytes;
}
DEVICE u8* value_at(const Cache& c, u8* page, u32 head, u32 position) {
    return page + c.values + (u64)(head * PAGE + position % PAGE) * c.value_bytes;
}

// Where in a row of Q8_0 cells the scales begin.
DEVICE u32 scales_at(u32 width) { return (width + 31) / 32 * 32; }

// Stores a head's elements. All threads of a block take part.
DEVICE void store_row(u32 cells, u8* to, const float* x, u32 width) {
    for (u32 n = thread_x(); n - lane() < width; n += threads_x()) {
        float y = n < width ? x[n] : 0.0f;
        if (cells == CELLS_Q8_0) {
            // A NaN makes the scale one, and with it every element of the block.
            u32 most = to_bits(y) & 0x7fffffffu;
#pragma unroll
            for (int mask = 16; mask > 0; mask /= 2) {
                u32 other = shuffle_xor(most, mask);
                most = other > most ? other : most;
            }
            float scale = from_bits(most) / 127.0f, inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
            if (n < width) ((i8*)to)[n] = (i8)(i32)roundf(y * inverse);
            if (lane() == 0) ((u16*)(to + scales_at(width)))[n / 32] = to_half(scale);
        } else if (n < width) {
            if (cells == CELLS_F16) ((u16*)to)[n] = to_half(y);
            else ((float*)to)[n] = y;
        }
    }
}
