#include "matvec.cuh"

MATVECS(q4_0, Q4_0, Codes, 4, 2, 6)
