/* Whether a PyTorch program fits a device: dry runs of it, unchanged and with changes.
 *
 * Threads: one at a time. */
#pragma once

#include "analysis/advise/program_changes.h"
#include "analysis/fit/dry_fit.h"
#include "analysis/fit/fit_device.h"
#include "producers/program/dry_child.h"

/* Callbacks while changes are tried. All members are set. The observer may be NULL. */
struct mt_program_fit_observer {
    void *context;
    /* Called before several trials, which run in parallel. */
    void (*begins)(void *context, size_t count);
    /* Called after each trial. It is the trial number `number`, from 1, of `count` to end. */
    void (*ended)(void *context, const struct mt_dry_trial *trial, size_t number, size_t count);
    /* Called after the trial of the unchanged program. */
    void (*plain_ran)(void *context, const struct mt_program_outcome *outcome);
};

/* Owns its parts. */
struct mt_program_fit {
    /* The device, minus the memory outside the allocator of the process with the plain trial's peak. */
    struct mt_fit_device counted;
    struct mt_dry_fit fit;
    /* Of the unchanged program's run with the peak; empty if that is too long, or shares its card. */
    struct mt_program_changes replayed;
    struct mt_text said; /* the end of the unchanged program's output, if it failed */
};

/* Tries the program's changes. The traces of the dry runs are removed. A program that fails is not an error: see
 * fit.plain. Fails for options that a dry run does not support, if the program can't be started or allocates nothing on
 * a card, and if a dry run that the answer needs is killed. Release *out in any case. */
mt_status mt_program_fit_find(const struct mt_dry_options *program, const struct mt_fit_device *device,
                              const struct mt_program_fit_observer *observer, struct mt_program_fit *out);
void mt_program_fit_release(struct mt_program_fit *found);
