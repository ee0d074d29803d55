// The types of weights. A row's blocks are taken apart into planes, so that every load is aligned: all first fields, then
// all second ones, and so on (src/layout.rs has the order). K types whose blocks are whole 16 bytes stay as they are.
//
// A *unit* is what a lane takes at a time: 16 or 32 bytes of codes and what belongs to them, or 16 bytes of floats. A
// cursor stands at a unit of a row, and moves on by so many units, a multiple of four. Block types are multiplied with
// activations of 8 bits in exact integers.
#pragma once
#include "device.cuh"

// The numbers of types, as params.rs has them.
static const u32 TYPE_F32 = 0, TYPE_F16 = 1, TYPE_BF16 = 2, TYPE_Q4_0 = 3, TYPE_Q4_1 = 4, TYPE_Q5_0 = 5, TYPE_Q5_1 = 6,
                 TYPE_Q8_0 = 7, TYPE_Q4_K = 8, TYPE_Q5_K = 9, TYPE_Q6_K = 10;

// 32 activations of 8 bits: what a code is multiplied with, and the sums of the first and the last 16 codes.
struct alignas(8) Record {
    float scale;
    i16 sums[2];
};

// Where the code of a column lies in a row of `stride` codes. Every fourth chunk of 16 lies together, so that lanes, whose
// units follow one another, read codes that follow one another.
DEVICE u32 code_at(u32 stride, u32 column) { return column / 16 % 4 * (stride / 4) + column / 64 * 16 + column % 16; }

// Activations from some column on, the first of a chunk, in a row and the rows below it.
struct Codes {
    const i8* codes;
    const Record* records;
    u32 stride;

    DEVICE_MEMBER Codes at(u32 row, u32 column) const {
        return {codes + (u64)row * stride + code_at(stride, column), records + (u64)row * (stride / 32) + column / 32, stride};
    }
    // By a multiple of 64.
    DEVICE_MEMBER void move(u32 columns) {
        codes += columns / 4;
        records += columns / 32;
    }
    // 16 codes, `n` chunks further on: within the same 64, or in the next if `n` is 4 or more.
    DEVICE_MEMBER uint4 chunk(u32 n) const { return *(const uint4*)(codes + n % 4 * (stride / 4) + n / 4 * 16); }
};
// The same as they are.
struct Plain {
    const float* floats;
    u32 stride;

    DEVICE_MEMBER Plain at(u32 row, u32 column) const { return {floats + (u64)row * stride + column, stride}; }
    DEVICE_MEMBER void move(u32 columns) { floats += columns; }
};

DEVICE i32 dot16(const uint4& codes, const uint4& y) {
    return dot4(codes.x, y.x, dot4(codes.y, y.y, dot4(codes.z, y.z, dot4(codes.w, y.w, 0))));
}

DEVICE uint4 low_nibbles(const uint4& q) {
    return {q.x & 0x0f0f0f0fu, q.y & 0x0f0f0f0fu, q.z & 0x0f0f0f0fu, q.w & 0x0f0f0f0fu};
}
DEVICE uint4 high_nibbles(const uint4& q) {
    return {q.x >> 4 & 0x0f0f0f0fu, q.y >> 4 & 0x0f0f0f0fu, q.z >> 4 & 0x0f0f0f0fu, q.w >> 4 & 0x0f0f0f0fu};
}
DEVICE uint4 nibbles(const uint4& q, u32 part) { return part ? high_nibbles(q) : low_nibbles(q); }
// Bits `shift` of all bytes, `mask` of them, moved up by four.
DEVICE uint4 with_bits(const uint4& low, const uint4& q, u32 shift, u32 mask) {
    return {low.x | (q.x >> shift & mask) << 4, low.y | (q.y >> shift & mask) << 4,
            low.z | (q.z >> shift & mask) << 4, low.w | (q.w >> shift & mask) << 4};
}
// Byte n of 16, and as a float.
DEVICE u32 word_of(const uint4& q, u32 n) { return n / 4 == 0 ? q.x : n / 4 == 1 ? q.y : n / 4 == 2 ? q.z : q.w; }
DEVICE u32 byte_of(const uint4& q, u32 n) { return word_of(q, n) >> n % 4 * 8 & 0xffu; }
DEVICE float float_of(const uint4& q, u32 n) { return byte_float(word_of(q, n), n % 4); }

