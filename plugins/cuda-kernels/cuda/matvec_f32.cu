#include "matvec.cuh"

MATVECS(f32, Float<TYPE_F32>, Plain, 4, 2, 6)
