/* Figures of others, published and measured, to stand beside ours: of the model that `--impl eager` repeats, and of one
 * attention layer.
 *
 * The publication (github.com/luke396/assignment2-systems, docs/README.md) gives reserved memory as GiB with two digits:
 * the segments after 15 steps of PyTorch 2.8 on an A800. In its full steps under autocast backward ran inside of the
 * region, --autocast-end after-backward (docs/eager.md). The measurements repeat it with PyTorch 2.11 on an H200,
 * batch 4, vocabulary 10000, no RoPE, eight steps (tests/data/pytorch_h200.json). */
#pragma once

#include "analysis/run_settings.h"
#include "study/attention_study.h"

/* One configuration, in the spelling of the settings of a run. */
struct mt_published_cell {
    const char *seq, *mode, *autocast;
    double reserved_gib;               /* NAN: was out of memory on 80 GB */
    double autocast_gib;               /* reserved under autocast less in fp32, rounded last; NAN: none published */
    uint64_t measured_allocated_bytes; /* peaks of the repetition */
    uint64_t measured_reserved_bytes;
};

/* Returns the cell of a run with these settings; NULL if it has another model, batch, vocabulary or mode than all cells. */
const struct mt_published_cell *mt_published_find(const struct mt_settings *settings);

/* True if a run with these settings reserved memory by PyTorch's rules, without changes to them: reserved bytes of no other
 * are comparable. */
bool mt_published_is_comparable(const struct mt_settings *settings);

/* Returns how many cells of a precision there are ("off", "bf16"). */
size_t mt_published_count(const char *autocast);

/* The largest allocation of a category in the published tables, in fp32 and under autocast. Forward and full step have the
 * same. The training state is of full steps only; the longest sequence has no table of it. */
struct mt_published_largest {
    const char *seq, *category;
    double baseline_mib, autocast_mib;
};

/* Returns the one of the cell's length and mode; NULL if the tables have none. */
const struct mt_published_largest *mt_published_largest_find(const struct mt_published_cell *cell,
                                                             const char *category);

/* The kernels' time of a phase in a full step of a measured cell, by PyTorch's profiler (tests/data/kernels_h200.json). */
struct mt_published_kernels {
    const char *seq, *autocast, *phase;
    double ms, product_ms; /* of all kernels, and of matrix products */
};

/* Returns the one of the cell's length and precision; NULL if the cell is of another mode or was not measured. */
const struct mt_published_kernels *mt_published_kernels_find(const struct mt_published_cell *cell, const char *phase);

/* One attention layer in PyTorch 2.11 on an H200, batch 8, one head, fp32 with products in TF32, and bf16; not with every
 * variant in each (tests/data/pytorch_h200.json). Its program with torch.softmax stands for ours with softmax, and
 * scaled_dot_product_attention for flash. Memory is of torch.cuda.memory_allocated with the two workspaces of 32 MiB that it
 * held. */
struct mt_attention_peer {
    double kept_mib, peak_mib, forward_ms, backward_ms;
};

/* Returns the cell of a case; NULL if it was not measured. Cases in fp32 and in TF32 have the same. */
const struct mt_attention_peer *mt_attention_peer_find(const struct mt_attention_case *study);

/* Returns bytes without the workspaces, of MiB with them. */
uint64_t mt_attention_peer_bytes(double mib);
