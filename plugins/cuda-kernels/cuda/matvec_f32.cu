#include "matvec.cuh"

MATVECS(f32, Float<TYPE_F32>, const float*, 4)
