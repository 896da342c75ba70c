#include "base/status.h"

static _Thread_local char error_text[MT_ERROR_TEXT_BYTES];

char *mt_error_text(void)
{
    return error_text;
}
