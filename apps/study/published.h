/* Published and measured figures of other implementations, for comparison: of the model that `--impl eager` reproduces,
 * and of one attention layer.
 *
 * The publication (github.com/luke396/assignment2-systems, docs/README.md) gives reserved memory in GiB with two
 * digits: the segments after 15 steps of PyTorch 2.8 on an A800. In its full steps under autocast, backward ran inside
 * the region, --autocast-end after-backward (docs/eager.md). The measurements reproduce it with PyTorch 2.11 on an
 * H200, batch 4, vocabulary 10000, no RoPE, eight steps (tests/data/pytorch_h200.json). */
#pragma once

#include "analysis/run_settings.h"
#include "study/attention_study.h"

/* One configuration, with values as in the settings of a run. */
struct mt_published_cell {
    const char *seq, *mode, *autocast;
    double reserved_gib; /* NAN: was out of memory on 80 GB */
    double autocast_gib; /* reserved under autocast minus reserved in fp32, rounded last; NAN: none published */
    uint64_t measured_allocated_bytes; /* peaks of the reproduction */
    uint64_t measured_reserved_bytes;
};

/* Returns the cell of a run with these settings; NULL if its model, batch, vocabulary or mode is in no cell. */
const struct mt_published_cell *mt_published_find(const struct mt_settings *settings);

/* True if a run with these settings reserves memory by PyTorch's unchanged rules: only then are reserved bytes
 * comparable. */
bool mt_published_is_comparable(const struct mt_settings *settings);

/* Returns the number of cells with a precision ("off", "bf16"). */
size_t mt_published_count(const char *autocast);

/* The largest allocation of a category in the published tables, in fp32 and under autocast. Forward and full step have
 * the same. Only full steps have training state; there is no table of it for the longest sequence. */
struct mt_published_largest {
    const char *seq, *category;
    double baseline_mib, autocast_mib;
};

/* Returns the entry for the cell's length and mode; NULL if the tables have none. */
const struct mt_published_largest *mt_published_largest_find(const struct mt_published_cell *cell,
                                                             const char *category);

/* The kernels' time of a phase in a full step of a measured cell, by PyTorch's profiler
 * (tests/data/kernels_h200.json). */
struct mt_published_kernels {
    const char *seq, *autocast, *phase;
    double ms, product_ms; /* of all kernels, and of matrix products */
};

/* Returns the entry for the cell's length and precision; NULL if the cell has another mode or was not measured. */
const struct mt_published_kernels *mt_published_kernels_find(const struct mt_published_cell *cell, const char *phase);

/* One attention layer in PyTorch 2.11 on an H200, batch 8, one head, fp32 with products in TF32, and bf16; not every
 * variant in each (tests/data/pytorch_h200.json). Its program with torch.softmax corresponds to the variant softmax,
 * and scaled_dot_product_attention to flash. Memory is torch.cuda.memory_allocated, including its two workspaces
 * of 32 MiB. */
struct mt_attention_peer {
    double kept_mib, peak_mib, forward_ms, backward_ms;
};

/* Returns the cell of a case; NULL if it was not measured. Cases in fp32 and in TF32 have the same cell. */
const struct mt_attention_peer *mt_attention_peer_find(const struct mt_attention_case *study);

/* Converts MiB with the workspaces to bytes without. */
uint64_t mt_attention_peer_bytes(double mib);
