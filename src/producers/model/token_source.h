/* The source of a step's tokens: a seed, the reference generator, or the bytes of a file. */
#pragma once

#include "producers/model/config.h"
#include "producers/model/runtime.h"

struct mt_token_source;

/* Opens the file, if the configuration names one. Fails with MT_FAILED if it can't be read or is shorter than a
 * sequence. Borrows `config`. */
mt_status mt_token_source_open(const struct mt_training_config *config, struct mt_token_source **out);
void mt_token_source_close(struct mt_token_source *source);

/* Allocates the tokens of a step: one int64 block, with two views `inputs` and `targets` (B,T), new references. Random
 * tokens are their own targets; otherwise the targets are the tokens after the inputs. */
void mt_token_source_next(struct mt_runtime *rt, struct mt_token_source *source, int64_t step,
                          struct mt_tensor **out_inputs, struct mt_tensor **out_targets);
