/* A program of PyTorch on a device: dry runs of it, as it is and with changes.
 *
 * Threads: one at a time. */
#pragma once

#include "analysis/advise/program_changes.h"
#include "analysis/fit/dry_fit.h"
#include "analysis/fit/fit_device.h"
#include "producers/program/dry_child.h"

/* Receives what happens while changes are tried. All members are set; NULL in its place: nobody listens. */
struct mt_program_fit_observer {
    void *context;
    /* Is called before several trials, which run side by side. */
    void (*begins)(void *context, size_t count);
    /* Is called after each trial. It is the one with that number, from 1, that has ended, of `count`. */
    void (*ended)(void *context, const struct mt_dry_trial *trial, size_t number, size_t count);
    /* Is called after the trial of the program as it is. */
    void (*plain_ran)(void *context, const struct mt_program_outcome *outcome);
};

/* Owns its parts. */
struct mt_program_fit {
    struct mt_fit_device
        counted; /* the device, less the memory that the process of the plain trial's peak held outside of the
                                   * allocator */
    struct mt_dry_fit fit;
    struct mt_program_changes
        replayed; /* of the run of the program as it is that decides; empty if it is too long, or shares its card */
    struct mt_text said; /* the end of the output of the program as it is, if it failed */
};

/* Tries the program's changes. The dry runs are kept nowhere. A program that fails is no failure: see fit.plain. Fails for
 * options that a dry run does not support, if the program can't be started or takes no memory of a card, and if a dry run is
 * killed without which there is no answer. Release *out in
 * any case. */
mt_status mt_program_fit_find(const struct mt_dry_options *program, const struct mt_fit_device *device,
                              const struct mt_program_fit_observer *observer, struct mt_program_fit *out);
void mt_program_fit_release(struct mt_program_fit *found);