// A scale and a minimum, each times an unsigned code: 6 bits for each of eight parts of a super-block.
struct Scales {
    u32 scales, mins;
};
// Those of parts 2g and 2g + 1, in the low two bytes each.
DEVICE Scales scales_of(const uint4& header, u32 g) {
    u32 shift = (g & 1) * 16;
    u32 a = header.y >> shift, b = header.z >> shift, c = header.w >> shift;
    if (g < 2) return {a & 0x3f3fu, b & 0x3f3fu};
    return {(c & 0x0f0fu) | (a >> 2 & 0x3030u), (c >> 4 & 0x0f0fu) | (b >> 2 & 0x3030u)};
}

// Records of two blocks of 32 that follow each other, the first at an even place.
struct Pair {
    Record a, b;
};
DEVICE Pair pair_at(const Codes& x) {
    uint4 q = *(const uint4*)x.records;
    return {{from_bits(q.x), {(i16)q.y, (i16)(q.y >> 16)}}, {from_bits(q.z), {(i16)q.w, (i16)(q.w >> 16)}}};
}

// Two parts of a super-block of Q4_K or Q5_K: 64 columns, the codes of the first and the second 32 in `low` and `high`.
DEVICE float join(u32 factors, const Scales& s, const Codes& x, const uint4* low, const uint4* high) {
    Pair r = pair_at(x);
    i32 low_sum = dot16(low[0], x.chunk(0)) + dot16(low[1], x.chunk(1));
    i32 high_sum = dot16(high[0], x.chunk(2)) + dot16(high[1], x.chunk(3));
    float sum = r.a.scale * (float)((i32)(s.scales & 0xffu) * low_sum) +
                r.b.scale * (float)((i32)(s.scales >> 8) * high_sum);
    float mins = r.a.scale * (float)((i32)(s.mins & 0xffu) * (r.a.sums[0] + r.a.sums[1])) +
                 r.b.scale * (float)((i32)(s.mins >> 8) * (r.b.sums[0] + r.b.sums[1]));
    return from_half((u16)factors) * sum - from_half((u16)(factors >> 16)) * mins;
}

// 16 values of one part.
DEVICE void write(u32 factors, const Scales& s, u32 part, const uint4& codes, float* out) {
    float d = from_half((u16)factors) * (float)(s.scales >> part * 8 & 0xffu);
    float m = from_half((u16)(factors >> 16)) * (float)(s.mins >> part * 8 & 0xffu);
#pragma unroll
    for (u32 n = 0; n < 16; n++) out[n] = d * float_of(codes, n) - m;
}

struct Q4K {
    static const u32 COLUMNS = 64;
    struct Unit {
        uint4 codes[2];
        u32 factors;
        Scales scales;
    };
    struct Cursor {
        const u8* block;
        const u8* codes;
        u32 group;
    };
    DEVICE Cursor start(const u8* row, u32, u32 unit) {
        const u8* block = row + (u64)(unit / 4) * 144;
        return {block, block + 16 + unit % 4 * 32, unit % 4};
    }
    DEVICE void move(Cursor& c, u32 units) {
        c.block += units / 4 * 144;
        c.codes += units / 4 * 144;
    }
    DEVICE void load(const Cursor& c, u64 offset, Unit& u) {
        u.codes[0] = load_once(c.codes + offset);
        u.codes[1] = load_once(c.codes + offset + 16);
        uint4 header = load_16(c.block + offset);
        u.factors = header.x;
        u.scales = scales_of(header, c.group);
    }
    DEVICE u32 column(u32 unit) { return unit * 64; }
    DEVICE float dot(const Unit& u, const Cursor&, const Codes& x) {
        uint4 low[2] = {low_nibbles(u.codes[0]), low_nibbles(u.codes[1])};
        uint4 high[2] = {high_nibbles(u.codes[0]), high_nibbles(u.codes[1])};
        return join(u.factors, u.scales, x, low, high);
    }
    DEVICE void values(const u8* row, u32, u32 run, float* out) {
        const u8* block = row + (u64)(run / 16) * 144;
        u32 group = run % 16 / 4, part = run % 4 / 2;
        uint4 header = load_16(block), codes = load_once(block + 16 + group * 32 + run % 2 * 16);
        write(header.x, scales_of(header, group), part, nibbles(codes, part), out);
    }
};

