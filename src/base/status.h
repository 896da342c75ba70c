/* The status of a function that can fail, and the text of its failure.
 *
 * A status is also the program's exit code, so a failure keeps its meaning from where it happens to the shell. The text
 * of the last failure is kept for each thread. It is set where the failure happens, with the numbers, and read once,
 * where it is printed. A cleanup that may fail, too, saves the first failure before it and restores it afterwards:
 *
 *   struct mt_error error = mt_error_save(status);
 *   mt_status closed = close_file(file);
 *   return mt_error_restore(&error, closed);
 *
 * A function that has nothing to clean up calls others in MT_TRY, and ends at the first failure. One that cleans up
 * makes its further calls in MT_THEN, which skips them after the first failure. */
#pragma once

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
    X(NOT_WRITTEN, 6, "the output could not be written")                                                               \
    X(NO_HOST_MEMORY, 7, "out of host memory")                                                                         \
    X(NO_DRY_RUN, 8, "a dry run did not take place")                                                                   \
    X(NOT_CERTAIN, 9, "not certain")

typedef enum mt_status {
#define X(name, code, text) MT_##name = code,
    MT_STATUSES(X)
#undef X
} mt_status;

/* Returns the status in words ("out of device memory"), as static text. */
const char *mt_status_text(mt_status status);

/* Sets the text of this thread's last failure and returns `status`, so that `return mt_fail(MT_USAGE, "…", n);` is the
 * whole of an error path. `status` is not MT_OK. The arguments may quote mt_last_error(). */
mt_status mt_fail(mt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the text, for callers that know what was being done. Returns `status`. */
mt_status mt_fail_context(mt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the text of this thread's last failure; "" before the first. Valid until the thread's next failure. */
const char *mt_last_error(void);

/* Returns from the function that it stands in, with the status of `call`, if that is a failure. */
#define MT_TRY(call)                                                                                                   \
    do {                                                                                                               \
        mt_status mt_outcome = (call);                                                                                 \
        if (mt_outcome != MT_OK)                                                                                       \
            return mt_outcome;                                                                                         \
    } while (0)

/* Makes a call only if `status` is MT_OK, and sets `status` to its outcome. */
#define MT_THEN(status, call) ((status) = (status) == MT_OK ? (call) : (status))

/* Returns the first of two outcomes that is a failure, or MT_OK. The text stays that of the last failure: where the
 * second may fail with one of its own, save and restore the first. */
static inline mt_status mt_status_keep(mt_status first, mt_status second)
{
    return first != MT_OK ? first : second;
}

enum { MT_ERROR_TEXT_BYTES = 1024 };

/* Returns this thread's text, "" at first. It has MT_ERROR_TEXT_BYTES and never moves. The function has a file of its
 * own, because a module that is loaded late has another one, which returns the text of the program that loaded it. */
char *mt_error_text(void);

/* An outcome with its text. All zero: MT_OK. */
struct mt_error {
    mt_status status;
    char text[MT_ERROR_TEXT_BYTES]; /* "" if status is MT_OK */
};

/* Returns `status` and, if it is a failure, a copy of its text, which must be this thread's last. */
struct mt_error mt_error_save(mt_status status);

/* Returns the first of two outcomes that is a failure, or MT_OK. If that is `first`, its text is the last one again.
 * Any thread may restore what another saved. */
mt_status mt_error_restore(const struct mt_error *first, mt_status second);

#ifdef __cplusplus
}
#endif
