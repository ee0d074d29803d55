#include "attention.cuh"

ATTENTIONS(q8_0, CELLS_Q8_0)
