#include "matvec.cuh"

MATVECS(q6_k, Q6K, Codes, 1, 1, 4)
