/* Candidates: the cuts of a window, grouped by pattern and by what their blocks are, and weighed by how far the peak falls
 * without them. Private to this folder. */
#pragma once

#include "analysis/lifetimes.h"

/* A possible finding.
 * Invariants: cuts are ordered by block, then by position; the peak falls by peak_bytes at most. */
struct mt_candidate {
    struct mt_finding finding; /* its pattern and its texts, and nothing else */
    const struct mt_cut *cuts;
    size_t count;
    uint64_t peak_bytes; /* absent at the peak */
    double byte_seconds;
    struct mt_cut_usage usage; /* once it is weighed */
    bool comes_first;          /* once all are: one option mends it, and it saves enough */
};

struct mt_candidates {
    struct mt_candidate *items;
    size_t count;
    size_t left_out;                          /* candidates that were dropped since they are parts of others */
    uint64_t most_bytes;                      /* once they are weighed: the most that one of them saves */
    struct mt_cut *cuts[MT_PATTERN_COUNT][2]; /* of the kind; of its activations together */
};

/* Runs every detector. Release in any case. */
void mt_candidates_create(const struct mt_window *window, struct mt_candidates *out);
void mt_candidates_release(struct mt_candidates *candidates);

/* Drops candidates that are parts of others. */
void mt_candidates_drop_parts(struct mt_candidates *candidates);

/* Weighs candidates and puts them in the order of findings (struct mt_advice). Since no peak falls by more than what is absent
 * at it, they are weighed in the order of that bound, and only until none of the rest can be among the first `limit`, unless
 * one option mends it; the rest is taken to save nothing. */
void mt_candidates_weigh(struct mt_candidates *candidates, struct mt_window *window, size_t limit);

/* True if a finding that saves so much comes first: one option mends it, and it saves a tenth of the most or more. */
bool mt_finding_comes_first(const struct mt_finding *finding, uint64_t saved_bytes, uint64_t most_bytes);

/* Puts candidates that are parts of others behind these. */
void mt_candidates_gather_parts(struct mt_candidates *candidates);

/* Returns the bytes by which the peak falls without the candidate's cuts, once it is weighed. */
uint64_t mt_candidate_saved(const struct mt_candidate *candidate, const struct mt_window *window);
