#include "matvec.cuh"

MATVECS(f32, Float<TYPE_F32>, Plain, 2, 2, 6)
