#include "matvec.cuh"

// Parts of different types: what the usual mixtures make of queries, keys and values.
#define MIXED(TOKENS, ROWS, UNROLL) \
    KERNEL(matvec_mixed_##TOKENS##x##ROWS, Matvec, 128) { \
        release_next(); \
        const Part& part = p.parts[part_of_block(p)]; \
        switch (part.type) { \
            case TYPE_Q4_K: return multiply<Q4K, Row8, TOKENS, ROWS, UNROLL>(p, part); \
            case TYPE_Q5_K: return multiply<Q5K, Row8, TOKENS, ROWS, UNROLL>(p, part); \
            default: return multiply<Q6K, Row8, TOKENS, ROWS, UNROLL>(p, part); \
        } \
    }
MIXED(1, 1, 2)
MIXED(1, 2, 1)
MIXED(2, 2, 1)
MIXED(4, 2, 1)
MIXED(8, 2, 1)
