// Operations on rows of values: embeddings, norms, activations, sums, the choice of experts and tokens.
#include "activations.cuh"

struct Embed {
    u64 table, index;
    Place out;
    u32 type, row_bytes, columns, offset;
    float scale;
    u32 pad;
};

// Rows of a table. Without an index, always the one at the offset. A thread takes 16 columns.
KERNEL(embed, Embed, 128) {
    release_next();
    wait_for_previous();
    u32 run = block_x() * 128 + thread_x(), row = block_y();
    if (run * 16 >= p.columns) return;
    u32 at = (p.index ? ((const u32*)p.index)[row] : 0) + p.offset;
    float values[16];
    values_of(p.type, (const u8*)p.table + (u64)at * p.row_bytes, p.columns, run, values);
    float* out = row_at(p.out, row);
    for (u32 n = 0; n < 16 && run * 16 + n < p.columns; n++) out[run * 16 + n] = values[n] * p.scale;
}

struct Copy {
    Place x, out;
};

// Rows that the batch brings.
KERNEL(copy_rows, Copy, 256) {
    release_next();
    wait_for_previous();
    u32 at = block_x() * 256 + thread_x(), row = block_y();
    if (at < p.out.width) row_at(p.out, row)[at] = row_at(p.x, row)[at];
}

struct Norm {
    Place x, out;
    u64 gain, bias;
    Rounded to;
    // Elements of a part that is normalized on its own, and by how many elements the gain of the next part lies further.
    u32 width, gain_step, bias_step, is_centred;
    float epsilon;
    u32 pad;
};

// Rows that are aligned to 16 bytes and are read once: a thread keeps KEPT vectors of four elements.
template <u32 KEPT>
DEVICE void normalize(const Norm& p) {
    __shared__ float scratch[32];
    u32 head = block_x(), row = block_y(), first = head * p.width, width = p.width, step = threads_x() * 4;
    u32 begin = thread_x() * 4;
    // What does not depend on the kernel before is fetched first.
    const float* gain = (const float*)p.gain + head * p.gain_step;
    const float* bias = (const float*)p.bias + head * p.bias_step;
    float4 gains[KEPT], kept[KEPT];
#pragma unroll
    for (u32 n = 0; n < KEPT; n++) {
        gains[n] = {1.0f, 1.0f, 1.0f, 1.0f};
        if (p.gain && begin + n * step < width) gains[n] = *(const float4*)(gain + begin + n * step);
    }
    wait_for_previous();
    const float* x = row_at(p.x, row) + first;
    float* out = row_at(p.out, row) + first;
#pragma unroll
    for (u32 n = 0; n < KEPT; n++) {
        kept[n] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (begin + n * step < width) kept[n] = *(const float4*)(x + begin + n * step);
    }
    float sum = 0.0f;
    if (p.is_centred) {
#pragma unroll
        for (u32 n = 0; n < KEPT; n++) sum += kept[n].x + kept[n].y + kept[n].z + kept[n].w;
        float mean = block_sum(sum, scratch) / (float)width;
#pragma unroll
        for (u32 n = 0; n < KEPT; n++)
            if (begin + n * step < width) kept[n] = {kept[n].x - mean, kept[n].y - mean, kept[n].z - mean, kept[n].w - mean};
    }
    sum = 0.0f;
#pragma unroll
    for (u32 n = 0; n < KEPT; n++)
        sum += kept[n].x * kept[n].x + kept[n].y * kept[n].y + (kept[n].z * kept[n].z + kept[n].w * kept[n].w);
    float factor = 1.0f / sqrtf(block_sum(sum, scratch) / (float)width + p.epsilon);
#pragma unroll
    for (u32 n = 0; n < KEPT; n++) {
        u32 at = begin + n * step;
        bool is_there = at < width;
        float4 y = {kept[n].x * factor * gains[n].x, kept[n].y * factor * gains[n].y, kept[n].z * factor * gains[n].z,
                    kept[n].w * factor * gains[n].w};
        if (p.bias && is_there) {
            float4 b = *(const float4*)(bias + at);
            y = {y.x + b.x, y.y + b.y, y.z + b.z, y.w + b.w};
        }
        if (is_there) *(float4*)(out + at) = y;
        if (p.to.codes) round_into(p.to, row, first + at, y, is_there);
    }
}

KERNEL(norm_1, Norm, 512) {
    release_next();
    normalize<1>(p);
}
KERNEL(norm_4, Norm, 512) {
    release_next();
    normalize<4>(p);
}

