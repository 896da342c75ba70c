#include "producers/file/import_spans.h"

#include "base/text.h"
#include "producers/file/glob.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

void mt_bounded_names_create(struct mt_bounded_names *names, const struct mt_sink *sink)
{
    assert(sink->intern_label != NULL && sink->intern_span != NULL);
    *names = (struct mt_bounded_names){.behind = *sink, .left_bytes = MT_MOST_PATH_BYTES};
    mt_number_map_create(&names->path_bytes);
}

void mt_bounded_names_release(struct mt_bounded_names *names)
{
    mt_number_map_release(&names->path_bytes);
}

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    struct mt_bounded_names *names = context;
    return names->behind.intern_label(names->behind.context, label);
}

static mt_category intern_category(void *context, const char *name)
{
    struct mt_bounded_names *names = context;
    return mt_sink_category(&names->behind, name);
}

static const char *category_name(void *context, mt_category category)
{
    struct mt_bounded_names *names = context;
    return mt_sink_category_name(&names->behind, category);
}

/* A span at the root takes no more bytes than its name in the file, so it is never refused. */
static mt_span_id intern_span(void *context, mt_span_id parent, const char *name)
{
    struct mt_bounded_names *names = context;
    uint64_t bytes = 0, ignored;
    assert(names->left_bytes <= MT_MOST_PATH_BYTES);
    mt_number_map_get(&names->path_bytes, parent, &bytes);
    bytes += strlen(name) + 1;
    if (parent != 0 && bytes > names->left_bytes)
        return parent;
    mt_span_id span = names->behind.intern_span(names->behind.context, parent, name);
    if (mt_number_map_get(&names->path_bytes, span, &ignored))
        return span;
    mt_number_map_put(&names->path_bytes, span, bytes);
    names->left_bytes -= bytes < names->left_bytes ? bytes : names->left_bytes;
    return span;
}

struct mt_sink mt_bounded_names_sink(struct mt_bounded_names *names)
{
    return (struct mt_sink){.context = names,
                            .intern_label = intern_label,
                            .intern_category = intern_category,
                            .category_name = category_name,
                            .intern_span = intern_span};
}

/* Returns the number of frames, from the innermost on, within the outermost call of a module; 0 if there is none. */
static uint32_t frames_of_modules(const struct mt_call_stack *stack)
{
    for (uint32_t i = stack->frame_count; i > 0; i--)
        if (stack->frames[i - 1]->is_module_call)
            return i;
    return 0;
}

/* Adds "model/" for "code/model.py", and "inductor/" for code that torch.compile wrote into a file named by its
 * hash. */
static void add_stem(struct mt_text *text, const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *name = mt_glob_fits("*torchinductor*/*", file) ? "inductor" : slash != NULL ? slash + 1 : file;
    mt_text_add(text, "%.*s/", (int)strcspn(name, "."), name);
}

/* Returns the span of the modules and annotations that a profiler named; 0 if it named none. */
static mt_span_id span_of_names(const struct mt_sink *sink, const struct mt_call_stack *stack)
{
    mt_span_id span = 0;
    for (uint32_t i = stack->frame_count; i-- > 0;)
        if (stack->frames[i]->owner == MT_FRAME_OF_PROFILE)
            span = sink->intern_span(sink->context, span, stack->frames[i]->name);
    return span;
}

mt_span_id mt_span_of_stack(const struct mt_sink *sink, const struct mt_call_stack *stack)
{
    mt_span_id span = span_of_names(sink, stack);
    const char *file = NULL;
    if (span != 0)
        return span;
    uint32_t modules = frames_of_modules(stack);
    for (uint32_t i = modules > 0 ? modules : stack->frame_count; i-- > 0;) {
        const struct mt_call_frame *frame = stack->frames[i];
        struct mt_text name = {0};
        if (frame->owner != MT_FRAME_OF_PROGRAM && !(modules > 0 && frame->owner == MT_FRAME_OF_LIBRARY))
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

mt_span_id mt_span_of_path(const struct mt_sink *sink, const char *path)
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
