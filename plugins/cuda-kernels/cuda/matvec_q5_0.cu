#include "matvec.cuh"

MATVECS(q5_0, Q5_0, Codes, 2, 2, 5)