// Rows of any width, wherever they lie, which are read twice.
KERNEL(norm_any, Norm, 512) {
    release_next();
    __shared__ float scratch[32];
    wait_for_previous();
    u32 head = block_x(), row = block_y(), first = head * p.width, width = p.width, step = threads_x() * 4;
    const float* gain = (const float*)p.gain + head * p.gain_step;
    const float* bias = (const float*)p.bias + head * p.bias_step;
    const float* x = row_at(p.x, row) + first;
    float* out = row_at(p.out, row) + first;
    float mean = 0.0f, sum = 0.0f;
    if (p.is_centred) {
#pragma unroll 1
        for (u32 n = thread_x(); n < width; n += threads_x()) sum += x[n];
        mean = block_sum(sum, scratch) / (float)width;
    }
    sum = 0.0f;
#pragma unroll 1
    for (u32 n = thread_x(); n < width; n += threads_x()) sum += (x[n] - mean) * (x[n] - mean);
    float factor = 1.0f / sqrtf(block_sum(sum, scratch) / (float)width + p.epsilon);
#pragma unroll 1
    for (u32 at = thread_x() * 4; at - lane() * 4 < width; at += step) {
        float4 y = load_four(x, at, width);
        y = {(y.x - mean) * factor, (y.y - mean) * factor, (y.z - mean) * factor, (y.w - mean) * factor};
        if (p.gain) {
            float4 g = load_four(gain, at, width);
            y = {y.x * g.x, y.y * g.y, y.z * g.z, y.w * g.w};
        }
        if (p.bias) {
            float4 b = load_four(bias, at, width);
            y = {y.x + b.x, y.y + b.y, y.z + b.z, y.w + b.w};
        }
        store_four(out, at, width, y);
        if (p.to.codes) round_into(p.to, row, first + at, y, at < width);
    }
}

static const u32 SILU = 0, GELU_ERF = 1, GELU_TANH = 2, GELU_QUICK = 3, RELU = 4, RELU_SQUARED = 5, SWIGLU_CLAMPED = 6,
                 SIGMOID = 7;

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

DEVICE float activated(u32 kind, float x, float up, float alpha, float limit) {
    switch (kind) {
        case SILU: return x / (1.0f + expf(-x));
        case GELU_ERF: return 0.5f * x * erfcf(x * -0.70710678118654752f);
        case GELU_TANH: return x * sigmoid(2.0f * 0.7978845608028654f * (x + 0.044715f * x * x * x));
        case GELU_QUICK: return x * sigmoid(1.702f * x);
        case RELU: return x < 0.0f ? 0.0f : x;
        case RELU_SQUARED: return x < 0.0f ? 0.0f : x * x;
        case SWIGLU_CLAMPED: {
            float gate = x > limit ? limit : x;
            up = up > limit ? limit : up;
            up = up < -limit ? -limit : up;
            return gate * sigmoid(alpha * gate) * (up + 1.0f);
        }
        case SIGMOID: return sigmoid(x);
        default: return tanhf(x);
    }
}

struct Activate {
    // Without a width, there is nothing to multiply.
    Place gate, up, out;
    Rounded to;
    u32 kind;
    float alpha, limit;
    u32 pad;
};

// A thread takes four elements.
KERNEL(activate, Activate, 128) {
    release_next();
    wait_for_previous();
    u32 at = (block_x() * 128 + thread_x()) * 4, row = block_y(), width = p.out.width;
    if (at - lane() * 4 >= width) return;
    float4 x = load_four(row_at(p.gate, row), at, width), up = {1.0f, 1.0f, 1.0f, 1.0f};
    if (p.up.width) up = load_four(row_at(p.up, row), at, width);
    float4 y = {activated(p.kind, x.x, up.x, p.alpha, p.limit), activated(p.kind, x.y, up.y, p.alpha, p.limit),
                activated(p.kind, x.z, up.z, p.alpha, p.limit), activated(p.kind, x.w, up.w, p.alpha, p.limit)};
    if (p.kind != SWIGLU_CLAMPED) y = {y.x * up.x, y.y * up.y, y.z * up.z, y.w * up.w};
    store_four(row_at(p.out, row), at, width, y);
    if (p.to.codes) round_into(p.to, row, at, y, at < width);
}

static const u32 ADD = 0, MULTIPLY = 1;

struct Binary {
    Place a, b, out;
    u32 kind, pad;
};

