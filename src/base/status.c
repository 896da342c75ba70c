#include "base/status.h"

#include "base/error_text.h"

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
    /* The arguments may quote the previous text, so it is replaced only once the new one is complete. */
    char text[MT_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(mt_error_text(), text, sizeof text);
    return status;
}

mt_status mt_fail_context(mt_status status, const char *format, ...)
{
    char prefix[MT_ERROR_TEXT_BYTES / 4];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    return mt_fail(status, "%s: %s", prefix, mt_error_text());
}

const char *mt_last_error(void)
{
    return mt_error_text();
}
