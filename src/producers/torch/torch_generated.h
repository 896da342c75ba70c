/* The modules of memory that generated code allocates: Python code that torch.compile writes, where no module is
 * called. Each line of it came from nodes of a graph, whose modules are known (python/memtrace/recording/generated.py).
 *
 *   span now, of the module that was compiled      GPT2
 *   line 131 of the generated code                      h.3.mlp, category FFN
 *   the block's label                              GPT2.h.3.mlp
 *
 * Threads: any. */
#pragma once

#include "producers/torch/torch_label.h"

/* Replaces span and category of a label where the calling thread runs generated code. Costs nothing until there is
 * some. */
void mt_torch_generated_label(struct mt_torch_names *names, struct mt_torch_label *label);

/* Begins anew, for tests. */
void mt_torch_generated_forget(void);
