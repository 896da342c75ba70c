/* libmemtrace_inject.so, which CUDA's driver loads into the programs that `memtrace record` starts
 * (CUDA_INJECTION64_PATH), and NVTX before them if they use it (NVTX_INJECTION64_PATH). It becomes CUPTI's
 * subscriber, opens the trace when the process makes its first context, and closes it when the process exits.
 *
 * It never stops the program, prints nothing, and leaves signals alone: what it can't do is told to `memtrace
 * record`, and where it can do nothing it leaves CUPTI to others. */
#ifndef MT_RECORD_CUPTI_INJECT_H
#define MT_RECORD_CUPTI_INJECT_H

#define MT_INJECT_FILE "libmemtrace_inject.so"
#define MT_INJECT_REFUSAL_NAME "mt_inject_refusal"

/* Why programs can't be recorded with the CUPTI that was found; NULL: they can. The text is valid until the
 * thread calls again. */
typedef const char *(*mt_inject_refusal_function)(void);
const char *mt_inject_refusal(void);

#endif
