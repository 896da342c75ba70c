#include "producers/torch/torch_generated.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "producers/torch/memtrace_torch.h"
#include "producers/torch/torch_frames.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FRAMES = 4, CATEGORY_BITS = 8 }; /* frames of PyTorch's own between generated code and the request */

/* Lines from `first` on, up to the next origin's. */
struct origin {
    int32_t first, category;
    const char *root, *path, *kind;
};

/* A code object. Invariant: origins[0 .. count) are in order of their first lines, and borrow from `text`. */
struct code {
    char *text;
    struct origin *origins;
    uint32_t count;
};

/* All code. Invariants: codes[0 .. count); indices has the index of each by its address. A place is known for an
 * origin's address and the span around it: span << CATEGORY_BITS | category. Code is never removed: Python keeps the
 * objects. */
static struct generated {
    struct mt_lock lock;
    atomic_uint count;
    struct code *codes;
    struct mt_number_map indices, instructions, places;
} generated = {.lock = MT_LOCK(MT_RANK_GENERATED)};

/* ---- adding ---- */

/* Ends the text's next field at a tab or at the end of the line, and returns where it begins. */
static char *next_field(char **text)
{
    char *field = *text;
    *text += strcspn(*text, "\t\n");
    if (**text != '\0')
        *(*text)++ = '\0';
    return field;
}

/* Reads "LINE\tROOT\tPATH\tKIND\tCATEGORY\n" for each origin. */
static void read_origins(struct code *code)
{
    char *text = code->text;
    while (*text != '\0') {
        struct origin origin = {.first = atoi(next_field(&text))};
        origin.root = next_field(&text);
        origin.path = next_field(&text);
        origin.kind = next_field(&text);
        origin.category = atoi(next_field(&text));
        *MT_HOST_ADD(code->origins, code->count) = origin;
    }
}

static void create_maps(void)
{
    mt_number_map_create(&generated.indices);
    mt_number_map_create(&generated.instructions);
    mt_number_map_create(&generated.places);
}

void memtrace_torch_generated(uint64_t code_object, const char *origins)
{
    struct code code = {.text = mt_host_strdup(origins)};
    read_origins(&code);
    mt_lock_take(&generated.lock);
    if (generated.count == 0)
        create_maps();
    generated.codes = mt_host_room(generated.codes, generated.count, sizeof *generated.codes);
    generated.codes[generated.count] = code;
    mt_number_map_put(&generated.indices, code_object, generated.count);
    generated.count++;
    mt_lock_give(&generated.lock);
}

/* ---- finding ---- */

/* Returns the origin of a line; NULL for lines before the first. */
static const struct origin *origin_at(const struct code *code, int line)
{
    const struct origin *found = NULL;
    for (uint32_t i = 0; i < code->count && code->origins[i].first <= line; i++)
        found = &code->origins[i];
    return found;
}

/* Returns the origin of the innermost frame of generated code; NULL if there is none. The lock is held. */
static const struct origin *find_origin(const struct mt_torch_frame *frames, uint32_t depth)
{
    uint64_t index, known;
    for (uint32_t i = 0; i < depth; i++) {
        const struct mt_torch_frame *frame = &frames[i];
        if (!mt_number_map_get(&generated.indices, (uint64_t)(uintptr_t)frame->code, &index))
            continue;
        const uint64_t key = index << 32 | (uint32_t)frame->instruction;
        if (!mt_number_map_get(&generated.instructions, key, &known)) {
            known = (uint64_t)(uintptr_t)origin_at(&generated.codes[index], mt_torch_frame_line(frame));
            mt_number_map_put(&generated.instructions, key, known);
        }
        return (const struct origin *)(uintptr_t)known;
    }
    return NULL;
}

/* Returns the span of a path within another span. */
static mt_span_id span_of(struct mt_torch_names *names, mt_span_id around, const char *path, const char *kind)
{
    char name[256];
    while (*path != '\0') {
        const size_t length = strcspn(path, ".");
        const bool is_last = path[length] == '\0';
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        around = mt_torch_names_span(names, around, name, is_last ? kind : "");
        path += length + !is_last;
    }
    return around;
}

/* Returns the place of an origin within a span. The lock is held. */
static uint64_t place_of(struct mt_torch_names *names, const struct origin *origin, mt_span_id around)
{
    const uint64_t key = (uint64_t)(uintptr_t)origin << 16 ^ around;
    uint64_t place;
    if (mt_number_map_get(&generated.places, key, &place))
        return place;
    if (around == 0)
        around = span_of(names, 0, origin->root, origin->root);
    const mt_span_id span = span_of(names, around, origin->path, origin->kind);
    place = (uint64_t)span << CATEGORY_BITS | mt_torch_known(origin->category);
    mt_number_map_put(&generated.places, key, place);
    return place;
}

void mt_torch_generated_label(struct mt_torch_names *names, struct mt_torch_label *label)
{
    struct mt_torch_frame frames[MOST_FRAMES];
    if (atomic_load_explicit(&generated.count, memory_order_relaxed) == 0)
        return;
    const uint32_t depth = mt_torch_frames_top(frames, MOST_FRAMES);
    mt_lock_take(&generated.lock);
    const struct origin *origin = find_origin(frames, depth);
    const uint64_t place = origin != NULL && *origin->path != '\0' ? place_of(names, origin, label->span) : 0;
    mt_lock_give(&generated.lock);
    if (place != 0) {
        label->span = (mt_span_id)(place >> CATEGORY_BITS);
        label->category = (mt_category)(place & ((1u << CATEGORY_BITS) - 1));
    }
}

void mt_torch_generated_forget(void)
{
    generated.count = 0;
}