struct Q5K {
    static const u32 COLUMNS = 64;
    struct Unit {
        uint4 low[2], high[2];
        u32 factors;
        Scales scales;
    };
    typedef Q4K::Cursor Cursor;
    DEVICE Cursor start(const u8* row, u32, u32 unit) {
        const u8* block = row + (u64)(unit / 4) * 176;
        return {block, block + 48 + unit % 4 * 32, unit % 4};
    }
    DEVICE void move(Cursor& c, u32 units) {
        c.block += units / 4 * 176;
        c.codes += units / 4 * 176;
    }
    DEVICE void load(const Cursor& c, u64 offset, Unit& u) {
        u.low[0] = load_once(c.codes + offset);
        u.low[1] = load_once(c.codes + offset + 16);
        u.high[0] = load_16(c.block + offset + 16);
        u.high[1] = load_16(c.block + offset + 32);
        uint4 header = load_16(c.block + offset);
        u.factors = header.x;
        u.scales = scales_of(header, c.group);
    }
    DEVICE u32 column(u32 unit) { return unit * 64; }
    DEVICE float dot(const Unit& u, const Cursor& c, const Codes& x) {
        uint4 low[2], high[2];
#pragma unroll
        for (u32 n = 0; n < 2; n++) {
            low[n] = with_bits(low_nibbles(u.low[n]), u.high[n], c.group * 2, 0x01010101u);
            high[n] = with_bits(high_nibbles(u.low[n]), u.high[n], c.group * 2 + 1, 0x01010101u);
        }
        return join(u.factors, u.scales, x, low, high);
    }
    DEVICE void values(const u8* row, u32, u32 run, float* out) {
        const u8* block = row + (u64)(run / 16) * 176;
        u32 group = run % 16 / 4, part = run % 4 / 2;
        uint4 header = load_16(block), high = load_16(block + 16 + run % 2 * 16);
        uint4 low = load_once(block + 48 + group * 32 + run % 2 * 16);
        uint4 codes = with_bits(nibbles(low, part), high, group * 2 + part, 0x01010101u);
        write(header.x, scales_of(header, group), part, codes, out);
    }
};

struct Q6K {
    // Two runs of 32 that lie 64 columns apart.
    static const u32 COLUMNS = 64;
    struct Unit {
        uint4 low[2], high[2];
        // The scales of the first run's halves, and of the second's.
        u16 scales[2];
        u16 factor;
    };
    struct Cursor {
        const u8* low;
        const u8* high;
        const u8* scales;
        const u8* factor;
        u32 shift;
    };
    DEVICE Cursor start(const u8* row, u32 blocks, u32 unit) {
        u32 block = unit / 4, half = unit % 4 / 2, part = unit % 2;
        const u8* high = row + (u64)blocks * 128;
        const u8* scales = high + (u64)blocks * 64;
        return {row + (u64)unit * 32, high + (u64)block * 64 + half * 32, scales + (u64)block * 16 + half * 8 + part * 2,
                scales + (u64)blocks * 16 + (u64)block * 2, part * 2};
    }
    DEVICE void move(Cursor& c, u32 units) {
        c.low += units * 32;
        c.high += units * 16;
        c.scales += units * 4;
        c.factor += units / 4 * 2;
    }
    DEVICE void load(const Cursor& c, u64 offset, Unit& u) {
        u.low[0] = load_once(c.low + offset);
        u.low[1] = load_once(c.low + offset + 16);
        u.high[0] = load_16(c.high + offset);
        u.high[1] = load_16(c.high + offset + 16);
        u.scales[0] = load_2(c.scales + offset);
        u.scales[1] = load_2(c.scales + offset + 4);
        u.factor = load_2(c.factor + offset);
    }
    // 32 columns with two scales.
    DEVICE float run(const uint4& a, const uint4& b, u16 scales, const Record& r, const uint4& x, const uint4& y) {
        i32 first = dot16(a, x) - 32 * r.sums[0], second = dot16(b, y) - 32 * r.sums[1];
        return r.scale * (float)((i32)(i8)scales * first + (i32)(i8)(scales >> 8) * second);
    }
    DEVICE u32 column(u32 unit) { return unit / 2 * 128 + unit % 2 * 32; }
    DEVICE float dot(const Unit& u, const Cursor& c, const Codes& x) {
        uint4 low[2], high[2];
#pragma unroll
        for (u32 n = 0; n < 2; n++) {
            low[n] = with_bits(low_nibbles(u.low[n]), u.high[n], c.shift, 0x03030303u);
            high[n] = with_bits(high_nibbles(u.low[n]), u.high[n], c.shift + 4, 0x03030303u);
        }
        return from_half(u.factor) * (run(low[0], low[1], u.scales[0], x.records[0], x.chunk(0), x.chunk(1)) +
                                      run(high[0], high[1], u.scales[1], x.records[2], x.chunk(4), x.chunk(5)));
    }
    DEVICE void values(const u8* row, u32 blocks, u32 run, float* out) {
        u32 block = run / 16, half = run % 16 / 8, in_half = run % 8, part = in_half / 4;
        const u8* high = row + (u64)blocks * 128;
        const u8* scales = high + (u64)blocks * 64;
        uint4 low = load_once(row + (u64)block * 128 + half * 64 + in_half % 4 * 16);
        uint4 bits = load_16(high + (u64)block * 64 + half * 32 + in_half % 2 * 16);
        uint4 q = with_bits(nibbles(low, part), bits, in_half % 4 / 2 * 2 + part * 4, 0x03030303u);
        float d = from_half(load_2(scales + (u64)blocks * 16 + (u64)block * 2)) *
                  (float)(i8)load_1(scales + (u64)block * 16 + run % 16);
#pragma unroll
        for (u32 n = 0; n < 16; n++) out[n] = d * (float_of(q, n) - 32.0f);
    }
};

