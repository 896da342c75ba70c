/* What PyTorch takes for the same layer, as it was measured, to stand beside our figures.
 *
 * PyTorch 2.11 on an H200, batch 8, one head, fp32 with products in TF32, and bf16; not with every variant in each. Its
 * program with torch.softmax stands for ours with softmax, and scaled_dot_product_attention for flash
 * (tests/data/pytorch_h200.json). */
#ifndef MT_STUDY_ATTENTION_PEER_H
#define MT_STUDY_ATTENTION_PEER_H

#include "study/attention_study.h"

/* One measured cell. Memory is of torch.cuda.memory_allocated with the two workspaces of 32 MiB that it held. */
struct mt_attention_peer {
    mt_dtype dtype;
    int64_t d_model, seq;
    mt_attention_kind attention;
    double kept_mib, peak_mib, forward_ms, backward_ms;
};

/* The cell of a case; NULL if it was not measured. Cases in fp32 and in TF32 have the same. */
const struct mt_attention_peer *mt_attention_peer_find(const struct mt_attention_case *study);

/* Its bytes without the workspaces, from MiB with them. */
uint64_t mt_attention_peer_bytes(double mib);

#endif
