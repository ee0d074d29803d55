#include "matvec.cuh"

MATVECS(q4_k, Q4K, Codes, 1, 1, 5)
