/* What PyTorch's operators take inside on the simulated card, for the library that gives PyTorch a card
 * (src/producers/torch/dry).
 * Threads: any. */
#pragma once

#include "operators/operator_call.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 1 if calls of an operator ("aten::sum") have a plan, 0 if they take nothing inside, MT_INNER_UNKNOWN if the
 * table does not have it. */
int memtrace_torch_has_plan(const char *name);

/* Writes what a call takes inside, of at most MT_INNER_MOST actions, and returns their count. */
int memtrace_torch_plan(const struct mt_operator_call *call, struct mt_inner *out);

/* Reports the way by which the calling thread's last call went, if it was another than the first of its plan's
 * MT_INNER_TRY. */
void memtrace_torch_took(int way);

/* Ends the trial of MT_INNER_TRIAL: empties the cache of the allocator, unless memtrace_torch_keep_cache was set. */
void memtrace_torch_tried(void);
void memtrace_torch_keep_cache(int keeps_cache);

/* Returns the kernel of scaled_dot_product_attention: an enum mt_attention_kernel. */
int memtrace_torch_attention(const struct mt_attention_request *request);

/* Counts a call whose memory inside is not known, and the bytes of its results. Copies the operator's name. */
void memtrace_torch_count_unknown(const char *name, uint64_t bytes);

/* Says that the next block that the thread takes on a card is scratch memory whose bytes are an estimate with this
 * range; that it takes none if `bytes` is 0. */
void memtrace_torch_about(int device, int64_t bytes, const struct mt_byte_range *range);

/* Counts a call whose memory inside is a guess (MT_INNER_GUESS). Copies the operator's name. */
void memtrace_torch_count_guess(const char *name);

/* Returns the name of an operator whose memory inside is not known, by its place in the order of first calls, and sets
 * its calls and bytes; NULL after the last. */
const char *memtrace_torch_unknown(int place, uint64_t *out_calls, uint64_t *out_bytes);

/* Has cuDNN answer questions about convolutions: `program` is memtrace's helper, `library` the path of libcudnn.so.9,
 * and answers are kept in `folder` (NULL: nowhere). Copies the paths. Before the first convolution. Without this call,
 * workspaces of convolutions are estimated. */
void memtrace_torch_cudnn(const char *program, const char *library, const char *folder);

/* Returns which convolutions, by their reasons, and which other operators were estimated, by its place among them, and
 * sets the number of calls; NULL after the last. */
const char *memtrace_torch_estimate(int place, uint64_t *out_calls);

#ifdef __cplusplus
}
#endif
