#include "matvec.cuh"

MATVECS(q5_0, Q5_0, Codes, 4, 2, 6)
