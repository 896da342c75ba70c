/* What fit says of programs as they are, without changes: the bytes that they need of a card, for people, gates and schedulers.
 *
 * Threads: the main one. */
#pragma once

#include "analysis/fit/fit_device.h"
#include "cli/output/output.h"
#include "cli/record/dry_options.h"
#include "words/gpu_request.h"

/* Stands between the words of two programs that share a card. */
#define MT_BETWEEN_PROGRAMS "--and"

/* Texts are borrowed. */
struct mt_card_need_question {
    const struct mt_dry_options *program; /* its words may be those of several programs */
    const struct mt_fit_device *device;
    uint64_t limit_bytes; /* 0: all of the device */
    mt_report_form form;
    bool is_quiet;          /* print the bytes alone */
    bool is_strict;         /* fail if something that could take memory is not known */
    bool annotates;         /* print an annotation if it does not fit (cli/output/annotation.h) */
    mt_scheduler scheduler; /* print its request alone; MT_SCHEDULER_COUNT: none */
    const char *summary;    /* a file to append Markdown to; NULL: none */
    const char *title;      /* of the annotation and the summary: "memtrace fit" */
    const char *budget;     /* the name of a budget: the answer is one line about it; NULL: there is none */
    json_t *list;           /* that JSON is added to; NULL: it is printed */
};

/* Runs the programs dry and prints the answer. Fails with MT_USAGE if the scheduler can't be asked for
 * the device, as mt_card_need_find does, with MT_FAILED if they do not fit, and with
 * MT_NOT_CERTAIN if they fit, but is_strict. JSON is printed in each of these cases. */
mt_status mt_card_need_answer(const struct mt_card_need_question *question);
