// What the kernels need of a device, in two versions: for NVRTC, and (host.hpp) for an ordinary C++ compiler, which runs
// the same kernels on the processor to test them.
#pragma once

#ifdef __CUDACC__

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;

#define INFINITY __int_as_float(0x7f800000)
#define DEVICE static __device__ __forceinline__
// Of a struct.
#define DEVICE_MEMBER __device__ __forceinline__
// A kernel, exported as apr_NAME, takes one struct by value. `threads` is the most that it is launched with, and `blocks` how
// many of them a processor of the device must have room for at the same time.
#define KERNEL_OF(name, Params, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) apr_##name(const __grid_constant__ Params p)
#define KERNEL(name, Params, threads) KERNEL_OF(name, Params, threads, (threads) <= 128 ? 2 : 1)

DEVICE u32 thread_x() { return threadIdx.x; }
DEVICE u32 threads_x() { return blockDim.x; }
DEVICE u32 block_x() { return blockIdx.x; }
DEVICE u32 block_y() { return blockIdx.y; }
DEVICE u32 block_z() { return blockIdx.z; }
DEVICE u32 blocks_x() { return gridDim.x; }

DEVICE void block_sync() { __syncthreads(); }
DEVICE void warp_sync() { __syncwarp(); }
DEVICE float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEVICE u32 shuffle_xor(u32 x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEVICE i32 shuffle_xor(i32 x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

// Waits until the kernel before it has ended, where it was launched before that one's end; before it, only weights may be read.
DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel be launched, which waits for this one's end before it reads what this one writes.
DEVICE void release_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// c + the sum of the products of four signed bytes.
DEVICE i32 dot4(u32 a, u32 b, i32 c) { return __dp4a((i32)a, (i32)b, c); }

// 16 bytes that are read once: weights.
DEVICE uint4 load_once(const void* at) {
#if __CUDA_ARCH__ < 800
    return __ldg((const uint4*)at);
#else
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
    return v;
#endif
}
// 16 bytes, or fewer, that neighbours read as well: weights.
DEVICE uint4 load_16(const void* at) { return __ldg((const uint4*)at); }
DEVICE u32 load_4(const void* at) { return __ldg((const u32*)at); }
DEVICE u16 load_2(const void* at) { return __ldg((const u16*)at); }
DEVICE u8 load_1(const void* at) { return __ldg((const u8*)at); }

DEVICE float from_half(u16 bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
DEVICE u16 to_half(float x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
DEVICE float from_bits(u32 bits) { return __uint_as_float(bits); }
DEVICE u32 to_bits(float x) { return __float_as_uint(x); }
DEVICE i32 round_even(float x) { return __float2int_rn(x); }

// Byte `n` of a word as a float: the bits of 2^23 plus it, less 2^23.
DEVICE float byte_float(u32 word, u32 n) { return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u + n)) - 8388608.0f; }

DEVICE void fence() { __threadfence(); }
// What another block wrote before it counted up.
DEVICE float load_shared(const float* at) { return __ldcg(at); }
DEVICE u32 count_up(u32* counter, u32 last) { return atomicInc(counter, last); }

#if __CUDA_ARCH__ >= 800
#define HAS_MMA 1
// Two floats as BF16, to nearest, ties to even; the first is in the low half.
DEVICE u32 pack_bf16(float a, float b) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    return both;
}
// d += A B for a 16x16 matrix A and a 16x8 matrix B of BF16, in the fragments of mma.m16n8k16.
DEVICE void mma(float* d, const u32* a, const u32* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
#define HAS_MMA 0
#endif

#else
#include "host.hpp"
#endif

static const u32 WARP = 32;

DEVICE u32 lane() { return thread_x() % WARP; }
DEVICE u32 warp() { return thread_x() / WARP; }

DEVICE float from_bf16(u16 bits) { return from_bits((u32)bits << 16); }

DEVICE float warp_sum(float x) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
    return x;
}
DEVICE float larger(float a, float b) { return b > a ? b : a; }
DEVICE float warp_most(float x) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) x = larger(x, shuffle_xor(x, mask));
    return x;
}

// The sum over all threads of a block, which each of them gets. `scratch` has 32 elements, and nobody uses it meanwhile.
DEVICE float block_sum(float x, float* scratch) {
    x = warp_sum(x);
    u32 warps = threads_x() / WARP;
    if (warps == 1) {
        // As with several: what was read for this may be written now.
        warp_sync();
        return x;
    }
    block_sync();
    if (lane() == 0) scratch[warp()] = x;
    block_sync();
    x = lane() < warps ? scratch[lane()] : 0.0f;
    return warp_sum(x);
}

// The largest of all threads of a block, as `block_sum`. NaN counts as smallest.
DEVICE float block_most(float x, float* scratch) {
    x = warp_most(x);
    u32 warps = threads_x() / WARP;
    if (warps == 1) {
        // As with several: what was read for this may be written now.
        warp_sync();
        return x;
    }
    block_sync();
    if (lane() == 0) scratch[warp()] = x;
    block_sync();
    x = lane() < warps ? scratch[lane()] : -INFINITY;
    return warp_most(x);
}
