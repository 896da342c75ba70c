/* The library hands out memory and runs no ops: its "cpu" has an empty table of kernels, where the program's has those
 * of kernels/cpu, so that whoever links it needs no OpenBLAS. */
#include "kernels/kernels.h"

const struct mtk_table mtk_cpu = {0};
