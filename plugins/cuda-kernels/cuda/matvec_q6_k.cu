#include "matvec.cuh"

MATVECS(q6_k, Q6K, Row8, 2)
