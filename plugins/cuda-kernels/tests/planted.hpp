// A kernel with one mistake at a time, which must be found, or with none. Two of them are launched, of two blocks of 64 threads.
struct Planted {
    // Of 256 words: what blocks read, what they write, and what the last one makes of it for the next launch.
    u64 memory, counter;
    u32 mistake, pad;
};
enum : u32 { NONE, NO_BARRIER, SHUFFLE_ALONE, OVERWRITTEN, SAME_PLACE, UNFENCED, UNCOUNTED, NO_WAIT, WRITTEN_EARLY, CONSTANT, UNALIGNED,
            NOT_TOGETHER, NOT_ACQUIRED, NEVER_WAITED, CONSTANT_HALF };

KERNEL(planted, Planted, 64) {
    __shared__ u32 words[64];
    __shared__ u32 is_last;
    u32 t = thread_x(), me = block_x() * 64 + t;
    u32* memory = (u32*)p.memory;
    if (p.mistake == NEVER_WAITED && t == 5) return;
    if (p.mistake == WRITTEN_EARLY) memory[128 + me] = 0;
    if (p.mistake != NO_WAIT) wait_for_previous();
    words[t] = memory[me];
    if (p.mistake == SHUFFLE_ALONE) shuffle_xor(t, 1);
    else if (p.mistake != NO_BARRIER) block_sync();
    u32 other = words[p.mistake == SHUFFLE_ALONE ? t ^ 1 : 63 - t];
    if (p.mistake != OVERWRITTEN) block_sync();
    words[t] = other + 1;
    memory[128 + (p.mistake == SAME_PLACE ? t : me)] = words[t];
    if (p.mistake == UNALIGNED) words[t] = ((const uint2*)(memory + 1))->y;
    if (p.mistake == CONSTANT) words[t] = load_4(memory + 128 + me);
    if (p.mistake == CONSTANT_HALF) words[t] = load_2((u16*)(memory + 128 + me) + 1);
    if (p.mistake != UNFENCED) fence();
    if (p.mistake != NOT_TOGETHER) block_sync();
    if (t == 0) is_last = p.mistake == UNCOUNTED ? block_x() == 1 : count_up((u32*)p.counter, 1) == 1;
    block_sync();
    if (!is_last) return;
    if (p.mistake != NOT_ACQUIRED) fence();
    memory[t] = memory[128 + t] + memory[192 + t];
}
