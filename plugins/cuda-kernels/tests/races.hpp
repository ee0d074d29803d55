// Finds races: what threads of a kernel, or of two that overlap, read and write without a barrier, a fence or a wait between them.
// The compiler puts a call before every access (-fsanitize=thread); these are the functions that it calls, in place of its own
// library's. What orders accesses is what a device promises: barriers of the block, barriers of the warp (not shuffles), a counter
// that fenced blocks count up, and the wait for the kernel before.
#include <cstddef>
#include <cstdint>
#include <link.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#define UNSEEN __attribute__((no_sanitize("thread")))
#define HOOK __attribute__((no_sanitize("thread"), visibility("hidden")))

// What is known of a byte: who wrote it last, and who has read it since the last barrier. The first of four that were always
// read and written together speaks for all of them.
struct Byte {
    u32 write_launch, write_block;
    u16 write_thread, write_block_syncs, write_warp_syncs;
    bool is_apart, read_by_blocks;
    u32 read_launch, read_block;
    u16 read_block_syncs, read_warp_syncs, read_warp;
    // The warps that read it, and of the last one the lanes.
    u32 read_warps, read_lanes;
};

namespace host {

// What a thread of the process knows, for the kernels that it runs.
struct Races {
    // While the functions of this file run.
    bool is_busy = false;
    // Kernels up to this one have ended. Those after it, from `first` on, overlap.
    u32 ended = 0, first = 0;
    // The variables that the blocks share: the static ones of this library that each thread of the process has.
    char* shared = nullptr;
    // Among them the one that says which block runs, which is nobody's.
    char* running = nullptr;
    size_t size = 0;
    std::vector<Byte> bytes;
    // Which thread of which block has counted up, how many barriers it had passed, and which blocks had before it.
    u32 launch = 0, number = 0, thread = 0, since = 0;
    std::set<u32> before;
    // What was found first.
    std::string found;
};

}  // namespace host

