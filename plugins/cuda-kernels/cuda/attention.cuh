// Attention over a cache. A block takes the queries of some heads of one row that look at the same keys, and a run of
// positions, in chunks: a thread computes the scores of one position; then threads take elements of values. Runs are joined in
// their order by the block that ends last.
#pragma once
#include "cache.cuh"

static const u32 CHUNK = 128, SHARED_ELEMENTS = 4096, MOST_SPLITS = 64;
static const u32 CAUSAL = 0, FULL = 1, WINDOW = 2, CHUNKS = 3, PREFIX = 4;

struct Attention {
    Place query, out;
    Cache cache;
    // Each row's position, sequence, and how many positions its sequence has.
    u64 positions, sequences, lengths, sinks, slopes, partials, counters;
    Rounded to;
    // Query heads of a key head, how many of them a block takes, and how many blocks that makes.
    u32 group, per_block, sets, view, is_view, mask, window, splits;
    float scale, soft_cap;
};

// The positions that a query sees.
struct Range {
    u32 from, to;
};
DEVICE Range visible(const Attention& p, u32 position, u32 length) {
    u32 own = position + 1 < length ? position + 1 : length;
    switch (p.mask) {
        case FULL: return {0, length};
        case WINDOW: return {own > p.window ? own - p.window : 0, own};
        case CHUNKS: return {position / p.window * p.window, own};
        case PREFIX: {
            u32 prefix = p.window < length ? p.window : length;
            return {0, own > prefix ? own : prefix};
        }
        default: return {0, own};
    }
}

// Products of a key with the queries. Rows of keys and queries are padded with zeros to 16 bytes and as many elements.
template <u32 CELLS, u32 GROUP>
DEVICE void products(const u8* key, const float* queries, u32 width, u32 pitch, float* sums) {
#pragma unroll
    for (u32 g = 0; g < GROUP; g++) sums[g] = 0.0f;
    if (CELLS == CELLS_F32) {
        for (u32 n = 0; n < width; n += 4) {
            float4 k = *(const float4*)(key + n * 4);
#pragma unroll
            for (u32 g = 0; g < GROUP; g++) {
                float4 q = *(const float4*)(queries + g * pitch + n);
                sums[g] += q.x * k.x + q.y * k.y + q.z * k.z + q.w * k.w;
            }
        }
    } else if (CELLS == CELLS_F16) {
        for (u32 n = 0; n < width; n += 8) {
            uint4 k = *(const uint4*)(key + n * 2);
            float f[8] = {from_half((u16)k.x), from_half((u16)(k.x >> 16)), from_half((u16)k.y), from_half((u16)(k.y >> 16)),
                          from_half((u16)k.z), from_half((u16)(k.z >> 16)), from_half((u16)k.w), from_half((u16)(k.w >> 16))};
#pragma unroll
            for (u32 g = 0; g < GROUP; g++) {
                float4 a = *(const float4*)(queries + g * pitch + n), b = *(const float4*)(queries + g * pitch + n + 4);
                sums[g] += a.x * f[0] + a.y * f[1] + a.z * f[2] + a.w * f[3] + b.x * f[4] + b.y * f[5] + b.z * f[6] + b.w * f[7];
            }
        }
    } else {
        const u16* scales = (const u16*)(key + scales_at(width));
        for (u32 n = 0; n < width; n += 16) {
            uint4 k = *(const uint4*)(key + n);
            float scale = from_half(scales[n / 32]);
            float f[16];
#pragma unroll
            for (u32 i = 0; i < 16; i++) f[i] = scale * (float)(i8)byte_of(k, i);
#pragma unroll
            for (u32 g = 0; g < GROUP; g++) {
                const float* q = queries + g * pitch + n;
                float sum = 0.0f;
#pragma unroll
                for (u32 i = 0; i < 16; i++) sum += q[i] * f[i];
                sums[g] += sum;
            }
        }
    }
}

// Element `at` of a row of `width` cells.
template <u32 CELLS>
DEVICE float cell(const u8* row, u32 width, u32 at) {
    if (CELLS == CELLS_F32) return ((const float*)row)[at];
    if (CELLS == CELLS_F16) return from_half(((const u16*)row)[at]);
    return from_half(((const u16*)(row + scales_at(width)))[at / 32]) * (float)((const i8*)row)[at];
}

