/* How a run stands or ended: as it is stored in run.state, and in words. */
#ifndef MT_TRACE_RUN_STATE_H
#define MT_TRACE_RUN_STATE_H

/* The states, with the spelling of run.state and what a sentence says of such a run. */
#define MT_RUN_STATES(X)                                                                                               \
    X(RUNNING, "running", "is still running")                                                                          \
    X(DONE, "done", "is done")                                                                                         \
    X(FAILED, "failed", "ended with a failure")                                                                        \
    X(OOM, "oom", "ended out of memory")                                                                               \
    X(INTERRUPTED, "interrupted", "was interrupted: its process died")

typedef enum mt_run_state {
#define X(name, text, words) MT_RUN_##name,
    MT_RUN_STATES(X)
#undef X
        MT_RUN_STATE_COUNT
} mt_run_state;

/* "running", "done", …, as in run.state. */
const char *mt_run_state_name(mt_run_state state);

/* What to say after "run 3": "is done", "ended out of memory". Of a state that is none of ours, as a foreign file
 * may have it, `stored` itself. */
const char *mt_run_state_words(const char *stored);

#endif
