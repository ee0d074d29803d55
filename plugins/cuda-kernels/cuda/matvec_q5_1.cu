#include "matvec.cuh"

MATVECS(q5_1, Q5_1, Codes, 2, 2, 5)