template <u32 CELLS, u32 GROUP>
DEVICE void attend(const Attention& p) {
    alignas(16) __shared__ float queries[SHARED_ELEMENTS];
    __shared__ float sums[SHARED_ELEMENTS];
    __shared__ float scores[GROUP][CHUNK];
    __shared__ float most[GROUP], total[GROUP], factor[GROUP], scratch[32];
    __shared__ u64 pages[CHUNK / PAGE + 1];
    __shared__ u32 is_last;
    wait_for_previous();
    u32 t = thread_x(), split = block_x(), row = block_z(), key_head = block_y() / p.sets, set = block_y() % p.sets;
    u32 in_key = set * p.per_block, left = p.group - in_key, heads = left < p.per_block ? left : p.per_block;
    u32 first_head = key_head * p.group + in_key, key = p.cache.key, value = p.cache.value;
    u32 pitch = (key + 15) / 16 * 16;
    const float* query = row_at(p.query, row) + first_head * key;
    for (u32 n = t; n < GROUP * pitch; n += CHUNK) {
        u32 g = n / pitch, at = n % pitch;
        queries[n] = g < heads && at < key ? query[g * key + at] : 0.0f;
    }
    for (u32 n = t; n < GROUP * value; n += CHUNK) sums[n] = 0.0f;
    if (t < GROUP) most[t] = -INFINITY, total[t] = 0.0f;
    u32 position = ((const u32*)p.positions)[row], sequence = ((const u32*)p.sequences)[row];
    Range seen = visible(p, position, ((const u32*)p.lengths)[row]);
    u32 count = seen.to > seen.from ? seen.to - seen.from : 0;
    u32 run = (count + CHUNK * p.splits - 1) / (CHUNK * p.splits) * CHUNK;
    u32 start = seen.from + split * run, end = start + run < seen.to ? start + run : seen.to;
    u32 pairs = (value + 1) / 2, parts = pairs >= CHUNK ? 1 : CHUNK / pairs < 4 ? CHUNK / pairs : 4;
    for (u32 chunk = start; chunk < end; chunk += CHUNK) {
        u32 here = end - chunk < CHUNK ? end - chunk : CHUNK;
        block_sync();
        if (t < CHUNK / PAGE + 1 && (chunk / PAGE + t) * PAGE < end)
            pages[t] = (u64)page_of(p.cache, sequence, (chunk / PAGE + t) * PAGE);
        block_sync();
        float mine[GROUP];
        if (t < here) {
            u32 at = chunk + t;
            const u8* k = key_at(p.cache, (u8*)pages[at / PAGE - chunk / PAGE], key_head, at);
            products<CELLS, GROUP>(k, queries, key, pitch, mine);
        }
#pragma unroll
        for (u32 g = 0; g < GROUP; g++) {
            if (g >= heads) continue;
            float score = -INFINITY;
            if (t < here) {
                score = mine[g] * p.scale;
                if (p.soft_cap != 0.0f) score = p.soft_cap * tanhf(score / p.soft_cap);
                if (p.slopes) {
                    u32 at = chunk + t, distance = position > at ? position - at : at - position;
                    score -= ((const float*)p.slopes)[first_head + g] * (float)distance;
                }
            }
            float top = larger(most[g], block_most(score, scratch));
            float weight = t < here ? expf(score - top) : 0.0f;
            // Where nothing but -infinity was seen, the difference is no number.
            if (t < here && score == -INFINITY) weight = 0.0f;
            scores[g][t] = weight;
            float sum = block_sum(weight, scratch);
            if (t == 0) {
                factor[g] = most[g] == -INFINITY ? 0.0f : expf(most[g] - top);
                total[g] = total[g] * factor[g] + sum;
            }
            block_sync();
            if (t == 0) most[g] = top;
        }
        block_sync();
        for (u32 first = 0; first < pairs; first += CHUNK) {
            u32 pair = first + t % (pairs < CHUNK ? pairs : CHUNK), part = pairs < CHUNK ? t / pairs : 0;
            bool is_mine = part < parts && pair < pairs;
            float a[GROUP], b[GROUP];
#pragma unroll
            for (u32 g = 0; g < GROUP; g++) a[g] = b[g] = 0.0f;
            if (is_mine) {
                u32 at = pair * 2, has_two = at + 1 < value;
#pragma unroll 4
                for (u32 n = part; n < here; n += parts) {
                    u32 of = chunk + n;
                    u8* page = (u8*)pages[of / PAGE - chunk / PAGE];
                    const u8* v = p.is_view ? key_at(p.cache, page, key_head, of) : value_at(p.cache, page, key_head, of);
                    u32 width = p.is_view ? key : value;
                    float x = cell<CELLS>(v, width, p.view + at), y = has_two ? cell<CELLS>(v, width, p.view + at + 1) : 0.0f;
#pragma unroll
                    for (u32 g = 0; g < GROUP; g++) {
                        a[g] += scores[g][n] * x;
                        b[g] += scores[g][n] * y;
                    }
                }
            }
            for (u32 turn = 0; turn < parts; turn++) {
                if (is_mine && part == turn) {
#pragma unroll
                    for (u32 g = 0; g < GROUP; g++) {
                        if (g >= heads) continue;
                        float* sum = sums + g * value + pair * 2;
                        sum[0] = sum[0] * (turn == 0 ? factor[g] : 1.0f) + a[g];
                        if (pair * 2 + 1 < value) sum[1] = sum[1] * (turn == 0 ? factor[g] : 1.0f) + b[g];
                    }
                }
                block_sync();
            }
        }
    }
    block_sync();
    if (p.splits > 1) {
        u32 unit = row * (p.cache.heads * p.sets) + block_y(), size = value + 2;
        float* partials = (float*)p.partials + (u64)unit * p.splits * p.per_block * size;
        float* own = partials + (u64)split * p.per_block * size;
        for (u32 n = t; n < heads * value; n += CHUNK) own[n / value * size + 2 + n % value] = sums[n];
        if (t < heads) own[t * size] = most[t], own[t * size + 1] = total[t];
        fence();
        block_sync();
        if (t == 0) is_last = count_up((u32*)p.counters + unit, p.splits - 1) == p.splits - 1;
        block_sync();
        if (!is_last) return;
        fence();
        if (t < heads) {
            float top = -INFINITY, all = 0.0f;
            for (u32 s = 0; s < p.splits; s++) {
                const volatile float* of = partials + ((u64)s * p.per_block + t) * size;
                if (of[1] != 0.0f || of[1] != of[1]) top = larger(top, of[0]);
            }
            for (u32 s = 0; s < p.splits; s++) {
                const volatile float* of = partials + ((u64)s * p.per_block + t) * size;
                if (of[1] != 0.0f || of[1] != of[1]) all += of[1] * expf(of[0] - top);
            }
            most[t] = top, total[t] = all;
        }
        block_sync();
        for (u32 n = t; n < heads * value; n += CHUNK) {
            u32 g = n / value;
            float sum = 0.0f;
            for (u32 s = 0; s < p.splits; s++) {
                const volatile float* of = partials + ((u64)s * p.per_block + g) * size;
                if (of[1] != 0.0f || of[1] != of[1]) sum += of[2 + n % value] * expf(of[0] - most[g]);
            }
            sums[n] = sum;
        }
        block_sync();
    }
    if (t < heads) {
        float by = 1.0f, all = total[t];
        if (p.sinks && all != 0.0f) {
            float sink = ((const float*)p.sinks)[first_head + t], top = sink > most[t] ? sink : most[t];
            by = expf(most[t] - top);
            all = all * by + expf(sink - top);
        }
        factor[t] = by, total[t] = all;
    }
    block_sync();
    float* out = row_at(p.out, row) + first_head * value;
    for (u32 n = t; n - lane() < heads * value; n += CHUNK) {
        float y = 0.0f;
        if (n < heads * value) {
            u32 g = n / value;
            y = total[g] == 0.0f ? 0.0f : sums[n] * factor[g] / total[g];
            out[n] = y;
        }
        if (p.to.codes) round_into(p.to, row, first_head * value + n, y);
    }
}

#define ATTENTION(name, CELLS, GROUP) \
    KERNEL(attention_##name##_##GROUP, Attention, 128) { \
        release_next(); \
        attend<CELLS, GROUP>(p); \
    }
#define ATTENTIONS(name, CELLS) ATTENTION(name, CELLS, 1) ATTENTION(name, CELLS, 2) ATTENTION(name, CELLS, 4) ATTENTION(name, CELLS, 8)
