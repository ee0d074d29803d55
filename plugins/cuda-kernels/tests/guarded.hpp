// Memory whose end lies before a page that nobody may touch: what reads or writes beyond it ends the process.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#ifdef RACES
void* races_next(uint64_t bytes);
void races_forget(void* at, uint64_t bytes);
#endif

static uint64_t guarded_page() { return (uint64_t)sysconf(_SC_PAGESIZE); }

// The pages that `bytes` bytes take, without the guard.
static uint64_t guarded_pages(uint64_t bytes) {
    return (bytes + guarded_page() - 1) / guarded_page() * guarded_page();
}

// Memory of at least so many bytes, aligned to 16, for that is what kernels rely on: with more, less would be seen of what goes
// beyond the end. It is full of zeros. 0 if there is none.
static uint64_t guarded_zeros(uint64_t bytes) {
    uint64_t pages = guarded_pages(bytes);
#ifdef RACES
    void* where = races_next(pages + guarded_page());
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (!where) return 0;
#else
    void* where = nullptr;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#endif
    void* all = mmap(where, pages + guarded_page(), PROT_READ | PROT_WRITE, flags, -1, 0);
    if (all == MAP_FAILED) return 0;
    mprotect((char*)all + pages, guarded_page(), PROT_NONE);
    return (uint64_t)all + pages - (bytes + 15) / 16 * 16;
}

// Such memory, full of ones, which are no number: what nothing wrote is seen.
extern "C" uint64_t guarded_take(uint64_t bytes) {
    uint64_t at = guarded_zeros(bytes);
    if (at) memset((void*)at, 0xff, bytes);
    return at;
}

// Gives such memory back: what still touches it ends the process.
extern "C" void guarded_give(uint64_t at, uint64_t bytes) {
    uint64_t pages = guarded_pages(bytes);
    void* all = (void*)(at + (bytes + 15) / 16 * 16 - pages);
#ifdef RACES
    races_forget(all, pages + guarded_page());
#else
    munmap(all, pages + guarded_page());
#endif
}
