#include "trace/import/frugal_names.h"

#include <string.h>

void mt_frugal_names_create(struct mt_frugal_names *names, const struct mt_sink *sink)
{
    *names = (struct mt_frugal_names){.behind = *sink, .left_bytes = MT_FRUGAL_MOST_BYTES};
    mt_number_map_create(&names->path_bytes);
}

void mt_frugal_names_release(struct mt_frugal_names *names)
{
    mt_number_map_release(&names->path_bytes);
}

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    struct mt_frugal_names *names = context;
    return names->behind.intern_label(names->behind.context, label);
}

static mt_category intern_category(void *context, const char *name)
{
    struct mt_frugal_names *names = context;
    return mt_sink_category(&names->behind, name);
}

static const char *category_name(void *context, mt_category category)
{
    struct mt_frugal_names *names = context;
    return mt_sink_category_name(&names->behind, category);
}

/* What is in no other span takes no more than the file's own name. */
static mt_span_id intern_span(void *context, mt_span_id parent, const char *name)
{
    struct mt_frugal_names *names = context;
    uint64_t bytes = 0, ignored;
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

struct mt_sink mt_frugal_names_sink(struct mt_frugal_names *names)
{
    return (struct mt_sink){.context = names,
                            .intern_label = intern_label,
                            .intern_category = intern_category,
                            .category_name = category_name,
                            .intern_span = intern_span};
}
