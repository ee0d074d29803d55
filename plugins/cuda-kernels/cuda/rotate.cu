// Rotary positions, and rows into a cache.
#include "cache.cuh"

struct Turn {
    u64 positions, frequencies, angles;
    u32 pairs;
    float magnitude;
};

// Cosines and sines of each row's position, for all layers that turn with the same frequencies. The angle is rounded to single
// precision, as the models' own code does.
KERNEL(turn, Turn, 128) {
    release_next();
    wait_for_previous();
    u32 pair = block_x() * 128 + thread_x(), row = block_y();
    if (pair >= p.pairs) return;
    float angle = (float)((const u32*)p.positions)[row] * ((const float*)p.frequencies)[pair];
    float* out = (float*)p.angles + (u64)row * 2 * p.pairs;
    out[pair] = cosf(angle) * p.magnitude;
    out[p.pairs + pair] = sinf(angle) * p.magnitude;
}

// A head's part that turns.
struct Turning {
    Place x, out;
    u64 angles;
    u32 heads, width, first, pairs, is_interleaved, pad;
};

struct Rotate {
    // Queries, which only turn; keys, which turn if they have pairs; values. Keys and values are stored if the cache has pages.
    Turning query, key;
    Place value;
    Cache cache;
    u64 positions, sequences;
    u32 value_heads, pad;
};

static const u32 MOST_HEAD = 4096;

// The element of a head after turning.
DEVICE float turned(const Turning& t, const float* x, const float* angles, u32 n) {
    if (n < t.first || n >= t.first + 2 * t.pairs) return x[n];
    u32 at = n - t.first, pair = t.is_interleaved ? at / 2 : at % t.pairs;
    bool is_upper = t.is_interleaved ? at % 2 : at >= t.pairs;
    u32 apart = t.is_interleaved ? 1 : t.pairs, other = is_upper ? n - apart : n + apart;
    float cosine = angles[pair], sine = angles[t.pairs + pair];
    return is_upper ? x[n] * cosine + x[other] * sine : x[n] * cosine - x[other] * sine;
}

// A block takes a head of a row: queries first, then keys, then values.
KERNEL(rotate, Rotate, 128) {
    release_next();
    __shared__ float head_values[MOST_HEAD];
    wait_for_previous();
    u32 head = block_x(), row = block_y();
    bool is_query = head < p.query.heads, is_key = !is_query && head < p.query.heads + p.key.heads;
    const Turning& t = is_query ? p.query : p.key;
    head -= is_query ? 0 : is_key ? p.query.heads : p.query.heads + p.key.heads;
    u32 width = is_query || is_key ? t.width : p.cache.value;
    const float* x = is_query || is_key ? row_at(t.x, row) + head * width : row_at(p.value, row) + head * width;
    const float* angles = (const float*)t.angles + (u64)row * 2 * t.pairs;
    for (u32 n = thread_x(); n < width; n += threads_x())
        head_values[n] = (is_query || is_key) && t.pairs ? turned(t, x, angles, n) : x[n];
    // The result may be the input: nothing is written before all is read.
    block_sync();
    if ((is_query || is_key) && t.out.width) {
        float* out = row_at(t.out, row) + head * width;
        for (u32 n = thread_x(); n < width; n += threads_x()) out[n] = head_values[n];
    }
    if (is_query || !p.cache.pages) return;
    u32 position = ((const u32*)p.positions)[row];
    u8* page = page_of(p.cache, ((const u32*)p.sequences)[row], position);
    u8* to = is_key ? key_at(p.cache, page, head, position) : value_at(p.cache, page, head, position);
    store_row(p.cache.cells, to, head_values, width);
}
