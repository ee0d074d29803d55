#include "matvec.cuh"

MATVECS(q4_0, Q4_0, Row8, 4)
