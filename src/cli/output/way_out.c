#include "cli/output/way_out.h"

#include "cli/output/output.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { LONGEST_WAY_OUT = 512 };

mt_status mt_fail_way_out(mt_status status, const char *format, ...)
{
    char way_out[LONGEST_WAY_OUT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(way_out, sizeof way_out, format, arguments);
    va_end(arguments);
    return mt_fail(status, "%s; %s", mt_last_error(), way_out);
}

mt_status mt_way_out_of_writing(mt_status status, const char *untraced)
{
    if (status != MT_FAILED)
        return status;
    return mt_fail_way_out(status, "--trace FILE writes the trace elsewhere%s%s%s", untraced != NULL ? ", " : "",
                           untraced != NULL ? untraced : "", untraced != NULL ? " none" : "");
}

mt_status mt_trace_open_to_ask(const char *path, struct mt_trace **out)
{
    mt_status status = mt_trace_open(path, out);
    if (status != MT_BAD_TRACE || path[0] == '\0' || access(path, F_OK) == 0)
        return status;
    struct mt_text word = {0};
    mt_text_add_shell_word(&word, path);
    mt_fail_way_out(status, "memtrace run --trace %s makes one", word.data);
    mt_text_release(&word);
    return status;
}