KERNEL(binary, Binary, 256) {
    release_next();
    wait_for_previous();
    u32 at = block_x() * 256 + thread_x(), row = block_y();
    if (at >= p.out.width) return;
    float a = row_at(p.a, row)[at], b = row_at(p.b, row)[p.b.width == 1 ? 0 : at];
    row_at(p.out, row)[at] = p.kind == ADD ? a + b : p.kind == MULTIPLY ? a * b : a - b;
}

static const u32 AFFINE = 0, SOFT_CAP = 1, CLAMP = 2;

struct Unary {
    Place x, out;
    u32 kind;
    float a, b;
    u32 pad;
};

KERNEL(unary, Unary, 256) {
    release_next();
    wait_for_previous();
    u32 at = block_x() * 256 + thread_x(), row = block_y();
    if (at >= p.out.width) return;
    float x = row_at(p.x, row)[at], y;
    switch (p.kind) {
        case AFFINE: y = p.a * x + p.b; break;
        case SOFT_CAP: y = p.a * tanhf(x / p.a); break;
        case CLAMP:
            // Comparisons, for a NaN must remain.
            y = x < p.a ? p.a : x;
            y = y > p.b ? p.b : y;
            break;
        default: y = sigmoid(x);
    }
    row_at(p.out, row)[at] = y;
}

struct Combine {
    // Without a width, there is no residual.
    Place x, route, out, residual;
    u32 used, pad;
};

KERNEL(combine, Combine, 256) {
    release_next();
    wait_for_previous();
    u32 at = block_x() * 256 + thread_x(), row = block_y(), width = p.out.width;
    if (at >= width) return;
    float sum = p.residual.width ? row_at(p.residual, row)[at] : 0.0f;
    const float* weights = row_at(p.route, row) + p.used;
    const float* x = row_at(p.x, row);
    for (u32 n = 0; n < p.used; n++) sum += x[(u64)n * width + at] * weights[n];
    row_at(p.out, row)[at] = sum;
}

static const u32 SOFTMAX = 0, SIGMOIDS = 1, SOFTMAX_OF_CHOSEN = 2;
static const u32 MOST_EXPERTS = 4096, MOST_GROUPS = 256, MOST_CHOSEN = 256;

struct Route {
    Place scores, out;
    u64 bias;
    u32 score, normalize, groups, groups_used;
    float scale;
    u32 pad;
};

// The larger of two candidates, the lower number of equal ones; NaN counts as -infinity.
DEVICE bool is_better(float a, u32 at, float b, u32 than) { return a > b || (a == b && at < than); }

// The best of `count` entries, by all threads of a block.
DEVICE u32 best_of(const float* by, const u8* is_taken, u32 count, float* scratch, u32* numbers) {
    float most = -INFINITY;
    u32 best = 0xffffffffu;
    for (u32 n = thread_x(); n < count; n += threads_x()) {
        if (is_taken[n]) continue;
        float x = by[n] == by[n] ? by[n] : -INFINITY;
        if (best == 0xffffffffu || is_better(x, n, most, best)) most = x, best = n;
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
        float x = shuffle_xor(most, mask);
        u32 n = shuffle_xor(best, mask);
        if (n != 0xffffffffu && (best == 0xffffffffu || is_better(x, n, most, best))) most = x, best = n;
    }
    block_sync();
    if (lane() == 0) scratch[warp()] = most, numbers[warp()] = best;
    block_sync();
    for (u32 w = 0; w < threads_x() / WARP; w++) {
        float x = scratch[w];
        u32 n = numbers[w];
        if (w == 0 || (n != 0xffffffffu && (best == 0xffffffffu || is_better(x, n, most, best)))) most = x, best = n;
    }
    return best;
}