namespace races {

// A device's memory is taken from here, and what is known of it lies as far on.
static const u64 REGION = 1ull << 38;
static char* region;
static Byte* of_region;
static u64 taken = 0;

static std::mutex lock;
// The blocks that have counted a counter up, and the kernel whose blocks they are.
static std::map<const void*, std::pair<u32, std::set<u32>>> counters;

static thread_local std::unique_ptr<host::Races> own;

// Nothing that happens meanwhile is the kernel's.
struct Busy {
    bool was = own->is_busy;
    UNSEEN Busy() { own->is_busy = true; }
    UNSEEN ~Busy() { own->is_busy = was; }
};

static UNSEEN void report(const char* what, const char* at, const Byte* other) {
    Busy busy;
    host::Block& block = *host::block;
    char text[300], by[100] = "";
    if (other) snprintf(by, sizeof by, ", written by thread %u of block %u", other->write_thread, other->write_block);
    snprintf(text, sizeof text, "%s: thread %u of block %u %s (%p%s)", block.kernel, block.current, block.number, what, at, by);
    if (block.races->found.empty()) block.races->found = text;
}

// Whether this block has counted up.
static UNSEEN bool is_own_count(const host::Block& block) {
    return block.races->launch == block.launch && block.races->number == block.number;
}

// Whether another block has counted up before this thread's block did, and this thread sees what that one wrote.
static UNSEEN bool is_counted(u32 other, const host::Block& block, const host::Fiber& fiber) {
    const host::Races& races = *block.races;
    return is_own_count(block) && (races.thread == block.current || fiber.block_syncs > races.since) &&
           fiber.has_acquired && races.before.count(other);
}

// Whether what was written to a byte happened before what this thread does now.
static UNSEEN bool is_before(const Byte& byte, const host::Block& block, const host::Fiber& fiber) {
    if (byte.write_block != block.number) return is_counted(byte.write_block, block, fiber);
    return byte.write_thread == block.current || byte.write_block_syncs != (u16)fiber.block_syncs ||
           (byte.write_thread / 32 == block.current / 32 && byte.write_warp_syncs != (u16)fiber.warp_syncs);
}

// Whether all who read a byte did so before.
static UNSEEN bool are_before(const Byte& byte, const host::Block& block, const host::Fiber& fiber) {
    if (byte.read_by_blocks) return false;
    if (byte.read_block != block.number) return is_counted(byte.read_block, block, fiber);
    if (byte.read_block_syncs != (u16)fiber.block_syncs) return true;
    if (byte.read_warps & ~(1u << block.current / 32)) return false;
    return byte.read_warp_syncs != (u16)fiber.warp_syncs || !(byte.read_lanes & ~(1u << block.current % 32));
}

static UNSEEN void read(Byte& byte, const char* at, bool is_global, const host::Block& block, host::Fiber& fiber) {
    if (byte.write_launch == block.launch) {
        if ((is_global || byte.write_block == block.number) && !is_before(byte, block, fiber))
            report("reads what another writes", at, &byte);
    } else if (is_global && byte.write_launch > block.races->ended && !fiber.has_waited) {
        report("reads what a kernel before it may be writing", at, &byte);
    }
    if (byte.read_launch != block.launch || (!is_global && byte.read_block != block.number)) {
        byte.read_launch = block.launch;
        byte.read_by_blocks = false;
    } else if (byte.read_block != block.number) {
        byte.read_by_blocks = true;
    } else if (byte.read_block_syncs == (u16)fiber.block_syncs) {
        u32 warp = block.current / 32;
        if (byte.read_warp != warp || byte.read_warp_syncs != (u16)fiber.warp_syncs) byte.read_lanes = 0;
        byte.read_warp = warp;
        byte.read_warp_syncs = fiber.warp_syncs;
        byte.read_lanes |= 1u << block.current % 32;
        byte.read_warps |= 1u << warp;
        return;
    }
    byte.read_block = block.number;
    byte.read_block_syncs = fiber.block_syncs;
    byte.read_warp = block.current / 32;
    byte.read_warp_syncs = fiber.warp_syncs;
    byte.read_lanes = 1u << block.current % 32;
    byte.read_warps = 1u << block.current / 32;
}

static UNSEEN void write(Byte& byte, const char* at, bool is_global, const host::Block& block, host::Fiber& fiber) {
    if (byte.write_launch == block.launch && (is_global || byte.write_block == block.number) && !is_before(byte, block, fiber))
        report("writes what another writes", at, &byte);
    if (byte.read_launch == block.launch && (is_global || byte.read_block == block.number) && !are_before(byte, block, fiber))
        report("writes what another reads", at, nullptr);
    if (is_global) {
        if (!fiber.has_waited && block.launch != block.races->first)
            report("writes before the kernel before it has ended", at, nullptr);
        if (is_own_count(block) && block.races->thread != block.current && fiber.block_syncs <= block.races->since)
            report("writes while its block counts up", at, nullptr);
        fiber.is_fenced = false;
        fiber.written_at = fiber.block_syncs + 1;
    }
    byte.write_launch = block.launch;
    byte.write_block = block.number;
    byte.write_thread = block.current;
    byte.write_block_syncs = fiber.block_syncs;
    byte.write_warp_syncs = fiber.warp_syncs;
}

// What is known of an address, if it is memory of the device or shared by a block.
static UNSEEN Byte* known(const char* at, const host::Races& races, bool& is_global) {
    is_global = at >= region && at < region + REGION;
    if (is_global) return of_region + (at - region);
    if (at < races.shared || at >= races.shared + races.size) return nullptr;
    if (at >= races.running && at < races.running + sizeof host::block) return nullptr;
    return const_cast<Byte*>(races.bytes.data()) + (at - races.shared);
}

// For how many bytes the first of some speaks, which is byte `in_word` of four. These are told apart once some of them are touched.
static UNSEEN u64 unit(Byte* of, u64 in_word, u64 bytes) {
    Byte* word = of - in_word;
    if (in_word == 0 && bytes >= 4) return word->is_apart ? 1 : 4;
    if (!word->is_apart) {
        word->is_apart = true;
        for (int other = 1; other < 4; other++) word[other] = *word;
    }
    return 1;
}

template <bool IS_WRITE>
static UNSEEN void touch(void* address, size_t bytes) {
    host::Block* running = host::block;
    if (!running || !running->races || running->races->is_busy) return;
    const host::Block& block = *running;
    bool is_global;
    const char* at = (const char*)address;
    Byte* of = known(at, *block.races, is_global);
    if (!of) return;
    host::Fiber& fiber = running->fibers[block.current];
    for (u64 n = 0; n < bytes;) {
        u64 size = unit(of + n, (u64)(at + n) % 4, bytes - n);
        IS_WRITE ? write(of[n], at + n, is_global, block, fiber) : read(of[n], at + n, is_global, block, fiber);
        n += size;
    }
}

static UNSEEN int find_shared(dl_phdr_info* info, size_t, void* to) {
    char* at = (char*)info->dlpi_tls_data;
    char* one = (char*)&host::block;
    host::Races& races = *(host::Races*)to;
    for (int n = 0; n < info->dlpi_phnum; n++) {
        size_t size = info->dlpi_phdr[n].p_memsz;
        if (info->dlpi_phdr[n].p_type != PT_TLS || !at || one < at || one >= at + size) continue;
        races.shared = at;
        races.running = one;
        races.bytes.resize(size + 4);
        races.size = size;
        return 1;
    }
    return 0;
}

}  // namespace races

// A kernel begins.
UNSEEN void races_started() {
    if (!races::own) races::own.reset(new host::Races());
    host::Races& own = *races::own;
    host::block->races = &own;
    races::Busy busy;
    if (!own.shared) dl_iterate_phdr(races::find_shared, &own);
    if (own.first == 0) own.first = host::block->launch;
}

// A thread ends.
UNSEEN void races_left() {
    const host::Block& block = *host::block;
    if (!block.fibers[block.current].has_waited && block.launch != block.races->first)
        races::report("ends before the kernel before it has, for which the next one would not wait", nullptr, nullptr);
}

