#include "base/status.h"

#include "base/plain_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *mt_status_text(mt_status status)
{
    switch (status) {
#define X(name, code, text)                                                                                            \
    case MT_##name:                                                                                                    \
        return text;
        MT_STATUSES(X)
#undef X
    }
    return "unknown status";
}

mt_status mt_fail(mt_status status, const char *format, ...)
{
    assert(status != MT_OK);
    /* The arguments may quote the previous text, so it is replaced only once the new one is complete. */
    char text[MT_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    mt_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(mt_error_text(), text, sizeof text);
    return status;
}

mt_status mt_fail_context(mt_status status, const char *format, ...)
{
    char prefix[MT_ERROR_TEXT_BYTES / 4];
    va_list arguments;
    va_start(arguments, format);
    mt_print_list(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    return mt_fail(status, "%s: %s", prefix, mt_error_text());
}

const char *mt_last_error(void)
{
    return mt_error_text();
}

struct mt_error mt_error_save(mt_status status)
{
    struct mt_error error = {.status = status};
    if (status != MT_OK)
        memcpy(error.text, mt_error_text(), sizeof error.text);
    return error;
}

mt_status mt_error_restore(const struct mt_error *first, mt_status second)
{
    assert(memchr(first->text, '\0', sizeof first->text) != NULL);
    if (first->status == MT_OK)
        return second;
    memmove(mt_error_text(), first->text, sizeof first->text);
    return first->status;
}
