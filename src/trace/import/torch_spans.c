#include "trace/import/torch_spans.h"

#include "base/text.h"
#include "trace/import/glob.h"

#include <inttypes.h>
#include <string.h>

/* Whose frames say nothing about the program. */
static const char libraries[] = "*site-packages/*|*dist-packages/*|*lib/python3*|<frozen*|torch/*";

/* What PyTorch calls a module by. */
static const char module_call[] = "_call_impl|_wrapped_call_impl";

static bool counts(const struct mt_call_frame *frame)
{
    return frame->is_python && !mt_glob_fits(libraries, frame->file);
}

/* How many frames, from the innermost on, lie within the outermost call of a module; all if there is none. */
static uint32_t frames_of_modules(const struct mt_call_stack *stack)
{
    for (uint32_t i = stack->frame_count; i > 0; i--)
        if (stack->frames[i - 1].is_python && mt_glob_fits(module_call, stack->frames[i - 1].name))
            return i;
    return stack->frame_count;
}

/* "model" of "code/model.py". */
static void add_stem(struct mt_text *text, const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *name = slash != NULL ? slash + 1 : file;
    mt_text_add(text, "%.*s/", (int)strcspn(name, "."), name);
}

mt_span_id mt_torch_span_of_stack(const struct mt_sink *sink, const struct mt_call_stack *stack)
{
    mt_span_id span = 0;
    const char *file = NULL;
    for (uint32_t i = frames_of_modules(stack); i-- > 0;) {
        const struct mt_call_frame *frame = &stack->frames[i];
        struct mt_text name = {0};
        if (!counts(frame))
            continue;
        if (file == NULL || strcmp(file, frame->file) != 0)
            add_stem(&name, frame->file);
        file = frame->file;
        mt_text_add(&name, "%s:%" PRId64, frame->name, frame->line);
        span = sink->intern_span(sink->context, span, mt_text_get(&name));
        mt_text_release(&name);
    }
    return span;
}

mt_span_id mt_torch_span_of_path(const struct mt_sink *sink, const char *path)
{
    mt_span_id span = 0;
    while (*path != '\0') {
        struct mt_text name = {0};
        size_t length = strcspn(path, ".");
        mt_text_add(&name, "%.*s", (int)length, path);
        if (length > 0)
            span = sink->intern_span(sink->context, span, mt_text_get(&name));
        mt_text_release(&name);
        path += length + (path[length] == '.');
    }
    return span;
}
