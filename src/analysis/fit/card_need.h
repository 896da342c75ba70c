/* The memory that programs on one card need together, from one dry run of each.
 *
 *   ├────────────────────────────────── memory ──────────────────────────────────┤
 *   ├─ reserved of A ─┤─ outside of A ─┤─ reserved of B ─┤─ outside of B ─┤ free ┤
 *
 * Each process has its own context. A program of several processes counts with the card on which they need most
 * (dry_peak.h). Peaks are added, since the times at which programs reach them are unknown.
 *
 * Threads: one at a time. */
#pragma once

#include "analysis/fit/dry_peak.h"
#include "base/job_folder.h"
#include "producers/program/dry_child.h"

enum { MT_MOST_PROGRAMS = 16 };

/* One of the programs. Owns its outcome, whose traces exist until the release.
 * Invariant: bytes == peak.peak.reserved_bytes + outside_bytes. */
struct mt_program_need {
    const struct mt_dry_options *program; /* borrowed */
    struct mt_program_outcome outcome;
    struct mt_job_folder folder; /* of its traces */
    struct mt_dry_peak peak;
    uint64_t outside_bytes; /* on that card: contexts, libraries, NCCL; 0 if a reserve was requested */
    uint64_t bytes;
    bool is_too_large;       /* it ran out of memory on a card of MT_ROOMY_BYTES, so `peak` is unknown */
    int64_t nodes, per_node; /* of the job: nodes, and cards per node */
    bool has_cards;          /* the command line or options name the cards per node */
};

/* Invariants: bytes is the sum over the programs, plus a requested reserve; memory_bytes <= the device's memory; fits
 * is false if a program is too large. */
struct mt_card_need {
    struct mt_program_need *programs;
    size_t count;
    size_t largest; /* index of the program that needs most */
    uint64_t bytes, outside_bytes, memory_bytes;
    bool fits;
    bool fits_by_reuse; /* one program fits only because PyTorch frees cached memory when the card is full */
};

/* Dry-runs the programs, `programs[0].jobs` at a time. `limit_bytes` is a limit below the card's memory; 0: none. Fails
 * with MT_USAGE for options that a dry run does not support, with MT_NO_DRY_RUN if a program can't be started or
 * allocates nothing on a card, and with MT_FAILED if one fails or is killed. A program that is too large is not an
 * error. Borrows `programs`. Release *out in any case. */
mt_status mt_card_need_find(const struct mt_dry_options *programs, size_t count, const struct mt_fit_device *device,
                            uint64_t limit_bytes, struct mt_card_need *out);
void mt_card_need_release(struct mt_card_need *need);
