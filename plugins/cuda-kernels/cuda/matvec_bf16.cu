#include "matvec.cuh"

MATVECS(bf16, Float<TYPE_BF16>, Plain, 4, 2, 6)
