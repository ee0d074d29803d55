#include "matvec.cuh"

MATVECS(f16, Float<TYPE_F16>, Plain, 2, 2, 6)
