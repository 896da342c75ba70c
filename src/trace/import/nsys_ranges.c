#include "trace/import/nsys_ranges.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "trace/import/torch_spans.h"

#include <stdlib.h>
#include <string.h>

typedef enum range_kind { RANGE_SPAN, RANGE_STEP, RANGE_PHASE } range_kind;

struct range {
    range_kind kind;
    int64_t thread;
    mt_span_id span;
    char *path; /* of a span */
    bool has_ended;
};

/* Deeper ones are told apart no more: a damaged file may have any number. */
enum { MOST_OPEN = 512 };

/* Invariant: `places` has where in `open` each range lies that has begun and not ended; the last of `open` has not
 * ended. */
struct mt_nsys_ranges {
    struct mt_sink sink;
    struct mt_foreign *foreign;
    struct mt_plain_labels *labels;
    struct range open[MOST_OPEN];
    uint32_t count;
    struct mt_number_map places; /* by number */
    uint32_t open_phases;        /* what is called like a phase within one is a span */
};

struct mt_nsys_ranges *mt_nsys_ranges_create(const struct mt_sink *sink, struct mt_foreign *foreign,
                                             struct mt_plain_labels *labels)
{
    struct mt_nsys_ranges *ranges = mt_host_alloc(sizeof *ranges);
    ranges->sink = *sink;
    ranges->foreign = foreign;
    ranges->labels = labels;
    mt_number_map_create(&ranges->places);
    return ranges;
}

void mt_nsys_ranges_destroy(struct mt_nsys_ranges *ranges)
{
    if (ranges == NULL)
        return;
    for (uint32_t i = 0; i < ranges->count; i++)
        free(ranges->open[i].path);
    mt_number_map_release(&ranges->places);
    free(ranges);
}

static const struct range *innermost_span(const struct mt_nsys_ranges *ranges)
{
    for (uint32_t i = ranges->count; i > 0; i--)
        if (ranges->open[i - 1].kind == RANGE_SPAN && !ranges->open[i - 1].has_ended)
            return &ranges->open[i - 1];
    return NULL;
}

const char *mt_nsys_ranges_path(const struct mt_nsys_ranges *ranges)
{
    const struct range *range = innermost_span(ranges);
    return range != NULL ? range->path : "";
}

static bool is_phase(const char *text, mt_phase *out)
{
    for (int i = 0; i < MT_PHASE_COUNT; i++)
        if (strcmp(text, mt_phase_name((mt_phase)i)) == 0) {
            *out = (mt_phase)i;
            return true;
        }
    return false;
}

static bool is_step(const char *text)
{
    return strncmp(text, "step ", 5) == 0 && text[5] != '\0' && text[strspn(text + 5, "0123456789") + 5] == '\0';
}

/* Within its parent's path, which a text may repeat. */
static char *path_within(const char *parent, const char *text)
{
    struct mt_text path = {0};
    size_t length = strlen(parent);
    if (length > 0 && !(strncmp(text, parent, length) == 0 && text[length] == '.'))
        mt_text_add(&path, "%s.", parent);
    mt_text_add(&path, "%s", text[0] != '\0' ? text : "(range)");
    return path.data;
}

static void begin_span(struct mt_nsys_ranges *ranges, uint64_t time_ns, const char *text, struct range *range)
{
    const struct range *parent = innermost_span(ranges);
    bool is_within = parent != NULL && parent->thread == range->thread;
    range->path = path_within(is_within ? parent->path : "", text);
    range->span = mt_torch_span_of_path(&ranges->sink, range->path);
    if (range->span != 0)
        mt_foreign_span_begin(ranges->foreign, time_ns, range->span);
}

void mt_nsys_ranges_begin(struct mt_nsys_ranges *ranges, uint64_t time_ns, int64_t number, int64_t thread,
                          const char *text)
{
    struct range range = {.thread = thread};
    mt_phase phase;
    if (ranges->count == MOST_OPEN)
        return;
    if (is_step(text)) {
        range.kind = RANGE_STEP;
        mt_foreign_step_begin(ranges->foreign, time_ns);
    } else if (ranges->open_phases == 0 && is_phase(text, &phase)) {
        range.kind = RANGE_PHASE;
        ranges->open_phases++;
        mt_plain_labels_phase(ranges->labels, phase);
        mt_foreign_phase(ranges->foreign, time_ns, phase);
    } else {
        begin_span(ranges, time_ns, text, &range);
    }
    mt_number_map_put(&ranges->places, (uint64_t)number, ranges->count);
    ranges->open[ranges->count++] = range;
}

void mt_nsys_ranges_end(struct mt_nsys_ranges *ranges, uint64_t time_ns, int64_t number)
{
    uint64_t place;
    if (!mt_number_map_take(&ranges->places, (uint64_t)number, &place))
        return;
    struct range *range = &ranges->open[place];
    range->has_ended = true;
    ranges->open_phases -= range->kind == RANGE_PHASE;
    if (range->kind == RANGE_STEP && mt_foreign_step(ranges->foreign) != MT_NO_STEP)
        mt_foreign_step_end(ranges->foreign, time_ns);
    if (range->kind == RANGE_SPAN && range->span != 0)
        mt_foreign_span_end(ranges->foreign, time_ns, range->span);
    for (; ranges->count > 0 && ranges->open[ranges->count - 1].has_ended; ranges->count--)
        free(ranges->open[ranges->count - 1].path);
}
