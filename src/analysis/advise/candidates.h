/* Candidates: the cuts of a window, grouped by pattern and by labels, and weighed by how far the peak falls without
 * them. Private to this folder. */
#pragma once

#include "analysis/lifetimes.h"

/* A possible finding.
 * Invariants: cuts are ordered by block, then by position; the peak falls by at most peak_bytes. */
struct mt_candidate {
    struct mt_finding finding; /* only its pattern and texts are set */
    const struct mt_cut *cuts;
    size_t count;
    uint64_t peak_bytes; /* absent at the peak */
    double byte_seconds;
    struct mt_cut_usage usage; /* set when it is weighed */
    bool comes_first;          /* set when all are weighed: one option fixes it, and it saves enough */
};

struct mt_candidates {
    struct mt_candidate *items;
    size_t count;
    size_t left_out;                          /* candidates that were dropped as parts of others */
    uint64_t most_bytes;                      /* set when they are weighed: the largest saving */
    struct mt_cut *cuts[MT_PATTERN_COUNT][2]; /* of the kind; of the kind's activations together */
};

/* Runs every detector. Release in any case. */
void mt_candidates_create(const struct mt_window *window, struct mt_candidates *out);
void mt_candidates_release(struct mt_candidates *candidates);

/* Drops candidates that are parts of other candidates. */
void mt_candidates_drop_parts(struct mt_candidates *candidates);

/* Weighs candidates and orders them like findings (struct mt_advice). No peak falls by more than the bytes cut at it,
 * so the candidates are weighed in the order of that bound. This stops when none of the rest can be among the first
 * `limit`. Candidates that one option fixes are always weighed. The rest is assumed to save nothing. */
void mt_candidates_weigh(struct mt_candidates *candidates, struct mt_window *window, size_t limit);

/* True if a finding with this saving comes first: one option fixes it, and it saves at least a tenth of most_bytes, or
 * for reserved memory half of it. */
bool mt_finding_comes_first(const struct mt_finding *finding, uint64_t saved_bytes, uint64_t most_bytes);

/* Moves candidates that are parts of others behind them. */
void mt_candidates_gather_parts(struct mt_candidates *candidates);

/* Returns the bytes by which the peak falls without the candidate's cuts. The candidate must be weighed. */
uint64_t mt_candidate_saved(const struct mt_candidate *candidate, const struct mt_window *window);