KERNEL(route, Route, 128) {
    release_next();
    __shared__ float weights[MOST_EXPERTS];
    __shared__ float by[MOST_EXPERTS];
    __shared__ u8 is_taken[MOST_EXPERTS];
    __shared__ float quality[MOST_GROUPS];
    __shared__ u8 is_used[MOST_GROUPS];
    __shared__ float chosen[MOST_CHOSEN];
    __shared__ float scratch[32];
    __shared__ u32 numbers[32];
    wait_for_previous();
    u32 row = block_x(), count = p.scores.width, used = p.out.width / 2;
    const float* scores = row_at(p.scores, row);
    float* out = row_at(p.out, row);
    float most = -INFINITY;
    for (u32 n = thread_x(); n < count; n += threads_x()) {
        float x = scores[n];
        weights[n] = p.score == SIGMOIDS ? sigmoid(x) : x;
        is_taken[n] = 0;
        most = larger(most, x);
    }
    if (p.score == SOFTMAX) {
        most = block_most(most, scratch);
        float sum = 0.0f;
        for (u32 n = thread_x(); n < count; n += threads_x()) sum += weights[n] = expf(weights[n] - most);
        sum = block_sum(sum, scratch);
        for (u32 n = thread_x(); n < count; n += threads_x()) weights[n] /= sum;
    }
    for (u32 n = thread_x(); n < count; n += threads_x())
        by[n] = p.bias ? weights[n] + ((const float*)p.bias)[n] : weights[n];
    block_sync();
    if (p.groups_used > 0) {
        // A group is as good as its best expert; where experts are scored apart, as its two best together.
        u32 size = count / p.groups;
        for (u32 g = thread_x(); g < p.groups; g += threads_x()) {
            float first = -INFINITY, second = -INFINITY;
            for (u32 n = g * size; n < (g + 1) * size; n++) {
                float x = by[n];
                if (x > first) second = first, first = x;
                else if (x > second) second = x;
            }
            quality[g] = p.score == SIGMOIDS && size > 1 ? first + second : first;
            is_used[g] = 0;
        }
        block_sync();
        for (u32 n = 0; n < p.groups_used; n++) {
            u32 best = best_of(quality, is_used, p.groups, scratch, numbers);
            block_sync();
            if (thread_x() == 0 && best < p.groups) is_used[best] = 1;
            block_sync();
        }
        for (u32 n = thread_x(); n < count; n += threads_x()) is_taken[n] = !is_used[n / size];
        block_sync();
    }
    for (u32 n = 0; n < used; n++) {
        u32 best = best_of(by, is_taken, count, scratch, numbers);
        block_sync();
        if (thread_x() == 0 && best < count) {
            is_taken[best] = 1;
            chosen[n] = weights[best];
            out[n] = (float)best;
        }
        block_sync();
    }
    if (thread_x() != 0) return;
    if (p.score == SOFTMAX_OF_CHOSEN) {
        float top = -INFINITY, sum = 0.0f;
        for (u32 n = 0; n < used; n++) top = larger(top, chosen[n]);
        for (u32 n = 0; n < used; n++) sum += chosen[n] = expf(chosen[n] - top);
        for (u32 n = 0; n < used; n++) chosen[n] /= sum;
    }
    if (p.normalize) {
        // The small addend, for the case that all are zero, is that of the models' own code.
        float sum = 0.0f;
        for (u32 n = 0; n < used; n++) sum += chosen[n];
        if (p.score == SIGMOIDS) sum += 1e-20f;
        for (u32 n = 0; n < used; n++) chosen[n] /= sum;
    }
    for (u32 n = 0; n < used; n++) out[used + n] = chosen[n] * p.scale;
}

struct Pool {
    Place x, out;
    // The rows of each result: `rows[first[n]]` to before `rows[first[n + 1]]`.
    u64 rows, first;
    u32 normalize, pad;
};

// The mean of some rows each.
KERNEL(pool, Pool, 256) {
    release_next();
    __shared__ float scratch[32];
    wait_for_previous();
    u32 output = block_x(), width = p.out.width;
    const u32* rows = (const u32*)p.rows;
    u32 first = ((const u32*)p.first)[output], end = ((const u32*)p.first)[output + 1];
    float* out = row_at(p.out, output);
    float squares = 0.0f;
    for (u32 n = thread_x(); n < width; n += threads_x()) {
        double sum = 0.0;
        for (u32 at = first; at < end; at++) sum += row_at(p.x, rows[at])[n];
        float mean = end - first == 1 ? (float)sum : (float)(sum / (double)(end - first));
        out[n] = mean;
        squares += mean * mean;
    }
    if (!p.normalize) return;
    // The bound is that of the models' own code, for rows of zeros.
    float norm = sqrtf(block_sum(squares, scratch));
    norm = norm < 1e-12f ? 1e-12f : norm;
    for (u32 n = thread_x(); n < width; n += threads_x()) out[n] /= norm;
}

struct Greedy {
    Place logits;
    // Each block's candidate: its logit's bits and its number, then for each row how many blocks have ended, and the ids.
    u64 candidates, counters, ids, rows;
};

static const u32 NOT_A_NUMBER = 0xffffffffu;
static const u32 GREEDY_BLOCKS = 64;

