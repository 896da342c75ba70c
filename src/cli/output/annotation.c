#include "cli/output/annotation.h"

#include "trace/query/trace.h"
#include "trace/query/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds the file as an absolute path, since readers of a log do not know the folder. */
static void add_absolute(const char *file, struct mt_text *out)
{
    char *path = realpath(file, NULL);
    mt_text_add(out, "%s", path != NULL ? path : file);
    free(path);
}

mt_status mt_source_place_find_peak(const struct mt_question *question, mt_measure measure, struct mt_source_place *out)
{
    struct mt_peak_row peak;
    struct mt_stack_row *stacks = NULL;
    size_t count = 0;
    uint32_t stack = 0;
    *out = (struct mt_source_place){0};
    mt_status status = mt_trace_peak(question->trace, question->run, measure, &peak);
    MT_THEN(status, mt_trace_event_stack(question->trace, question->run, peak.event, &stack));
    if (status == MT_OK && stack != 0)
        status = mt_trace_stacks(question->trace, question->run, &stacks, &count);
    const struct mt_stack_row *frame = status == MT_OK ? mt_stack_own(stacks, count, stack) : NULL;
    if (frame != NULL && frame->line > 0) {
        add_absolute(frame->file, &out->file);
        out->line = frame->line;
    }
    free(stacks);
    mt_peak_row_release(&peak);
    return status;
}

/* Parses a frame of a traceback, `  File "train.py", line 41, in main`, also in an exception group. Sets *out if the
 * file belongs to the program. */
static void read_frame(const char *line, struct mt_source_place *out)
{
    static const char BEGIN[] = "File \"", BETWEEN[] = "\", line ";
    line += strspn(line, " |");
    if (strncmp(line, BEGIN, strlen(BEGIN)) != 0)
        return;
    const char *name = line + strlen(BEGIN), *end = strstr(name, BETWEEN);
    if (end == NULL || (size_t)(end - name) > strcspn(name, "\n"))
        return;
    struct mt_text file = {0};
    mt_text_add(&file, "%.*s", (int)(end - name), name);
    if (mt_stack_file_is_own(mt_text_get(&file))) {
        mt_source_place_release(out);
        add_absolute(mt_text_get(&file), &out->file);
        out->line = strtoull(end + strlen(BETWEEN), NULL, 10);
    }
    mt_text_release(&file);
}

void mt_source_place_find_failure(const char *output, struct mt_source_place *out)
{
    *out = (struct mt_source_place){0};
    while (output[0] != '\0') {
        read_frame(output, out);
        output += strcspn(output, "\n");
        output += output[0] == '\n';
    }
}

void mt_source_place_release(struct mt_source_place *place)
{
    mt_text_release(&place->file);
}

/* Adds text, escaped for a workflow command: characters that would end the line or, with `is_property`, the
 * property. */
static void add_escaped(const char *text, bool is_property, struct mt_text *out)
{
    for (; *text != '\0'; text++) {
        const bool is_special = *text == '%' || *text == '\r' || *text == '\n';
        if (is_special || (is_property && (*text == ':' || *text == ',')))
            mt_text_add(out, "%%%02X", (unsigned)*text);
        else
            mt_text_add(out, "%c", *text);
    }
}

void mt_annotation_print(const struct mt_source_place *place, const char *title, const char *message)
{
    struct mt_text line = {0};
    mt_text_add(&line, "::error ");
    if (place->line > 0) {
        mt_text_add(&line, "file=");
        add_escaped(mt_text_get(&place->file), true, &line);
        mt_text_add(&line, ",line=%" PRIu64 ",", place->line);
    }
    mt_text_add(&line, "title=");
    add_escaped(title, true, &line);
    mt_text_add(&line, "::");
    add_escaped(message, false, &line);
    fprintf(stderr, "%s\n", mt_text_get(&line));
    mt_text_release(&line);
}
