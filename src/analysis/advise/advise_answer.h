/* The answer of advise: findings, verified by replay, and settings that change the run's requests, so that a replay of
 * its events could not show their effect. These are verified by simulating the whole run. Only a run of the built-in
 * model can be repeated; for other runs, changes are applied to the recorded blocks. */
#pragma once

#include "analysis/advise/advise.h"
#include "analysis/advise/observed.h"
#include "analysis/advise/program_changes.h"
#include "analysis/fit/fit.h"
#include "producers/model/simulation.h"

/* A simulation of the run with one option changed. */
struct mt_simulated_option {
    struct mt_fit_remedy remedy; /* its fit is not set */
    struct mt_simulation simulation;
};

enum { MT_MOST_SIMULATED_OPTIONS = 5 };

/* Invariant: if count is 0, as_it_is was not simulated. Owns no memory. */
struct mt_simulated_advice {
    char device[MT_DEVICE_NAME];   /* of all simulations; the plans borrow it, so do not copy this struct */
    struct mt_card card;           /* of the device, if the run stores it */
    struct mt_simulation as_it_is; /* baseline for the options */
    /* Options that lower the peak. For an eager run, the fused implementation comes first, since the others need it. */
    struct mt_simulated_option options[MT_MOST_SIMULATED_OPTIONS];
    size_t count;
};

enum { MT_MOST_PEAK_LINES = 5 };

/* A line of the program's own code and its allocations. Borrows the trace's texts. */
struct mt_peak_line {
    const char *line; /* "train.py:29" */
    const char *span; /* of its largest block; "": outside any module */
    uint64_t bytes;   /* requested */
    uint64_t blocks;
};

/* The lines that requested most of the bytes that are live at the allocated peak.
 * Invariant: items are ordered by bytes, largest first. Owns no memory. */
struct mt_peak_lines {
    struct mt_peak_line items[MT_MOST_PEAK_LINES];
    size_t count; /* 0: the run recorded no call stacks */
};

/* The tensors of one operator, dtype, shape and line that request most of the bytes at the allocated peak. Borrows the
 * trace's texts. */
struct mt_peak_tensor {
    const char *op, *dtype, *shape, *span, *line; /* span of the largest; "": outside any module, not recorded */
    uint64_t bytes, blocks;                       /* requested; 0: no shape is known */
};

/* A run, its peaks and the advice. Owns everything but the question; plans of options borrow the trace's texts. */
struct mt_advice_answer {
    const struct mt_question *question;
    struct mt_advice_material material;
    struct mt_peak_row peaks[MT_MEASURE_COUNT];
    struct mt_advice advice;
    struct mt_simulated_advice simulated; /* for runs of the built-in model */
    struct mt_program_changes changes;    /* for other runs whose allocator is known */
    struct mt_peak_lines lines;           /* for other runs */
    struct mt_peak_tensor largest;        /* for other runs */
    struct mt_observations observations;  /* for other runs */
};

/* Loads the run, finds at most `limit` findings of the extent, and simulates settings on a device of the run's
 * capacity. Both are for the allocator `alloc`, which may be NULL as in mt_advice_material_load. Fails with MT_USAGE
 * for a run without events. Borrows the question. Release in any case. */
mt_status mt_advice_answer_load(const struct mt_question *question, const struct mt_alloc_settings *alloc,
                                mt_advice_extent extent, size_t limit, struct mt_advice_answer *out);
void mt_advice_answer_release(struct mt_advice_answer *answer);
