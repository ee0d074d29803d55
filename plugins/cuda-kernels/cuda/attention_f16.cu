#include "attention.cuh"

ATTENTIONS(f16, CELLS_F16)