struct Q8_0 {
    static const u32 COLUMNS = 32;
    struct Unit {
        uint4 a, b;
        u16 factor;
    };
    struct Cursor {
        const u8* codes;
        const u8* factor;
    };
    DEVICE Cursor start(const u8* row, u32 blocks, u32 unit) {
        return {row + (u64)unit * 32, row + (u64)blocks * 32 + (u64)unit * 2};
    }
    DEVICE void move(Cursor& c, u32 units) {
        c.codes += units * 32;
        c.factor += units * 2;
    }
    DEVICE void load(const Cursor& c, u64 offset, Unit& u) {
        u.a = load_once(c.codes + offset);
        u.b = load_once(c.codes + offset + 16);
        u.factor = load_2(c.factor + offset);
    }
    DEVICE u32 column(u32 unit) { return unit * 32; }
    DEVICE float dot(const Unit& u, const Cursor&, const Codes& x) {
        i32 sum = dot16(u.a, x.chunk(0)) + dot16(u.b, x.chunk(1));
        return from_half(u.factor) * x.records[0].scale * (float)sum;
    }
    DEVICE void values(const u8* row, u32 blocks, u32 run, float* out) {
        Unit u;
        load(start(row, blocks, run / 2), 0, u);
        float d = from_half(u.factor);
#pragma unroll
        for (u32 n = 0; n < 16; n++) out[n] = d * (float)(i8)byte_of(run % 2 ? u.b : u.a, n);
    }
};

// Four bits, one for each of four bytes, as the bytes' fifth bits.
DEVICE u32 spread(u32 bits) {
    return (bits & 1u) << 4 | (bits & 2u) << 11 | (bits & 4u) << 18 | (bits & 8u) << 25;
}
DEVICE uint4 with_fifth(const uint4& q, u32 bits) {
    return {q.x | spread(bits), q.y | spread(bits >> 4), q.z | spread(bits >> 8), q.w | spread(bits >> 12)};
}

// Q4_0, Q4_1, Q5_0 and Q5_1: with or without a fifth bit; with a minimum, or centred.
template <bool FIFTH, bool MINIMUM>
struct Small {
    static const u32 COLUMNS = 32;
    static const i32 CENTRE = MINIMUM ? 0 : FIFTH ? 16 : 8;
    struct Unit {
        uint4 codes;
        u32 fifth, factors;
    };
    struct Cursor {
        const u8* codes;
        const u8* fifth;
        const u8* factors;
    };
    static const u32 FACTORS = MINIMUM ? 4 : 2;
    DEVICE Cursor start(const u8* row, u32 blocks, u32 unit) {
        const u8* fifth = row + (u64)blocks * 16;
        const u8* factors = FIFTH ? fifth + (u64)blocks * 4 : fifth;
        return {row + (u64)unit * 16, fifth + (u64)unit * 4, factors + (u64)unit * FACTORS};
    }
    DEVICE void move(Cursor& c, u32 units) {
        c.codes += units * 16;
        if (FIFTH) c.fifth += units * 4;
        c.factors += units * FACTORS;
    }
    DEVICE void load(const Cursor& c, u64 offset, Unit& u) {
        u.codes = load_once(c.codes + offset);
        u.fifth = FIFTH ? load_4(c.fifth + offset) : 0;
        u.factors = MINIMUM ? load_4(c.factors + offset) : load_2(c.factors + offset);
    }
    DEVICE u32 column(u32 unit) { return unit * 32; }
    DEVICE uint4 codes(const Unit& u, u32 part) {
        uint4 q = nibbles(u.codes, part);
        return FIFTH ? with_fifth(q, u.fifth >> part * 16) : q;
    }
    DEVICE float dot(const Unit& u, const Cursor&, const Codes& x) {
        Record r = x.records[0];
        i32 sum = dot16(codes(u, 0), x.chunk(0)) + dot16(codes(u, 1), x.chunk(1)), all = (i32)r.sums[0] + r.sums[1];
        float product = from_half((u16)u.factors) * (float)(sum - CENTRE * all);
        if (MINIMUM) product += from_half((u16)(u.factors >> 16)) * (float)all;
        return r.scale * product;
    }
    DEVICE void values(const u8* row, u32 blocks, u32 run, float* out) {
        Unit u;
        load(start(row, blocks, run / 2), 0, u);
        uint4 q = codes(u, run % 2);
        float d = from_half((u16)u.factors), m = MINIMUM ? from_half((u16)(u.factors >> 16)) : 0.0f;
#pragma unroll
        for (u32 n = 0; n < 16; n++) {
            float product = d * (float_of(q, n) - (float)CENTRE);
            out[n] = MINIMUM ? product + m : product;
        }
    }
};

