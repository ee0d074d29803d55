#include "matvec.cuh"

MATVECS(q5_1, Q5_1, Row8, 4)
