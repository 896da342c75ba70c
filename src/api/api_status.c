/* Outcomes, errors, the version, and structs of callers that were compiled with another version. */
#include "api/run_parts.h"
#include "base/order.h"

#include <assert.h>
#include <string.h>

#define X(name, code, text) static_assert((int)MEMTRACE_##name == (int)MT_##name, "the numbers are the same");
MT_STATUSES(X)
#undef X

#define TEXT(number) #number
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *memtrace_version(void)
{
    return VERSION(MEMTRACE_VERSION_MAJOR, MEMTRACE_VERSION_MINOR, MEMTRACE_VERSION_PATCH);
}

const char *memtrace_status_text(memtrace_status status)
{
    return mt_status_text((mt_status)status);
}

const char *memtrace_last_error(void)
{
    return mt_last_error();
}

static mt_status read_size(const char *what, const void *given, size_t *out_bytes)
{
    enum { MOST_BYTES = 4096 }; /* larger sizes are uninitialized memory */
    if (given == NULL)
        return mt_fail(MT_USAGE, "%s is NULL", what);
    memcpy(out_bytes, given, sizeof *out_bytes);
    if (*out_bytes > sizeof *out_bytes && *out_bytes <= MOST_BYTES)
        return MT_OK;
    return mt_fail(MT_USAGE, "the size of a %s is %zu; set it to sizeof(%s)", what, *out_bytes, what);
}

mt_status mt_api_copy_in(const char *what, const void *given, void *out, size_t out_bytes)
{
    size_t given_bytes = 0;
    assert(out_bytes > sizeof given_bytes);
    MT_TRY(read_size(what, given, &given_bytes));
    memset(out, 0, out_bytes);
    memcpy(out, given, mt_smaller(given_bytes, out_bytes));
    return MT_OK;
}

mt_status mt_api_copy_out(const char *what, const void *from, size_t from_bytes, void *out)
{
    size_t bytes = 0;
    assert(from_bytes > sizeof bytes);
    MT_TRY(read_size(what, out, &bytes));
    memset(out, 0, bytes);
    memcpy(out, from, mt_smaller(from_bytes, bytes));
    memcpy(out, &bytes, sizeof bytes);
    return MT_OK;
}
