// Attention over a cache. A block takes the queries of some heads of one row that look at the same keys, and a run of
// positions, in chunks: four lanes compute the scores of a position, a warp a head's softmax, and then a warp some heads'
// values. Little code matters as much as few steps: what runs once is fetched once. Runs are joined in their order by the
// block that ends last.
#pragma once
#include "cache.cuh"

static const u32 CHUNK = 128, SHARED_ELEMENTS = 4096;
// Runs of positions that blocks take apart are multiples of this.
static const u32 RUN = 32, MOST_SPLITS = 64;
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

// 16 bytes of cells, as floats.
template <u32 CELLS>
struct Cells {
    static const u32 COUNT = CELLS == CELLS_F32 ? 4 : CELLS == CELLS_F16 ? 8 : 16;
    // `at` is a multiple of COUNT, and rows are padded to 16 bytes.
    DEVICE void load(const u8* row, u32 width, u32 at, float* out) {
        if (CELLS == CELLS_F32) {
            float4 v = *(const float4*)(row + at * 4);
            out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
        } else if (CELLS == CELLS_F16) {
            uint4 v = *(const uint4*)(row + at * 2);
            u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (u32 n = 0; n < 4; n++) out[2 * n] = from_half((u16)words[n]), out[2 * n + 1] = from_half((u16)(words[n] >> 16));
        } else {
            uint4 v = *(const uint4*)(row + at);
            float scale = from_half(((const u16*)(row + scales_at(width)))[at / 32]);
#pragma unroll
            for (u32 n = 0; n < 16; n++) out[n] = scale * (float)(i8)byte_of(v, n);
        }
    }
    // From any place on: one by one, where that is no multiple of COUNT. Those beyond the row's end are zero.
    DEVICE void load_any(const u8* row, u32 width, u32 at, bool is_whole, float* out) {
        if (is_whole) return load(row, width, at, out);
#pragma unroll
        for (u32 n = 0; n < COUNT; n++) {
            u32 one = at + n;
            if (one >= width) out[n] = 0.0f;
            else if (CELLS == CELLS_F32) out[n] = ((const float*)row)[one];
            else if (CELLS == CELLS_F16) out[n] = from_half(((const u16*)row)[one]);
            else out[n] = from_half(((const u16*)(row + scales_at(width)))[one / 32]) * (float)((const i8*)row)[one];
        }
    }
};

// Lanes that compute a score together.
static const u32 TOGETHER = 4;

