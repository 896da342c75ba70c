#include "producers/torch/torch_label.h"

#include "base/interner.h"
#include "base/memory.h"
#include "producers/torch/memtrace_torch.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

void mt_torch_names_start(struct mt_torch_names *names)
{
    *names = (struct mt_torch_names){.interner = mt_interner_create(), .operators = mt_name_set_create()};
    mt_lock_create(&names->lock, MT_RANK_NAMES);
}

void mt_torch_names_end(struct mt_torch_names *names)
{
    for (uint32_t i = 1; i <= names->span_count; i++)
        free((char *)(uintptr_t)names->spans[i].kind);
    free(names->spans);
    free(names->has_kernel);
    mt_category_set_release(&names->categories);
    mt_name_set_destroy(names->operators);
    mt_interner_destroy(names->interner);
}

/* Adds a new span of the interner, whose ids are dense. The lock is held. */
static void append(struct mt_torch_names *names, mt_span_id span, const char *kind)
{
    assert(span == names->span_count + 1);
    names->spans = mt_host_room(names->spans, span, sizeof *names->spans);
    const struct mt_span *known = mt_interner_find_span(names->interner, span);
    int parent_layer = known->parent != 0 ? names->spans[known->parent].layer : -1;
    names->spans[span] = (struct mt_torch_span){.parent = known->parent,
                                                .name = known->name,
                                                .kind = mt_host_strdup(kind),
                                                .layer = mt_span_layer(known->name, parent_layer)};
    names->span_count = span;
}

mt_span_id mt_torch_names_span(struct mt_torch_names *names, mt_span_id parent, const char *name, const char *kind)
{
    bool is_new = false;
    mt_lock_take(&names->lock);
    mt_span_id span = mt_interner_span(names->interner, parent <= names->span_count ? parent : 0, name, &is_new);
    if (is_new)
        append(names, span, kind);
    assert(span > 0 && span <= names->span_count);
    mt_lock_give(&names->lock);
    return span;
}

bool mt_torch_names_find(struct mt_torch_names *names, mt_span_id span, struct mt_torch_span *out)
{
    mt_lock_take(&names->lock);
    bool is_known = span > 0 && span <= names->span_count;
    if (is_known)
        *out = names->spans[span];
    mt_lock_give(&names->lock);
    return is_known;
}

mt_category mt_torch_names_category(struct mt_torch_names *names, const char *name, bool *is_new)
{
    mt_lock_take(&names->lock);
    uint32_t before = mt_category_set_count(&names->categories);
    mt_category category = mt_category_set_add(&names->categories, name);
    *is_new = mt_category_set_count(&names->categories) > before;
    mt_lock_give(&names->lock);
    return category;
}

const char *mt_torch_names_category_name(struct mt_torch_names *names, mt_category category)
{
    mt_lock_take(&names->lock);
    const char *name = category < mt_category_set_count(&names->categories)
                           ? mt_category_set_name(&names->categories, category)
                           : NULL;
    mt_lock_give(&names->lock);
    return name;
}

uint16_t mt_torch_names_operator(struct mt_torch_names *names, const char *name, bool *has_kernel)
{
    mt_lock_take(&names->lock);
    uint32_t number = mt_name_set_number(names->operators, name, NULL);
    if (has_kernel != NULL)
        *has_kernel = number < names->kernel_room && names->has_kernel[number];
    mt_lock_give(&names->lock);
    return number <= UINT16_MAX ? (uint16_t)number : 0;
}

void mt_torch_names_add_kernel(struct mt_torch_names *names, const char *name)
{
    mt_lock_take(&names->lock);
    uint32_t number = mt_name_set_number(names->operators, name, NULL);
    if (number >= names->kernel_room) {
        const size_t room = 2 * (size_t)number;
        names->has_kernel = mt_host_resize(names->has_kernel, room, sizeof *names->has_kernel);
        memset(names->has_kernel + names->kernel_room, 0, room - names->kernel_room);
        names->kernel_room = room;
    }
    names->has_kernel[number] = true;
    mt_lock_give(&names->lock);
}

const char *mt_torch_names_operator_name(struct mt_torch_names *names, uint16_t number)
{
    assert(number > 0);
    mt_lock_take(&names->lock);
    const char *name = mt_name_set_name(names->operators, number);
    mt_lock_give(&names->lock);
    return name;
}

/* ---- labels ---- */

/* State of the program. It is global because the library is called through plain functions. The phase is one word,
 * category << 8 | phase, so that a reader never sees half of a change. */
