#include "matvec.cuh"

// Parts of different types: what the usual mixtures make of queries, keys and values.
#define MIXED(TOKENS, ROWS, UNROLL, BLOCKS) \
    KERNEL_OF(matvec_mixed_##TOKENS##x##ROWS, Matvec, 128, BLOCKS) { \
        release_next(); \
        const Part& part = p.parts[part_of_block(p)]; \
        switch (part.type) { \
            case TYPE_Q4_K: return multiply<Q4K, Codes, TOKENS, ROWS, UNROLL>(p, part); \
            case TYPE_Q5_K: return multiply<Q5K, Codes, TOKENS, ROWS, UNROLL>(p, part); \
            default: return multiply<Q6K, Codes, TOKENS, ROWS, UNROLL>(p, part); \
        } \
    }
MIXED(1, 1, 1, 5)
MIXED(1, 2, 1, 4)
MIXED(2, 2, 1, 2)
MIXED(4, 2, 1, 2)
MIXED(8, 2, 1, 2)
