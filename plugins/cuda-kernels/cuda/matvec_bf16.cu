#include "matvec.cuh"

MATVECS(bf16, Float<TYPE_BF16>, Plain, 2, 2, 6)