static bool (*_Atomic grad_mode)(void);
static _Atomic uint32_t program_phase = MT_CATEGORY_OTHER << 8 | MT_PHASE_INIT;

enum { CATEGORY_SHIFT = 8, BYTE = 0xff };

void mt_torch_label_grad_mode(bool (*is_enabled)(void))
{
    grad_mode = is_enabled;
}

static bool is_without_grad(void)
{
    bool (*is_enabled)(void) = atomic_load_explicit(&grad_mode, memory_order_relaxed);
    return is_enabled != NULL && !is_enabled();
}

static struct mt_thread_spans *spans;
static void (*_Atomic on_end)(mt_span_id span); /* NULL: there is no trace yet */

void mt_torch_label_on_end(void (*end)(mt_span_id span))
{
    on_end = end;
}

static void end_span(void *context, mt_span_id span)
{
    (void)context;
    void (*end)(mt_span_id) = atomic_load_explicit(&on_end, memory_order_relaxed);
    if (span != 0 && end != NULL)
        end(span);
}

/* A program without a free thread-specific key runs without spans. */
static void create_spans(void)
{
    (void)mt_thread_spans_create(end_span, NULL, &spans);
}

struct mt_thread_spans *mt_torch_spans(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, create_spans);
    return spans;
}

struct mt_torch_label mt_torch_label_now(void)
{
    const uint32_t word = atomic_load_explicit(&program_phase, memory_order_relaxed);
    const struct mt_place *place = mt_thread_spans_now(mt_torch_spans());
    if (place == NULL)
        return (struct mt_torch_label){.phase = (mt_phase)(word & BYTE),
                                       .category = (mt_category)(word >> CATEGORY_SHIFT),
                                       .without_grad = is_without_grad()};
    return (struct mt_torch_label){.phase = (mt_phase)(word & BYTE),
                                   .span = place->span,
                                   .category = place->category,
                                   .without_grad = place->without_grad};
}

struct mt_torch_label mt_torch_label_of_cublas(struct mt_torch_names *names)
{
    struct mt_torch_label label = mt_torch_label_now();
    label.span = mt_torch_names_span(names, 0, "cuBLAS", "workspace");
    label.category = MT_CATEGORY_WORKSPACE;
    return label;
}

uint32_t mt_torch_label_begin(mt_span_id span, mt_category category)
{
    assert(category < MT_MOST_CATEGORIES);
    if (mt_host_is_exhausted())
        return mt_thread_spans_depth(mt_torch_spans());
    const struct mt_place place = {.span = span, .layer = -1, .category = category, .without_grad = is_without_grad()};
    return mt_thread_spans_begin(mt_torch_spans(), &place);
}

bool mt_torch_label_phase(mt_phase phase, mt_category category)
{
    assert((unsigned)phase < MT_PHASE_COUNT && category < MT_MOST_CATEGORIES);
    const uint32_t before =
        atomic_exchange_explicit(&program_phase, (uint32_t)category << CATEGORY_SHIFT | phase, memory_order_relaxed);
    return (before & BYTE) != phase;
}

/* ---- in a trace ---- */

/* Returns a hash of a shape. */
static uint64_t hash_of(const struct memtrace_torch_shape *shape)
{
    uint64_t hash = shape != NULL ? (uint64_t)shape->dtype + 1 : 0;
    for (int i = 0; shape != NULL && i < shape->dims; i++)
        hash = (hash << 29 | hash >> 35) * 0x94d049bb133111ebu ^ ((uint64_t)shape->sizes[i] + 1) * 0x9e3779b97f4a7c15u;
    return hash * 0xbf58476d1ce4e5b9u;
}

uint64_t mt_torch_label_key(const struct mt_torch_label *label)
{
    assert(label->category < MT_MOST_CATEGORIES && label->phase < MT_PHASE_COUNT);
    const uint64_t key = (uint64_t)label->operator_number << 48 | (uint64_t)label->span << 16 |
                         (uint64_t)label->category << 8 | (uint64_t)label->without_grad << 7 | label->phase;
    return key ^ hash_of(label->shape);
}

/* A bit for each category whose blocks are workspaces, besides the built-in one. */
static _Atomic uint64_t workspaces;

void mt_torch_label_is_workspace(mt_category category)
{
    _Static_assert(MT_MOST_CATEGORIES <= 64, "a bit for each category");
    atomic_fetch_or_explicit(&workspaces, (uint64_t)1 << category, memory_order_relaxed);
}

