// The types of weights. A row's blocks are taken apart into planes, so that every load is aligned: all first fields, then
// all second ones, and so on (src/layout.rs has the order). K types whose blocks are whole 16 bytes stay as they are.
//
// A *unit* is what a lane takes at a time: 16 bytes of codes and what belongs to them, two runs of 16 columns each; or 16
// bytes of floats. Block types are multiplied with activations of 8 bits in exact integers.
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

// A row of activations.
struct Row8 {
    const i8* codes;
    const Record* records;
};

DEVICE Record record_at(const Row8& x, u32 at) { return x.records[at]; }

DEVICE i32 dot16(const uint4& codes, const i8* x) {
    uint4 y = *(const uint4*)x;
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
// Byte n of 16.
DEVICE u32 byte_of(const uint4& q, u32 n) {
    u32 word = n / 4 == 0 ? q.x : n / 4 == 1 ? q.y : n / 4 == 2 ? q.z : q.w;
    return word >> n % 4 * 8 & 0xffu;
}

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

struct Q4K {
    static const u32 COLUMNS = 32;
    struct Unit {
        uint4 codes;
        u32 factors;
        Scales scales;
    };
    DEVICE void load(const u8* row, u32, u32 unit, Unit& u) {
        const u8* block = row + (u64)(unit / 8) * 144;
        u32 chunk = unit % 8;
        u.codes = load_once(block + 16 + chunk * 16);
        uint4 header = load_16(block);
        u.factors = header.x;
        u.scales = scales_of(header, chunk / 2);
    }
    DEVICE float join(const Unit& u, u32 unit, const Row8& x, const uint4& low, const uint4& high) {
        u32 chunk = unit % 8, first = unit / 8 * 256 + chunk / 2 * 64 + chunk % 2 * 16;
        Record a = record_at(x, first / 32), b = record_at(x, first / 32 + 1);
        u32 half = chunk % 2;
        float low_sum = a.scale * (float)((i32)(u.scales.scales & 0xffu) * dot16(low, x.codes + first));
        float high_sum = b.scale * (float)((i32)(u.scales.scales >> 8) * dot16(high, x.codes + first + 32));
        float mins = a.scale * (float)((i32)(u.scales.mins & 0xffu) * (half ? a.sums[1] : a.sums[0])) +
                     b.scale * (float)((i32)(u.scales.mins >> 8) * (half ? b.sums[1] : b.sums[0]));
        return from_half((u16)u.factors) * (low_sum + high_sum) - from_half((u16)(u.factors >> 16)) * mins;
    }
    DEVICE float dot(const Unit& u, u32 unit, const Row8& x) {
        return join(u, unit, x, low_nibbles(u.codes), high_nibbles(u.codes));
    }
    DEVICE void find(u32 run, u32& unit, u32& part) {
        unit = run / 16 * 8 + run % 16 / 4 * 2 + run % 2;
        part = run % 4 / 2;
    }
    DEVICE void write(u32 factors, const Scales& scales, u32 part, const uint4& codes, float* out) {
        float d = from_half((u16)factors) * (float)(scales.scales >> part * 8 & 0xffu);
        float m = from_half((u16)(factors >> 16)) * (float)(scales.mins >> part * 8 & 0xffu);
#pragma unroll
        for (u32 n = 0; n < 16; n++) out[n] = d * (float)byte_of(codes, n) - m;
    }
    DEVICE void values(const u8* row, u32 blocks, u32 run, float* out) {
        u32 unit, part;
        find(run, unit, part);
        Unit u;
        load(row, blocks, unit, u);
        write(u.factors, u.scales, part, nibbles(u.codes, part), out);
    }
};

struct Q5K {
    static const u32 COLUMNS = 32;
    struct Unit {
        Q4K::Unit low;
        uint4 high;
    };
    DEVICE void load(const u8* row, u32, u32 unit, Unit& u) {
        const u8* block = row + (u64)(unit / 8) * 176;
        u32 chunk = unit % 8;
        u.low.codes = load_once(block + 48 + chunk * 16);
        u.high = load_16(block + 16 + chunk % 2 * 16);
        uint4 header = load_16(block);
        u.low.factors = header.x;
        u.low.scales = scales_of(header, chunk / 2);
    }
    DEVICE uint4 codes(const Unit& u, u32 unit, u32 part) {
        return with_bits(nibbles(u.low.codes, part), u.high, unit % 8 / 2 * 2 + part, 0x01010101u);
    }
    DEVICE float dot(const Unit& u, u32 unit, const Row8& x) {
        return Q4K::join(u.low, unit, x, codes(u, unit, 0), codes(u, unit, 1));
    }
    DEVICE void values(const u8* row, u32 blocks, u32 run, float* out) {
        u32 unit, part;
        Q4K::find(run, unit, part);
        Unit u;
        load(row, blocks, unit, u);
        Q4K::write(u.low.factors, u.low.scales, part, codes(u, unit, part), out);
    }
};

struct Q6K {
    static const u32 COLUMNS = 32;
    struct Unit {
        uint4 low, high;
        u16 scales, factor;
    };
    DEVICE void load(const u8* row, u32 blocks, u32 unit, Unit& u) {
        u32 block = unit / 8, chunk = unit % 8;
        const u8* high = row + (u64)blocks * 128;
        const u8* scales = high + (u64)blocks * 64;
        u.low = load_once(row + (u64)unit * 16);
        u.high = load_16(high + (u64)block * 64 + chunk / 4 * 32 + chunk % 2 * 16);
        const u8* of = scales + (u64)block * 16 + chunk / 4 * 8 + chunk % 4;
        u.scales = (u16)(load_1(of) | load_1(of + 4) << 8);
        u.factor = load_2(scales + (u64)blocks * 16 + (u64)block * 2);
    }
    DEVICE uint4 codes(const Unit& u, u32 unit, u32 part) {
        return with_bits(nibbles(u.low, part), u.high, unit % 4 / 2 * 2 + part * 4, 0x03030303u);
    }
    DEVICE float dot(const Unit& u, u32 unit, const Row8& x) {
        u32 chunk = unit % 8, first = unit / 8 * 256 + chunk / 4 * 128 + chunk % 4 * 16;
        Record a = record_at(x, first / 32), b = record_at(x, first / 32 + 2);
        u32 half = chunk % 2;
        i32 low = dot16(codes(u, unit, 0), x.codes + first) - 32 * (half ? a.sums[1] : a.sums[0]);
        i32 high = dot16(codes(u, unit, 1), x.codes + first + 64) - 32 * (half ? b.sums[1] : b.sums[0]);
        float sum = a.scale * (float)((i32)(i8)u.scales * low) + b.scale * (float)((i32)(i8)(u.scales >> 8) * high);
        return from_half(u.factor) * sum;
    }
    DEVICE void values(const u8* row, u32 blocks, u32 run, float* out) {
        u32 in_half = run % 8, unit = run / 16 * 8 + run % 16 / 8 * 4 + in_half % 4, part = in_half / 4;
        Unit u;
        load(row, blocks, unit, u);
        uint4 q = codes(u, unit, part);
        float d = from_half(u.factor) * (float)(i8)(u.scales >> part * 8);
#pragma unroll
        for (u32 n = 0; n < 16; n++) out[n] = d * (float)((i32)byte_of(q, n) - 32);
    }
};

struct Q8_0 {
    static const u32 COLUMNS = 32;
    struct Unit {
        uint4 a, b;
        u16 factor;
    };
    DEVICE void load(const u8* row, u32 blocks, u32 unit, Unit& u) {
        u.a = load_once(row + (u64)unit * 32);
        u.b = load_once(row + (u64)unit * 32 + 16);
        u.factor = load_2(row + (u64)blocks * 32 + (u64)unit * 2);
    }
    DEVICE float dot(const Unit& u, u32 unit, const Row8& x) {
        const i8* codes = x.codes + (u64)unit * 32;
        i32 sum = dot16(u.a, codes) + dot16(u.b, codes + 16);
        return from_half(u.factor) * record_at(x, unit).scale * (float)sum;
    }
    DEVICE void values(const u8* row, u32 blocks, u32 run, float* out) {
        Unit u;
        load(row, blocks, run / 2, u);
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
    DEVICE void load(const u8* row, u32 blocks, u32 unit, Unit& u) {
        u.codes = load_once(row + (u64)unit * 16);
        const u8* rest = row + (u64)blocks * 16;
        u.fifth = 0;
        if (FIFTH) {
            u.fifth = load_4(rest + (u64)unit * 4);
            rest += (u64)blocks * 4;
        }
        u.factors = MINIMUM ? load_4(rest + (u64)unit * 4) : load_2(rest + (u64)unit * 2);
    }
    DEVICE uint4 codes(const Unit& u, u32 part) {
        uint4 q = nibbles(u.codes, part);
        return FIFTH ? with_fifth(q, u.fifth >> part * 16) : q;
    }
    DEVICE float dot(const Unit& u, u32 unit, const Row8& x) {
        const i8* at = x.codes + (u64)unit * 32;
        Record r = record_at(x, unit);
        i32 sum = dot16(codes(u, 0), at) + dot16(codes(u, 1), at + 16), all = (i32)r.sums[0] + r.sums[1];
        float product = from_half((u16)u.factors) * (float)(sum - CENTRE * all);
        if (MINIMUM) product += from_half((u16)(u.factors >> 16)) * (float)all;
        return r.scale * product;
    }
    DEVICE void values(const u8* row, u32 blocks, u32 run, float* out) {
        Unit u;
        load(row, blocks, run / 2, u);
        uint4 q = codes(u, run % 2);
        float d = from_half((u16)u.factors), m = MINIMUM ? from_half((u16)(u.factors >> 16)) : 0.0f;
#pragma unroll
        for (u32 n = 0; n < 16; n++) {
            float product = d * (float)((i32)byte_of(q, n) - CENTRE);
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
    DEVICE void load(const u8* row, u32, u32 unit, Unit& u) { u.bits = load_once(row + (u64)unit * 16); }
    DEVICE float one(const Unit& u, u32 n) {
        if (TYPE == TYPE_F32) return from_bits(n == 0 ? u.bits.x : n == 1 ? u.bits.y : n == 2 ? u.bits.z : u.bits.w);
        u32 word = n / 2 == 0 ? u.bits.x : n / 2 == 1 ? u.bits.y : n / 2 == 2 ? u.bits.z : u.bits.w;
        u16 half = (u16)(word >> n % 2 * 16);
        return TYPE == TYPE_F16 ? from_half(half) : from_bf16(half);
    }
    DEVICE float dot(const Unit& u, u32 unit, const float* x) {
        const float4* at = (const float4*)(x + (u64)unit * COLUMNS);
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
            if (unit * COLUMNS < columns) load(row, 0, unit, u);
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