// The largest logit's id, the lowest of equal ones; NOT_A_NUMBER if any is NaN. The last block of a row joins what all found.
KERNEL(greedy, Greedy, 256) {
    release_next();
    __shared__ float tops[32];
    __shared__ u32 numbers[32];
    __shared__ u32 is_last;
    wait_for_previous();
    u32 output = block_y(), row = p.rows ? ((const u32*)p.rows)[output] : output, width = p.logits.width;
    const float* logits = row_at(p.logits, row);
    float most = -INFINITY;
    u32 best = 0, has_nan = 0, is_set = 0;
    for (u32 n = block_x() * threads_x() + thread_x(); n < width; n += blocks_x() * threads_x()) {
        float x = logits[n];
        has_nan |= x != x;
        if (!is_set || is_better(x, n, most, best)) most = x, best = n, is_set = 1;
    }
    if (!is_set) best = NOT_A_NUMBER - 1;
    u32* candidates = (u32*)p.candidates + (u64)output * GREEDY_BLOCKS * 2;
    for (u32 round = 0;; round++) {
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) {
            float x = shuffle_xor(most, mask);
            u32 n = shuffle_xor(best, mask);
            has_nan |= shuffle_xor(has_nan, mask);
            if (is_better(x, n, most, best)) most = x, best = n;
        }
        block_sync();
        if (lane() == 0) tops[warp()] = most, numbers[warp()] = has_nan ? NOT_A_NUMBER : best;
        block_sync();
        most = tops[0], best = numbers[0];
        for (u32 w = 1; w < threads_x() / WARP; w++) {
            if (numbers[w] == NOT_A_NUMBER || best == NOT_A_NUMBER) best = NOT_A_NUMBER;
            else if (is_better(tops[w], numbers[w], most, best)) most = tops[w], best = numbers[w];
        }
        if (round == 1) break;
        if (thread_x() == 0) {
            candidates[2 * block_x()] = to_bits(most);
            candidates[2 * block_x() + 1] = best;
            fence();
            is_last = count_up((u32*)p.counters + output, blocks_x() - 1) == blocks_x() - 1;
        }
        block_sync();
        if (!is_last) return;
        fence();
        most = -INFINITY, best = NOT_A_NUMBER - 1, has_nan = 0;
        if (thread_x() < blocks_x()) {
            const volatile u32* candidate = candidates + 2 * thread_x();
            most = from_bits(candidate[0]), best = candidate[1];
            has_nan = best == NOT_A_NUMBER;
        }
    }
    if (thread_x() == 0) ((u32*)p.ids)[output] = best;
}

struct Read {
    u64 from, to;
    u64 count;
};

// Reads 16 bytes after the other and does next to nothing with them: what a device's memory can deliver.
KERNEL(read_all, Read, 512) {
    const uint4* from = (const uint4*)p.from;
    u32 sum = 0;
    u64 step = (u64)blocks_x() * threads_x();
    u64 at = (u64)block_x() * threads_x() + thread_x();
    for (; at + 3 * step < p.count; at += 4 * step) {
        uint4 a = load_once(from + at), b = load_once(from + at + step);
        uint4 c = load_once(from + at + 2 * step), d = load_once(from + at + 3 * step);
        sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; at < p.count; at += step) {
        uint4 a = load_once(from + at);
        sum ^= a.x ^ a.y ^ a.z ^ a.w;
    }
    // Hardly ever true, but the compiler does not know.
    if (sum == 0x9e3779b9u) *(u32*)p.to = sum;
}

struct Quantize {
    u64 x;
    Rounded to;
    // Columns of a row of activations, and how many of them make a row of `x`.
    u32 x_stride, columns, parts, pad;
};

// A thread takes four elements.
KERNEL(quantize, Quantize, 128) {
    release_next();
    wait_for_previous();
    u32 at = (block_x() * 128 + thread_x()) * 4, row = block_y();
    if (at - lane() * 4 >= p.columns) return;
    const float* x = (const float*)p.x + (u64)(row / p.parts) * p.x_stride + row % p.parts * p.columns;
    round_into(p.to, row, at, load_four(x, at, p.columns), at < p.columns);
}

struct Pad {
    u64 x, to;
    u32 x_stride, columns, parts, to_stride;
};

// Rows of floats, padded with zeros to whole units.
KERNEL(pad, Pad, 256) {
    release_next();
    wait_for_previous();
    u32 at = block_x() * 256 + thread_x(), row = block_y();
    if (at >= p.to_stride) return;
    const float* x = (const float*)p.x + (u64)(row / p.parts) * p.x_stride + row % p.parts * p.columns;
    ((float*)p.to)[(u64)row * p.to_stride + at] = at < p.columns ? x[at] : 0.0f;
}
