// The kernels on a processor: each thread of a block is a fiber; blocks run one after the other. Only for tests.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
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

// With RACES, every access of a kernel is seen (tests/races.hpp), but for those of these functions.
#ifdef RACES
#define UNSEEN_DEVICE static __attribute__((noinline, no_sanitize("thread")))
void races_started();
void races_left();
void races_constant(const void* at, u64 bytes);
void races_counted(const void* counter);
#else
#define UNSEEN_DEVICE static inline
#endif

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
    // How often it has passed a barrier of its block, and one of its warp that orders memory.
    u32 block_syncs, warp_syncs;
    // Whether the kernel before has ended, whether others would see all that it wrote, and whether it has fenced since its block
    // counted up.
    bool has_waited, is_fenced, has_acquired;
    // Barriers of the block that it had passed when it wrote to the device's memory last, and one.
    u32 written_at;
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
    const char* kernel;
    // What tests/races.hpp knows.
    struct Races* races;
    // How many kernels ran before, on any thread, and how many blocks of this one.
    u32 launch, number;
    u32 x, y, z, grid_x, threads, current;
    Fiber fibers[1024];
    std::vector<char> stacks;
    Context scheduler;
    // What each thread gives to its warp. Two, used in turn, so that one round's words are not overwritten by the next's.
    u64 words[2][1024];
    u32 fragments[1024][6];
    Barrier all, warps[32];
    const std::function<void()>* body;
};

inline thread_local Block* block = nullptr;
inline u32 launches = 0;

UNSEEN_DEVICE Fiber& fiber() { return block->fibers[block->current]; }

UNSEEN_DEVICE void yield() { block->fibers[block->current].context.leave_for(block->scheduler); }

// Returns when all threads that have not ended have come here as often as this one.
UNSEEN_DEVICE void meet(Barrier& barrier) {
    u64 before = barrier.passed;
    barrier.arrived++;
    barrier.check();
    while (barrier.passed == before) yield();
}

inline void enter() {
    (*block->body)();
#ifdef RACES
    races_left();
#endif
    Barrier& of_warp = block->warps[block->current / 32];
    block->fibers[block->current].done = true;
    block->all.expected--;
    block->all.check();
    of_warp.expected--;
    of_warp.check();
    yield();
}

// Runs all blocks of a grid.
UNSEEN_DEVICE void run(const char* kernel, u32 gx, u32 gy, u32 gz, u32 threads, const std::function<void()>& body) {
    static const size_t STACK = 64 << 10;
    static thread_local std::unique_ptr<Block> kept;
    if (!kept) kept.reset(new Block());
    Block& of = *kept;
    of.kernel = kernel;
    of.launch = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
    of.number = 0;
    of.threads = threads;
    of.grid_x = gx;
    of.stacks.resize(threads * STACK);
    of.body = &body;
    block = &of;
#ifdef RACES
    races_started();
#endif
    for (of.z = 0; of.z < gz; of.z++)
        for (of.y = 0; of.y < gy; of.y++)
            for (of.x = 0; of.x < gx; of.x++) {
                of.all = {threads, 0, 0};
                for (Barrier& barrier : of.warps) barrier = {32, 0, 0};
                for (u32 t = 0; t < threads; t++) {
                    of.fibers[t] = {};
                    of.fibers[t].is_fenced = true;
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
                of.number++;
            }
    block = nullptr;
}

UNSEEN_DEVICE u64 exchange(u64 word, u32 from) {
    u32 me = block->current;
    u64* words = block->words[block->fibers[me].rounds++ % 2];
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
        host::run(#name, gx, gy, gz, threads, [&] { run_##name(copy); }); \
    } \
    static void run_##name(const Params& p)

UNSEEN_DEVICE u32 thread_x() { return host::block->current; }
UNSEEN_DEVICE u32 threads_x() { return host::block->threads; }
UNSEEN_DEVICE u32 block_x() { return host::block->x; }
UNSEEN_DEVICE u32 block_y() { return host::block->y; }
UNSEEN_DEVICE u32 block_z() { return host::block->z; }
UNSEEN_DEVICE u32 blocks_x() { return host::block->grid_x; }

UNSEEN_DEVICE void block_sync() {
    host::meet(host::block->all);
    host::fiber().block_syncs++;
}
UNSEEN_DEVICE void warp_sync() {
    host::meet(host::block->warps[host::block->current / 32]);
    host::fiber().warp_syncs++;
}
UNSEEN_DEVICE u32 shuffle_xor(u32 x, int mask) {
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

// No access is moved across these two by the compiler, as on a device.
UNSEEN_DEVICE void wait_for_previous() {
    host::fiber().has_waited = true;
    asm volatile("" ::: "memory");
}
DEVICE void release_next() {}

DEVICE i32 dot4(u32 a, u32 b, i32 c) {
    for (int n = 0; n < 4; n++) c += (i32)(i8)(a >> 8 * n) * (i32)(i8)(b >> 8 * n);
    return c;
}

// Reads what the kernel itself does not write: a device keeps it where writes do not reach it.
template <class T>
UNSEEN_DEVICE T load_constant(const void* at) {
    if ((u64)at % sizeof(T)) {
        fprintf(stderr, "%p is not aligned to %zu bytes\n", at, sizeof(T));
        abort();
    }
#ifdef RACES
    races_constant(at, sizeof(T));
#endif
    T v;
    memcpy((void*)&v, at, sizeof v);
    return v;
}
DEVICE uint4 load_16(const void* at) { return load_constant<uint4>(at); }
DEVICE uint4 load_once(const void* at) { return load_constant<uint4>(at); }
DEVICE u32 load_4(const void* at) { return load_constant<u32>(at); }
DEVICE u16 load_2(const void* at) { return load_constant<u16>(at); }
DEVICE u8 load_1(const void* at) { return load_constant<u8>(at); }

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

UNSEEN_DEVICE void fence() {
    asm volatile("" ::: "memory");
    host::fiber().is_fenced = host::fiber().has_acquired = true;
}
DEVICE float load_shared(const float* at) { return *at; }
UNSEEN_DEVICE u32 count_up(u32* counter, u32 last) {
#ifdef RACES
    races_counted(counter);
#endif
    u32 was = *counter;
    *counter = was >= last ? 0 : was + 1;
    return was;
}

// Fragments as in the PTX manual, "Matrix fragments for mma.m16n8k16".
UNSEEN_DEVICE void mma(float* d, const u32* a, const u32* b) {
    u32(*words)[6] = host::block->fragments;
    u32 me = host::block->current, first = me / 32 * 32;
    host::Barrier& of_warp = host::block->warps[me / 32];
    host::meet(of_warp);
    for (int n = 0; n < 4; n++) words[me][n] = a[n];
    for (int n = 0; n < 2; n++) words[me][4 + n] = b[n];
    host::meet(of_warp);
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
