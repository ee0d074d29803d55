#include "matvec.cuh"

MATVECS(q4_k, Q4K, Row8, 4)
