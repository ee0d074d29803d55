#include "matvec.cuh"

MATVECS(q4_1, Q4_1, Codes, 2, 2, 5)
