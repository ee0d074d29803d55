#include "matvec.cuh"

MATVECS(q5_k, Q5K, Row8, 2)
