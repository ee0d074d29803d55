#include "matvec.cuh"

MATVECS(q4_k, Q4K, Codes, 2, 1, 6)
