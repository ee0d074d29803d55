#include "matvec.cuh"

MATVECS(f16, Float<TYPE_F16>, const float*, 4)
