/* Where a step's tokens come from: a seed, the reference generator, or the bytes of a file. */
#ifndef MT_MODEL_TOKEN_SOURCE_H
#define MT_MODEL_TOKEN_SOURCE_H

#include "model/config.h"
#include "model/tensor.h"

struct mt_token_source;

/* Opens the file, if the configuration names one. MT_FAILED if it can't be read or is shorter than a sequence. */
mt_status mt_token_source_open(const struct mt_training_config *config, struct mt_token_source **out);
void mt_token_source_close(struct mt_token_source *source);

/* The tokens of a step: one int64 block, of which `inputs` and `targets` (B,T) are two new references or views. Random
 * tokens are their own targets; of a file and of the reference the targets are the tokens that follow. */
void mt_token_source_next(struct mt_runtime *rt, struct mt_token_source *source, int64_t step,
                          struct mt_tensor **out_inputs, struct mt_tensor **out_targets);

#endif
