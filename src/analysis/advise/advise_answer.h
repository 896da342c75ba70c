/* The answer of advise: findings of a run, checked by replay, and settings with which the run makes other requests, so that no
 * replay of its events could tell: these are checked by simulation of the whole run. Only a run of our own model can be made
 * again; to another one's blocks changes are made. */
#pragma once

#include "analysis/advise/advise.h"
#include "analysis/advise/observed.h"
#include "analysis/advise/program_changes.h"
#include "analysis/fit/fit.h"
#include "producers/model/simulation.h"

/* A run with an option. */
struct mt_simulated_option {
    struct mt_fit_remedy remedy; /* its fit is not filled in */
    struct mt_simulation simulation;
};

enum { MT_MOST_SIMULATED_OPTIONS = 5 };

/* Invariant: if count is 0, as_it_is was not simulated. Owns no memory. */
struct mt_simulated_advice {
    char device[MT_DEVICE_NAME];   /* of all simulations; the plans borrow it, so it is not to be copied */
    struct mt_card card;           /* of the device, if the run keeps it */
    struct mt_simulation as_it_is; /* the others are compared with it */
    /* That lower the peak. Of an eager run, the fused implementation, which the others need, comes first. */
    struct mt_simulated_option options[MT_MOST_SIMULATED_OPTIONS];
    size_t count;
};

enum { MT_MOST_PEAK_LINES = 5 };

/* A line of the program's own code, and what it asked for. Texts are the trace's. */
struct mt_peak_line {
    const char *line; /* "train.py:29" */
    const char *span; /* of its largest block; "": outside of any module */
    uint64_t bytes;   /* requested */
    uint64_t blocks;
};

/* The lines that requested most of the bytes that are live at the allocated peak.
 * Invariant: items are ordered by bytes, most first. Owns no memory. */
struct mt_peak_lines {
    struct mt_peak_line items[MT_MOST_PEAK_LINES];
    size_t count; /* 0: the run recorded no call stacks */
};

/* A run, its peaks and the advice. Ownership: everything but the question; plans of options borrow the trace's texts. */
struct mt_advice_answer {
    const struct mt_question *question;
    struct mt_advice_material material;
    struct mt_peak_row peaks[MT_MEASURE_COUNT];
    struct mt_advice advice;
    struct mt_simulated_advice simulated; /* no options of a run that can't be made again */
    struct mt_program_changes changes;    /* of such a run, if its allocator is known; otherwise none */
    struct mt_peak_lines lines;           /* of such a run */
    struct mt_observations observations;  /* of such a run */
};

/* Loads the run, finds at most `limit` findings of the extent, and simulates settings, on a device of the run's capacity. Both
 * are about the allocator `alloc`, or for NULL as mt_advice_material_load says. Fails with MT_USAGE for a run without events.
 * Borrows the question. Release in any case. */
mt_status mt_advice_answer_load(const struct mt_question *question, const struct mt_alloc_settings *alloc,
                                mt_advice_extent extent, size_t limit, struct mt_advice_answer *out);
void mt_advice_answer_release(struct mt_advice_answer *answer);
