/* What a function that can fail returns, and the words for it.
 *
 * A status is also the program's exit code, so a failure keeps its meaning from where it happens to the shell. The text
 * of the last failure is kept per thread: it is set where the failure happens, with the numbers, and read once, by
 * whoever prints. */
#ifndef MT_BASE_STATUS_H
#define MT_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define MT_STATUSES(X)                                                                                                 \
    X(OK, 0, "done")                                                                                                   \
    X(FAILED, 1, "failed")                                                                                             \
    X(USAGE, 2, "wrong usage")                                                                                         \
    X(BAD_TRACE, 3, "not a trace, or a damaged one")                                                                   \
    X(NO_DEVICE, 4, "no such device")                                                                                  \
    X(OUT_OF_MEMORY, 5, "out of device memory")                                                                        \
    X(NOT_WRITTEN, 6, "what was to be written could not be")

typedef enum mt_status {
#define X(name, code, text) MT_##name = code,
    MT_STATUSES(X)
#undef X
} mt_status;

/* The status in words ("out of device memory"). Static text. */
const char *mt_status_text(mt_status status);

/* Records why this thread fails and returns `status`, so that `return mt_fail(MT_USAGE, "…", n);` is the whole of
 * an error path. A later call replaces the text: cleanup code that may fail must not call it (see mt_status_keep). */
mt_status mt_fail(mt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the recorded text: for callers that know what was being done. Returns `status`. */
mt_status mt_fail_context(mt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The text of this thread's last failure; "" before the first. Valid until the thread's next failure. */
const char *mt_last_error(void);

/* The first of two outcomes that is a failure: `status = mt_status_keep(status, close(...))`. */
static inline mt_status mt_status_keep(mt_status first, mt_status second)
{
    return first != MT_OK ? first : second;
}

#ifdef __cplusplus
}
#endif

#endif
