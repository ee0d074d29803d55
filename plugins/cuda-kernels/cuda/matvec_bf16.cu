#include "matvec.cuh"

MATVECS(bf16, Float<TYPE_BF16>, const float*, 4)
