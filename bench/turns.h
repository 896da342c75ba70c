/* Steps of ours and of a peer's in turns: ours are a run of their own each time, the peer is a process that waits
 * meanwhile. What is compared are the medians over the turns, of each turn's median of 8 steps. */
#pragma once

#include "bench/card.h"
#include "bench/peer.h"

enum { MOST_TURNS = 3 };
enum { STEP, FORWARD, BACKWARD, OPTIMIZER, PARTS };

/* The parts of a step, as a peer tells them and, with the loss a part of its own, `memtrace steps`. */
static const char *const part_names[PARTS] = {"step", "forward", "backward", "optimizer"};

/* Medians in milliseconds; NAN where there is none. */
struct turns {
    double ours[PARTS], peer[PARTS];
};

/* Starts PyTorch's model in bench/SCRIPT of a setup; none if there are no peers to be had. */
static inline struct peer open_model(const struct bench *bench, const char *script, const struct setup *setup,
                                     const char *options)
{
    char command[2 * LONGEST];
    snprintf(command, sizeof command, "exec python3 '%s/%s' --model %s --seq %d --precision %s %s", bench->peers,
             script, setup->model, setup->seq, setup->precision, options);
    return peer_open(bench->peers != NULL ? command : NULL);
}

/* One run of ours; its parts' medians in *ms, its trace stays. False if it failed. */
static inline bool run_once(struct bench *bench, const struct setup *setup, const char *options, double ms[PARTS])
{
    remove_trace();
    if (run(bench, setup, bench->device, options, NULL) != 0)
        return false;
    for (int part = 0; part < PARTS; part++)
        ms[part] = time_of(bench, part_names[part], "median");
    ms[FORWARD] += time_of(bench, "loss", "median");
    return true;
}

/* As many as `turns`, at most MOST_TURNS. The peer begins, and gives its model up after each turn, so that a card that
 * has room for one of the two is enough. False if a run of ours failed. */
static inline bool take_turns(struct bench *bench, const struct setup *setup, const char *options, int turns,
                              struct peer *peer, struct turns *out)
{
    double ours[PARTS][MOST_TURNS], theirs[PARTS][MOST_TURNS], ms[PARTS], used_bytes;
    for (int turn = 0; turn < turns; turn++) {
        peer_ask(peer, ms, PARTS, "step 8");
        for (int part = 0; part < PARTS; part++)
            theirs[part][turn] = ms[part];
        peer_ask(peer, &used_bytes, 1, "empty");
        if (!run_once(bench, setup, options, ms))
            return false;
        for (int part = 0; part < PARTS; part++)
            ours[part][turn] = ms[part];
    }
    for (int part = 0; part < PARTS; part++) {
        out->ours[part] = median_of(ours[part], turns);
        out->peer[part] = peer_is_there(peer) ? median_of(theirs[part], turns) : NAN;
    }
    return true;
}
