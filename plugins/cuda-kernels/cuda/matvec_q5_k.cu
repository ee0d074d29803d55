#include "matvec.cuh"

MATVECS(q5_k, Q5K, Codes, 1, 1, 4)
