#include "matvec.cuh"

MATVECS(q5_1, Q5_1, Codes, 4, 2, 6)
