#include "attention.cuh"

ATTENTIONS(f32, CELLS_F32)
