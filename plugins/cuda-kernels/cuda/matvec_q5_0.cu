#include "matvec.cuh"

MATVECS(q5_0, Q5_0, Row8, 4)