// All kernels that this thread has launched have ended. What has been found since this was called last, or nothing.
extern "C" UNSEEN const char* races_ended() {
    static thread_local std::string found;
    if (!races::own) races::own.reset(new host::Races());
    host::Races& own = *races::own;
    own.ended = __atomic_load_n(&host::launches, __ATOMIC_RELAXED);
    own.first = 0;
    found.swap(own.found);
    own.found.clear();
    return found.empty() ? nullptr : found.c_str();
}

// Memory is read that the kernel must not write.
UNSEEN void races_constant(const void* address, u64 bytes) {
    const host::Block& block = *host::block;
    bool is_global;
    const char* at = (const char*)address;
    Byte* of = races::known(at, *block.races, is_global);
    for (u64 n = 0; of && n < bytes;) {
        u64 size = races::unit(of + n, (u64)(at + n) % 4, bytes - n);
        if (of[n].write_launch == block.launch) races::report("reads as constant what its kernel writes", at + n, of + n);
        else if (of[n].write_launch > block.races->ended && !block.fibers[block.current].has_waited)
            races::report("reads what a kernel before it may be writing", at + n, of + n);
        of[n].read_launch = block.launch;
        of[n].read_by_blocks = true;
        n += size;
    }
}

// A counter is counted up, by which a block knows what those that did so before it have written.
UNSEEN void races_counted(const void* counter) {
    const host::Block& block = *host::block;
    races::Busy busy;
    u32 syncs = block.fibers[block.current].block_syncs;
    for (u32 t = 0; t < block.threads; t++) {
        host::Fiber& fiber = host::block->fibers[t];
        fiber.has_acquired = false;
        if (!fiber.is_fenced) races::report("counts up before all that its block wrote is fenced", (const char*)counter, nullptr);
        if (t != block.current && fiber.written_at == syncs + 1)
            races::report("counts up without a barrier after what its block wrote", (const char*)counter, nullptr);
    }
    host::Races& own = *block.races;
    std::lock_guard<std::mutex> guard(races::lock);
    auto& counted = races::counters[counter];
    if (counted.first != block.launch) counted.second.clear();
    counted.first = block.launch;
    own.launch = block.launch;
    own.number = block.number;
    own.thread = block.current;
    own.since = syncs;
    own.before = counted.second;
    counted.second.insert(block.number);
}

// An address is not aligned as its type is (-fsanitize=alignment), without which a device neither reads nor writes. `data` begins
// with the place in the source.
extern "C" HOOK void __ubsan_handle_type_mismatch_v1(void* data, void* address) {
    struct Place {
        const char* file;
        u32 line;
    };
    if (!host::block || !host::block->races) return;
    const Place& place = *(const Place*)data;
    std::string what = std::string("is not aligned: ") + place.file + ":" + std::to_string(place.line);
    races::report(what.c_str(), (const char*)address, nullptr);
}

// Takes the addresses that all this needs, which are many, and says whether the system gives them. Before anything else.
extern "C" UNSEEN u32 races_reserved() {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* of = mmap(nullptr, races::REGION * sizeof(Byte), PROT_READ | PROT_WRITE, flags, -1, 0);
    void* at = mmap(nullptr, races::REGION, PROT_NONE, flags, -1, 0);
    if (of == MAP_FAILED || at == MAP_FAILED) return 0;
    races::of_region = (Byte*)of;
    races::region = (char*)at;
    return 1;
}

// Where memory of so many bytes may be mapped.
UNSEEN void* races_next(uint64_t bytes) {
    u64 at = __atomic_fetch_add(&races::taken, bytes, __ATOMIC_RELAXED);
    return at + bytes > races::REGION ? nullptr : races::region + at;
}

// Forgets such memory, which nobody may touch any more.
UNSEEN void races_forget(void* at, uint64_t bytes) {
    mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    u64 page = sysconf(_SC_PAGESIZE), first = (u64)(races::of_region + ((char*)at - races::region));
    u64 from = (first + page - 1) / page * page, to = (first + bytes * sizeof(Byte)) / page * page;
    if (from < to) madvise((void*)from, to - from, MADV_DONTNEED);
}

#define ACCESS(size) \
    extern "C" HOOK void __tsan_read##size(void* at) { races::touch<false>(at, size); } \
    extern "C" HOOK void __tsan_write##size(void* at) { races::touch<true>(at, size); } \
    extern "C" HOOK void __tsan_unaligned_read##size(void* at) { races::touch<false>(at, size); } \
    extern "C" HOOK void __tsan_unaligned_write##size(void* at) { races::touch<true>(at, size); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
extern "C" HOOK void __tsan_read_range(void* at, size_t bytes) { races::touch<false>(at, bytes); }
extern "C" HOOK void __tsan_write_range(void* at, size_t bytes) { races::touch<true>(at, bytes); }
extern "C" HOOK void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    races::touch<false>((void*)from, bytes);
    races::touch<true>(to, bytes);
    return memcpy(to, from, bytes);
}
extern "C" HOOK void* __tsan_memset(void* to, int byte, size_t bytes) {
    races::touch<true>(to, bytes);
    return memset(to, byte, bytes);
}
extern "C" HOOK void __tsan_init() {}
extern "C" HOOK void __tsan_func_entry(void*) {}
extern "C" HOOK void __tsan_func_exit() {}