typedef Small<false, false> Q4_0;
typedef Small<false, true> Q4_1;
typedef Small<true, false> Q5_0;
typedef Small<true, true> Q5_1;

// Floats, multiplied with the activations as they are. `x` has as many columns as whole units have.
template <u32 TYPE>
struct Float {
    static const u32 SIZE = TYPE == TYPE_F32 ? 4 : 2;
    static const u32 COLUMNS = 16 / SIZE;
    struct Unit {
        uint4 bits;
    };
    struct Cursor {
        const u8* at;
    };
    DEVICE Cursor start(const u8* row, u32, u32 unit) { return {row + (u64)unit * 16}; }
    DEVICE void move(Cursor& c, u32 units) { c.at += units * 16; }
    DEVICE void load(const Cursor& c, u64 offset, Unit& u) { u.bits = load_once(c.at + offset); }
    DEVICE u32 column(u32 unit) { return unit * COLUMNS; }
    DEVICE float one(const Unit& u, u32 n) {
        if (TYPE == TYPE_F32) return from_bits(n == 0 ? u.bits.x : n == 1 ? u.bits.y : n == 2 ? u.bits.z : u.bits.w);
        u32 word = n / 2 == 0 ? u.bits.x : n / 2 == 1 ? u.bits.y : n / 2 == 2 ? u.bits.z : u.bits.w;
        u16 half = (u16)(word >> n % 2 * 16);
        return TYPE == TYPE_F16 ? from_half(half) : from_bf16(half);
    }
    DEVICE float dot(const Unit& u, const Cursor&, const Plain& x) {
        const float4* at = (const float4*)x.floats;
        float sum = 0.0f;
#pragma unroll
        for (u32 n = 0; n < COLUMNS; n += 4) {
            float4 y = at[n / 4];
            sum += one(u, n) * y.x + one(u, n + 1) * y.y + one(u, n + 2) * y.z + one(u, n + 3) * y.w;
        }
        return sum;
    }
    // Rows are padded with zeros to whole units only: `columns` says where this row ends.
    DEVICE void values(const u8* row, u32 columns, u32 run, float* out) {
#pragma unroll
        for (u32 part = 0; part < 16 / COLUMNS; part++) {
            Unit u = {{0, 0, 0, 0}};
            u32 unit = run * (16 / COLUMNS) + part;
            if (unit * COLUMNS < columns) load(start(row, 0, unit), 0, u);
#pragma unroll
            for (u32 n = 0; n < COLUMNS; n++) out[part * COLUMNS + n] = one(u, n);
        }
    }
};

// 16 columns of a row, from 16 `run` on.
DEVICE void values_of(u32 type, const u8* row, u32 columns, u32 run, float* out) {
    switch (type) {
        case TYPE_F32: return Float<TYPE_F32>::values(row, columns, run, out);
        case TYPE_F16: return Float<TYPE_F16>::values(row, columns, run, out);
        case TYPE_BF16: return Float<TYPE_BF16>::values(row, columns, run, out);
        case TYPE_Q4_0: return Q4_0::values(row, columns / 32, run, out);
        case TYPE_Q4_1: return Q4_1::values(row, columns / 32, run, out);
        case TYPE_Q5_0: return Q5_0::values(row, columns / 32, run, out);
        case TYPE_Q5_1: return Q5_1::values(row, columns / 32, run, out);
        case TYPE_Q8_0: return Q8_0::values(row, columns / 32, run, out);
        case TYPE_Q4_K: return Q4K::values(row, columns / 256, run, out);
        case TYPE_Q5_K: return Q5K::values(row, columns / 256, run, out);
        default: return Q6K::values(row, columns / 256, run, out);
    }
}
