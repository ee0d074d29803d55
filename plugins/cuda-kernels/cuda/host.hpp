// The kernels on a processor: each thread of a block is a fiber; blocks run one after the other. Only for tests.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;

struct alignas(16) uint4 { u32 x, y, z, w; };
struct alignas(8) uint2 { u32 x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) float2 { float x, y; };

#define __restrict__ __restrict
#define __shared__ static thread_local
#define DEVICE static inline
#define DEVICE_MEMBER inline
#define HAS_MMA 1

namespace host {

#if defined(__x86_64__) && defined(__linux__)
// Leaves a fiber for another one: what a call preserves goes onto the stack, whose end is stored. Without the system calls of
// swapcontext, which take most of the time.
extern "C" void apr_host_switch(void** from, void* to);
asm(R"(
.text
.local apr_host_switch
apr_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

struct Context {
    void* end = nullptr;

    void start(char* stack, size_t size, void (*entry)()) {
        // As if it had been left right before `entry`, with the stack as a call finds it.
        void** top = (void**)(((u64)stack + size) / 16 * 16);
        *--top = nullptr;
        *--top = (void*)entry;
        for (int n = 0; n < 6; n++) *--top = nullptr;
        end = top;
    }
    void leave_for(Context& other) { apr_host_switch(&end, other.end); }
};
#else
struct Context {
    ucontext_t context;

    void start(char* stack, size_t size, void (*entry)()) {
        getcontext(&context);
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = size;
        context.uc_link = nullptr;
        makecontext(&context, entry, 0);
    }
    void leave_for(Context& other) { swapcontext(&context, &other.context); }
};
#endif

// One thread of a block.
struct Fiber {
    Context context;
    bool done;
    u32 rounds;
};

// Where threads wait for each other.
struct Barrier {
    u32 expected, arrived;
    u64 passed;

    void check() {
        if (expected == 0 || arrived < expected) return;
        arrived = 0;
        passed++;
    }
};

// The block that runs.
struct Block {
    u32 x, y, z, grid_x, threads, current;
    std::vector<Fiber> fibers;
    std::vector<char> stacks;
    Context scheduler;
    // What each thread gives to its warp. Two, used in turn, so that one round's words are not overwritten by the next's.
    std::vector<u64> words[2];
    Barrier all;
    std::vector<Barrier> warps;
    const std::function<void()>* body;
};

inline thread_local Block* block = nullptr;

inline void yield() { block->fibers[block->current].context.leave_for(block->scheduler); }

// Returns when all threads that have not ended have come here as often as this one.
inline void meet(Barrier& barrier) {
    u64 before = barrier.passed;
    barrier.arrived++;
    barrier.check();
    while (barrier.passed == before) yield();
}

inline void enter() {
    (*block->body)();
    Barrier& of_warp = block->warps[block->current / 32];
    block->fibers[block->current].done = true;
    block->all.expected--;
    block->all.check();
    of_warp.expected--;
    of_warp.check();
    yield();
}

// Runs all blocks of a grid.
inline void run(u32 gx, u32 gy, u32 gz, u32 threads, const std::function<void()>& body) {
    static const size_t STACK = 64 << 10;
    static thread_local Block of;
    of.threads = threads;
    of.grid_x = gx;
    of.fibers.resize(threads);
    of.stacks.resize(threads * STACK);
    of.warps.resize(threads / 32);
    of.words[0].resize(threads);
    of.words[1].resize(threads);
    of.body = &body;
    block = &of;
    for (of.z = 0; of.z < gz; of.z++)
        for (of.y = 0; of.y < gy; of.y++)
            for (of.x = 0; of.x < gx; of.x++) {
                of.all = {threads, 0, 0};
                for (Barrier& barrier : of.warps) barrier = {32, 0, 0};
                for (u32 t = 0; t < threads; t++) {
                    of.fibers[t].done = false;
                    of.fibers[t].rounds = 0;
                    of.fibers[t].context.start(of.stacks.data() + t * STACK, STACK, enter);
                }
                for (bool left = true; left;) {
                    left = false;
                    for (of.current = 0; of.current < threads; of.current++) {
                        Fiber& fiber = of.fibers[of.current];
                        if (fiber.done) continue;
                        of.scheduler.leave_for(fiber.context);
                        left = left || !fiber.done;
                    }
                }
            }
    block = nullptr;
}

inline u64 exchange(u64 word, u32 from) {
    u32 me = block->current;
    std::vector<u64>& words = block->words[block->fibers[me].rounds++ % 2];
    words[me] = word;
    meet(block->warps[me / 32]);
    return words[from];
}

}  // namespace host

#define KERNEL_OF(name, Params, most, blocks) KERNEL(name, Params, most)
#define KERNEL(name, Params, most) \
    static void run_##name(const Params& p); \
    extern "C" unsigned long long apr_##name##_params() { return sizeof(Params); } \
    extern "C" unsigned long long apr_##name##_threads() { return most; } \
    extern "C" void apr_##name(u32 gx, u32 gy, u32 gz, u32 threads, const void* params) { \
        Params copy; \
        memcpy((void*)&copy, params, sizeof copy); \
        host::run(gx, gy, gz, threads, [&] { run_##name(copy); }); \
    } \
    static void run_##name(const Params& p)

DEVICE u32 thread_x() { return host::block->current; }
DEVICE u32 threads_x() { return host::block->threads; }
DEVICE u32 block_x() { return host::block->x; }
DEVICE u32 block_y() { return host::block->y; }
DEVICE u32 block_z() { return host::block->z; }
DEVICE u32 blocks_x() { return host::block->grid_x; }

DEVICE void block_sync() { host::meet(host::block->all); }
DEVICE void warp_sync() { host::meet(host::block->warps[host::block->current / 32]); }
DEVICE u32 shuffle_xor(u32 x, int mask) {
    return (u32)host::exchange(x, host::block->current ^ (u32)mask);
}
DEVICE i32 shuffle_xor(i32 x, int mask) { return (i32)shuffle_xor((u32)x, mask); }
DEVICE float shuffle_xor(float x, int mask) {
    u32 bits;
    memcpy(&bits, &x, 4);
    bits = shuffle_xor(bits, mask);
    memcpy(&x, &bits, 4);
    return x;
}

DEVICE void wait_for_previous() {}
DEVICE void release_next() {}

DEVICE i32 dot4(u32 a, u32 b, i32 c) {
    for (int n = 0; n < 4; n++) c += (i32)(i8)(a >> 8 * n) * (i32)(i8)(b >> 8 * n);
    return c;
}

DEVICE void check_aligned(const void* at, u64 to) {
    if ((u64)at % to) {
        fprintf(stderr, "%p is not aligned to %llu bytes\n", at, to);
        abort();
    }
}
DEVICE uint4 load_16(const void* at) {
    check_aligned(at, 16);
    uint4 v;
    memcpy(&v, at, 16);
    return v;
}
DEVICE uint4 load_once(const void* at) { return load_16(at); }
DEVICE u32 load_4(const void* at) {
    check_aligned(at, 4);
    u32 v;
    memcpy(&v, at, 4);
    return v;
}
DEVICE u16 load_2(const void* at) {
    check_aligned(at, 2);
    u16 v;
    memcpy(&v, at, 2);
    return v;
}
DEVICE u8 load_1(const void* at) { return *(const u8*)at; }

DEVICE float from_bits(u32 bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
DEVICE u32 to_bits(float x) {
    u32 bits;
    memcpy(&bits, &x, 4);
    return bits;
}
DEVICE float from_half(u16 bits) {
    _Float16 half;
    memcpy(&half, &bits, 2);
    return (float)half;
}
DEVICE u16 to_half(float x) {
    _Float16 half = (_Float16)x;
    u16 bits;
    memcpy(&bits, &half, 2);
    return bits;
}
DEVICE float byte_float(u32 word, u32 n) { return (float)(word >> n * 8 & 0xffu); }
DEVICE u32 pack_bf16(float a, float b) {
    u32 halves[2];
    float values[2] = {a, b};
    for (int n = 0; n < 2; n++) {
        u32 bits = to_bits(values[n]);
        bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
        halves[n] = is_nan ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    }
    return halves[0] | halves[1] << 16;
}
DEVICE i32 round_even(float x) { return (i32)lrintf(x); }
DEVICE float rsqrtf(float x) { return 1.0f / sqrtf(x); }

DEVICE void fence() {}
DEVICE float load_shared(const float* at) { return *at; }
DEVICE u32 count_up(u32* counter, u32 last) {
    u32 was = *counter;
    *counter = was >= last ? 0 : was + 1;
    return was;
}

// Fragments as in the PTX manual, "Matrix fragments for mma.m16n8k16".
DEVICE void mma(float* d, const u32* a, const u32* b) {
    static thread_local u32 words[1024][6];
    u32 me = host::block->current, first = me / 32 * 32;
    warp_sync();
    for (int n = 0; n < 4; n++) words[me][n] = a[n];
    for (int n = 0; n < 2; n++) words[me][4 + n] = b[n];
    warp_sync();
    u32 group = me % 32 / 4, in_group = me % 4;
    for (u32 n = 0; n < 4; n++) {
        u32 row = group + (n >= 2 ? 8 : 0), column = in_group * 2 + n % 2;
        for (u32 k = 0; k < 16; k++) {
            // a0,a1: (group, k<8); a2,a3: (group+8, k<8); a4,a5: (group, k>=8); a6,a7: (group+8, k>=8).
            u32 of_a = first + row % 8 * 4 + k % 8 / 2, word_a = (row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0);
            u32 of_b = first + column * 4 + k % 8 / 2, word_b = k >= 8 ? 1 : 0;
            u32 shift = k % 2 * 16;
            float x = from_bits((words[of_a][word_a] >> shift & 0xffffu) << 16);
            float y = from_bits((words[of_b][4 + word_b] >> shift & 0xffffu) << 16);
            d[n] += x * y;
        }
    }
}
