/* The answer of fit about unchanged programs: how much memory of a card they need, as text, for CI and for schedulers.
 *
 * Threads: the main one. */
#pragma once

#include "analysis/fit/fit_device.h"
#include "cli/output/output.h"
#include "cli/record/dry_options.h"
#include "words/gpu_request.h"

/* Separates the words of two programs that share a card. */
#define MT_BETWEEN_PROGRAMS "--and"

/* Texts are borrowed. */
struct mt_card_need_question {
    const struct mt_dry_options *program; /* its words may contain several programs */
    const struct mt_fit_device *device;
    uint64_t limit_bytes; /* 0: the whole device */
    mt_report_form form;
    bool is_quiet;          /* print only the bytes */
    bool is_strict;         /* fail if some memory is unknown */
    bool annotates;         /* print an annotation if they do not fit (cli/output/annotation.h) */
    mt_scheduler scheduler; /* print only a request to it; MT_SCHEDULER_COUNT: none */
    const char *summary;    /* a file to append Markdown to; NULL: none */
    const char *title;      /* of the annotation and the summary: "memtrace fit" */
    const char *budget;     /* the name of a budget: the answer is one line about it; NULL: no budget */
    json_t *list;           /* to which JSON is added; NULL: JSON is printed */
};

/* Dry-runs the programs and prints the answer. Fails with MT_USAGE if the scheduler has no request for the device, as
 * mt_card_need_find does, with MT_FAILED if the programs do not fit, and with MT_NOT_CERTAIN if they fit, but is_strict
 * and some memory is unknown. Prints JSON in each of these cases. */
mt_status mt_card_need_answer(const struct mt_card_need_question *question);
