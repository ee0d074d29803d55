#include "matvec.cuh"

MATVECS(q4_0, Q4_0, Codes, 2, 2, 5)