template <u32 CELLS, u32 GROUP>
DEVICE void attend(const Attention& p) {
    typedef Cells<CELLS> C;
    // Heads of a warp, and warps of a head, when values are added up.
    static const u32 WARPS = CHUNK / WARP, HEADS = GROUP > WARPS ? GROUP / WARPS : 1, SHARING = GROUP < WARPS ? WARPS / GROUP : 1;
    alignas(16) __shared__ float queries[SHARED_ELEMENTS];
    __shared__ float sums[SHARED_ELEMENTS];
    __shared__ float scores[GROUP][CHUNK];
    __shared__ float most[GROUP], total[GROUP], factor[GROUP];
    __shared__ u64 pages[CHUNK / PAGE + 1];
    __shared__ u32 is_last;
    wait_for_previous();
    u32 t = thread_x(), split = block_x(), row = block_z(), key_head = block_y() / p.sets, set = block_y() % p.sets;
    u32 position = ((const u32*)p.positions)[row], sequence = ((const u32*)p.sequences)[row];
    u32 length = ((const u32*)p.lengths)[row];
    u32 in_key = set * p.per_block, left = p.group - in_key, heads = left < p.per_block ? left : p.per_block;
    u32 first_head = key_head * p.group + in_key, key = p.cache.key, value = p.cache.value;
    u32 pitch = (key + 15) / 16 * 16;
    const float* query = row_at(p.query, row) + first_head * key;
    // All heads' elements are on their way before the first is stored.
#pragma unroll 1
    for (u32 n = t; n < pitch; n += CHUNK) {
        float mine[GROUP];
#pragma unroll
        for (u32 g = 0; g < GROUP; g++) mine[g] = g < heads && n < key ? query[g * key + n] * p.scale : 0.0f;
#pragma unroll
        for (u32 g = 0; g < GROUP; g++) queries[g * pitch + n] = mine[g];
    }
#pragma unroll 1
    for (u32 n = t; n < GROUP * value; n += CHUNK) sums[n] = 0.0f;
    if (t < GROUP) most[t] = -INFINITY, total[t] = 0.0f;
    Range seen = visible(p, position, length);
    u32 count = seen.to > seen.from ? seen.to - seen.from : 0;
    u32 run = (count + RUN * p.splits - 1) / (RUN * p.splits) * RUN;
    u32 start = seen.from + split * run, end = start + run < seen.to ? start + run : seen.to;
    // Lanes that take a position's value together, each 16 bytes of it.
    u32 vectors = (value + C::COUNT - 1) / C::COUNT, across = 1;
    while (across < vectors && across < WARP) across *= 2;
    bool is_whole = p.view % C::COUNT == 0;
#pragma unroll 1
    for (u32 chunk = start; chunk < end; chunk += CHUNK) {
        u32 here = end - chunk < CHUNK ? end - chunk : CHUNK;
        block_sync();
        if (t < CHUNK / PAGE + 1 && (chunk / PAGE + t) * PAGE < end)
            pages[t] = (u64)page_of(p.cache, sequence, (chunk / PAGE + t) * PAGE);
        block_sync();
#pragma unroll 1
        for (u32 n = t / TOGETHER; n - lane() / TOGETHER < here; n += CHUNK / TOGETHER) {
            float mine[GROUP];
#pragma unroll
            for (u32 g = 0; g < GROUP; g++) mine[g] = 0.0f;
            u32 at = chunk + (n < here ? n : 0);
            const u8* k = key_at(p.cache, (u8*)pages[at / PAGE - chunk / PAGE], key_head, at);
#pragma unroll 4
            for (u32 e = t % TOGETHER * C::COUNT; e < key; e += TOGETHER * C::COUNT) {
                float f[C::COUNT];
                C::load(k, key, e, f);
#pragma unroll
                for (u32 g = 0; g < GROUP; g++)
#pragma unroll
                    for (u32 i = 0; i < C::COUNT; i += 4) {
                        float4 q = *(const float4*)(queries + g * pitch + e + i);
                        mine[g] += q.x * f[i] + q.y * f[i + 1] + q.z * f[i + 2] + q.w * f[i + 3];
                    }
            }
#pragma unroll
            for (u32 g = 0; g < GROUP; g++) {
                float score = mine[g];
#pragma unroll
                for (int mask = TOGETHER / 2; mask > 0; mask /= 2) score += shuffle_xor(score, mask);
                if (t % TOGETHER == g % TOGETHER) scores[g][n] = score;
            }
        }
        block_sync();
        // A warp takes a head's scores.
#pragma unroll 1
        for (u32 g = warp(); g < heads; g += CHUNK / WARP) {
            float mine[CHUNK / WARP], top = most[g], sum = 0.0f;
#pragma unroll
            for (u32 n = 0; n < CHUNK / WARP; n++) {
                u32 place = n * WARP + lane(), at = chunk + place;
                float score = scores[g][place];
                if (p.soft_cap != 0.0f) score = p.soft_cap * tanhf(score / p.soft_cap);
                if (p.slopes) {
                    u32 distance = position > at ? position - at : at - position;
                    score -= ((const float*)p.slopes)[first_head + g] * (float)distance;
                }
                mine[n] = place < here ? score : -INFINITY;
                top = larger(top, mine[n]);
            }
            top = warp_most(top);
#pragma unroll
            for (u32 n = 0; n < CHUNK / WARP; n++) {
                // Where nothing but -infinity was seen, the difference is no number.
                float weight = mine[n] == -INFINITY ? 0.0f : expf(mine[n] - top);
                scores[g][n * WARP + lane()] = weight;
                sum += weight;
            }
            sum = warp_sum(sum);
            warp_sync();
            if (lane() == 0) {
                factor[g] = most[g] == -INFINITY ? 0.0f : expf(most[g] - top);
                total[g] = total[g] * factor[g] + sum;
                most[g] = top;
            }
        }
        block_sync();
        // A warp takes some heads, or, where there are fewer heads than warps, every so many positions of one.
        u32 head = warp() / SHARING * HEADS, part = warp() % SHARING;
#pragma unroll 1
        for (u32 first = 0; first < vectors; first += WARP) {
            u32 vector = first + lane() % across, at = vector * C::COUNT;
            float acc[HEADS][C::COUNT];
#pragma unroll
            for (u32 g = 0; g < HEADS; g++)
#pragma unroll
                for (u32 i = 0; i < C::COUNT; i++) acc[g][i] = 0.0f;
            if (vector < vectors && head < heads) {
#pragma unroll 8
                for (u32 n = lane() / across * SHARING + part; n < here; n += WARP / across * SHARING) {
                    u32 of = chunk + n;
                    u8* page = (u8*)pages[of / PAGE - chunk / PAGE];
                    const u8* v = p.is_view ? key_at(p.cache, page, key_head, of) : value_at(p.cache, page, key_head, of);
                    float f[C::COUNT];
                    C::load_any(v, p.is_view ? key : value, p.view + at, is_whole, f);
#pragma unroll
                    for (u32 g = 0; g < HEADS; g++) {
                        float weight = scores[head + g][n];
#pragma unroll
                        for (u32 i = 0; i < C::COUNT; i++) acc[g][i] += weight * f[i];
                    }
                }
            }
#pragma unroll 1
            for (u32 mask = across; mask < WARP; mask *= 2)
#pragma unroll
                for (u32 g = 0; g < HEADS; g++)
#pragma unroll
                    for (u32 i = 0; i < C::COUNT; i++) acc[g][i] += shuffle_xor(acc[g][i], mask);
#pragma unroll 1
            for (u32 turn = 0; turn < SHARING; turn++) {
                if (part == turn && lane() < across && vector < vectors) {
#pragma unroll
                    for (u32 g = 0; g < HEADS; g++) {
                        if (head + g >= heads) continue;
                        float by = turn == 0 ? factor[head + g] : 1.0f;
                        float* sum = sums + (head + g) * value + at;
#pragma unroll
                        for (u32 i = 0; i < C::COUNT; i++)
                            if (at + i < value) sum[i] = sum[i] * by + acc[g][i];
                    }
                }
                if (SHARING > 1) block_sync();
            }
        }
    }
    block_sync();
    if (p.splits > 1) {
        u32 unit = row * (p.cache.heads * p.sets) + block_y(), size = value + 2;
        float* partials = (float*)p.partials + (u64)unit * p.splits * p.per_block * size;
        float* own = partials + (u64)split * p.per_block * size;
#pragma unroll 1
        for (u32 n = t; n < heads * value; n += CHUNK) own[n / value * size + 2 + n % value] = sums[n];
        if (t < heads) own[t * size] = most[t], own[t * size + 1] = total[t];
        fence();
        block_sync();
        if (t == 0) is_last = count_up((u32*)p.counters + unit, p.splits - 1) == p.splits - 1;
        block_sync();
        if (!is_last) return;
        fence();
        // What each run counts for: the exponential of how far its largest score is below the largest of all.
        float* weights = &scores[0][0];
#pragma unroll 1
        for (u32 g = warp(); g < heads; g += CHUNK / WARP) {
            float tops[MOST_SPLITS / WARP], totals[MOST_SPLITS / WARP], top = -INFINITY, all = 0.0f;
#pragma unroll
            for (u32 n = 0; n < MOST_SPLITS / WARP; n++) {
                u32 s = n * WARP + lane();
                const float* of = partials + ((u64)s * p.per_block + g) * size;
                tops[n] = s < p.splits ? load_shared(of) : -INFINITY;
                totals[n] = s < p.splits ? load_shared(of + 1) : 0.0f;
                if (totals[n] != 0.0f) top = larger(top, tops[n]);
            }
            top = warp_most(top);
#pragma unroll
            for (u32 n = 0; n < MOST_SPLITS / WARP; n++) {
                float weight = totals[n] != 0.0f ? expf(tops[n] - top) : 0.0f;
                weights[g * CHUNK + n * WARP + lane()] = weight;
                all += totals[n] != 0.0f ? totals[n] * weight : 0.0f;
            }
            all = warp_sum(all);
            if (lane() == 0) most[g] = top, total[g] = all;
        }
        block_sync();
#pragma unroll 1
        for (u32 n = t; n < heads * value; n += CHUNK) {
            u32 g = n / value;
            const float* of = partials + g * size + 2 + n % value;
            float sum = 0.0f;
#pragma unroll 8
            for (u32 s = 0; s < p.splits; s++) {
                float weight = weights[g * CHUNK + s], x = load_shared(of + (u64)s * p.per_block * size);
                sum += weight != 0.0f ? weight * x : 0.0f;
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
    float* out = row_at(p.out, row);
    u32 all = heads * value;
#pragma unroll 1
    for (u32 n = t * 4; n - lane() * 4 < all; n += CHUNK * 4) {
        float y[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            if (n + i >= all) continue;
            u32 g = (n + i) / value;
            y[i] = total[g] == 0.0f ? 0.0f : sums[n + i] * factor[g] / total[g];
            out[first_head * value + n + i] = y[i];
        }
        if (p.to.codes) round_into(p.to, row, first_head * value + n, {y[0], y[1], y[2], y[3]}, n < all);
    }
}

#define ATTENTION(name, CELLS, GROUP) \
    KERNEL(attention_##name##_##GROUP, Attention, 128) { \
        release_next(); \
        attend<CELLS, GROUP>(p); \
    }
#define ATTENTIONS(name, CELLS) ATTENTION(name, CELLS, 1) ATTENTION(name, CELLS, 2) ATTENTION(name, CELLS, 4) ATTENTION(name, CELLS, 8)
