#include "matvec.cuh"

MATVECS(q8_0, Q8_0, Codes, 1, 1, 6)
