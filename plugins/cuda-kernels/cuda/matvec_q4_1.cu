#include "matvec.cuh"

MATVECS(q4_1, Q4_1, Row8, 4)