/* `kind` is the class of the label's span. */
static mt_role role_of(const struct mt_torch_label *label, const char *kind)
{
    if (atomic_load_explicit(&workspaces, memory_order_relaxed) >> label->category & 1)
        return MT_ROLE_WORKSPACE;
    if (strcmp(kind, MT_TORCH_COPY) == 0)
        return MT_ROLE_KEPT;
    if (strcmp(kind, MT_TORCH_GATHERED) == 0)
        return MT_ROLE_GATHERED_PARAMETER;
    if (strcmp(kind, MT_TORCH_CACHE) == 0)
        return MT_ROLE_KEY_VALUE_CACHE;
    switch (label->category) {
    case MT_CATEGORY_PARAM:
        return MT_ROLE_PARAMETER;
    case MT_CATEGORY_GRADIENT:
        return MT_ROLE_GRADIENT;
    case MT_CATEGORY_OPT_STATE:
        return MT_ROLE_OPTIMIZER_STATE;
    case MT_CATEGORY_DATA:
        return strcmp(kind, "Buffer") == 0 ? MT_ROLE_BUFFER : MT_ROLE_INPUT;
    case MT_CATEGORY_WORKSPACE:
        return MT_ROLE_WORKSPACE;
    default:
        return label->phase == MT_PHASE_FORWARD && !label->without_grad ? MT_ROLE_ACTIVATION : MT_ROLE_TEMPORARY;
    }
}

/* True for an operator of a loss. Programs compute losses in modules of any kind, or in none. */
static bool is_of_loss(const char *op)
{
    static const char *const names[] = {"log_softmax", "LogSoftmax", "_loss", "Loss", "cross_entropy", "CrossEntropy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strstr(op, names[i]) != NULL)
            return true;
    return false;
}

/* Returns the category of a label with `role`. Results of loss operators have the category Loss. */
static mt_category category_of(const struct mt_torch_label *label, mt_role role, const char *op)
{
    const bool is_computed = role == MT_ROLE_ACTIVATION || role == MT_ROLE_TEMPORARY;
    return is_computed && label->operator_number > 0 && is_of_loss(op) ? MT_CATEGORY_LOSS : label->category;
}

/* Returns a dtype by its number in PyTorch (c10/core/ScalarType.h). */
static mt_dtype dtype_of(int number)
{
    static const mt_dtype dtypes[] = {MT_U8,
                                      MT_I8,
                                      MT_I16,
                                      MT_I32,
                                      MT_I64,
                                      MT_F16,
                                      MT_F32,
                                      MT_F64,
                                      MT_C32,
                                      MT_C64,
                                      MT_C128,
                                      MT_BOOL,
                                      MT_NONE,
                                      MT_NONE,
                                      MT_NONE,
                                      MT_BF16,
                                      [23] = MT_F8_E5M2,
                                      [24] = MT_F8_E4M3FN,
                                      [25] = MT_F8_E5M2FNUZ,
                                      [26] = MT_F8_E4M3FNUZ,
                                      [27] = MT_U16,
                                      [28] = MT_U32,
                                      [29] = MT_U64,
                                      [44] = MT_F8_E8M0FNU,
                                      [45] = MT_F4_E2M1X2};
    return number >= 0 && (size_t)number < sizeof dtypes / sizeof dtypes[0] ? dtypes[number] : MT_NONE;
}

static void add_shape(struct mt_label *label, const struct memtrace_torch_shape *shape)
{
    _Static_assert((int)MEMTRACE_TORCH_DIMS == (int)MT_LABEL_MAX_DIMS, "a label has room for a shape");
    label->dtype = dtype_of(shape->dtype);
    label->dims = shape->dims;
    memcpy(label->shape, shape->sizes, (size_t)shape->dims * sizeof *shape->sizes);
}

struct mt_label mt_torch_label_in_trace(struct mt_torch_names *names, const struct mt_torch_label *label,
                                        mt_span_id span)
{
    struct mt_torch_span known = {.kind = "", .layer = -1};
    (void)mt_torch_names_find(names, label->span, &known);
    const mt_role role = role_of(label, known.kind);
    if (label->operator_number > 0)
        known.kind = mt_torch_names_operator_name(names, label->operator_number);
    struct mt_label made = {.category = category_of(label, role, known.kind),
                            .role = role,
                            .role_source = MT_ROLE_SOURCE_OBSERVED,
                            .phase = label->phase,
                            .op = known.kind,
                            .span = span,
                            .layer = known.layer};
    if (label->shape != NULL)
        add_shape(&made, label->shape);
    return made;
}
