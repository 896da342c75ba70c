/* Labels of callers, checked and interned; and their call stacks. */
#include "api/run_parts.h"
#include "base/memory.h"

#include <assert.h>

#define MEMTRACE_NONE MEMTRACE_NO_DTYPE /* its name here differs */
#define X(name, text, bytes) static_assert((int)MEMTRACE_##name == (int)MT_##name, "the numbers are the same");
MT_DTYPES(X)
#undef X
#define X(name, text) static_assert((int)MEMTRACE_##name == (int)MT_ROLE_SOURCE_##name, "the numbers are the same");
MT_ROLE_SOURCES(X)
#undef X
static_assert((int)MEMTRACE_MOST_DIMS == (int)MT_LABEL_MAX_DIMS, "as many dims are kept");

/* Converts a role. False for an invalid number, which callers may pass. */
static bool find_role(memtrace_role role, mt_role *out)
{
    static const mt_role roles[] = {[MEMTRACE_TEMPORARY] = MT_ROLE_TEMPORARY,
                                    [MEMTRACE_PARAMETER] = MT_ROLE_PARAMETER,
                                    [MEMTRACE_GRADIENT] = MT_ROLE_GRADIENT,
                                    [MEMTRACE_OPTIMIZER_STATE] = MT_ROLE_OPTIMIZER_STATE,
                                    [MEMTRACE_ACTIVATION] = MT_ROLE_ACTIVATION,
                                    [MEMTRACE_WEIGHT_CAST] = MT_ROLE_WEIGHT_CAST,
                                    [MEMTRACE_WORKSPACE] = MT_ROLE_WORKSPACE,
                                    [MEMTRACE_INPUT] = MT_ROLE_INPUT,
                                    [MEMTRACE_OTHER] = MT_ROLE_OTHER,
                                    [MEMTRACE_BUFFER] = MT_ROLE_BUFFER,
                                    [MEMTRACE_KEY_VALUE_CACHE] = MT_ROLE_KEY_VALUE_CACHE,
                                    [MEMTRACE_KEPT] = MT_ROLE_KEPT,
                                    [MEMTRACE_GATHERED_PARAMETER] = MT_ROLE_GATHERED_PARAMETER,
                                    [MEMTRACE_UNKNOWN_ROLE] = MT_ROLE_UNKNOWN};
    if ((size_t)role >= sizeof roles / sizeof roles[0])
        return false;
    *out = roles[role];
    return true;
}

/* Returns the number of dims for which the caller's label has room; older labels have less. */
static int most_dims(const memtrace_label *label)
{
    const size_t begin = offsetof(memtrace_label, shape);
    if (label->size >= begin + sizeof label->shape)
        return MEMTRACE_MOST_DIMS;
    return label->size > begin ? (int)((label->size - begin) / sizeof label->shape[0]) : 0;
}

static mt_status copy_shape(const memtrace_label *label, struct mt_label *out)
{
    const int most = most_dims(label);
    if (label->dims < 0 || label->dims > most)
        return mt_fail(MT_USAGE, "a label has %d dims; 0 to %d can be said", label->dims, most);
    out->dims = label->dims;
    for (int i = 0; i < label->dims; i++) {
        if (label->shape[i] < 0)
            return mt_fail(MT_USAGE, "shape[%d] of a label is %lld", i, (long long)label->shape[i]);
        out->shape[i] = label->shape[i];
    }
    return MT_OK;
}

static mt_status check_numbers(const struct memtrace_run *run, const memtrace_label *label)
{
    if ((size_t)label->dtype >= MT_DTYPE_COUNT)
        return mt_fail(MT_USAGE, "a label has dtype %d; there are 0 to %d", (int)label->dtype, MT_DTYPE_COUNT - 1);
    if ((size_t)label->role_source >= MT_ROLE_SOURCE_COUNT)
        return mt_fail(MT_USAGE, "a label has source %d of its role; there are 0 to %d", (int)label->role_source,
                       MT_ROLE_SOURCE_COUNT - 1);
    if (label->stack > atomic_load_explicit(&run->stacks, memory_order_relaxed))
        return mt_fail(MT_USAGE, "%u is no stack of this run; memtrace_stack returns their numbers", label->stack);
    return MT_OK;
}

/* Converts the fields of a label. The phase is the run's; the span and layer are the thread's unless the label names a
 * span. */
static mt_status convert(struct memtrace_run *run, const memtrace_label *given, struct mt_label *out,
                         mt_stack_id *out_stack)
{
    memtrace_label label;
    struct mt_place place = {.span = out->span, .layer = out->layer};
    MT_TRY(mt_api_copy_in("memtrace_label", given, &label, sizeof label));
    if (!find_role(label.role, &out->role))
        return mt_fail(MT_USAGE, "a label has role %d; there are 0 to %d", (int)label.role, MEMTRACE_UNKNOWN_ROLE);
    MT_TRY(check_numbers(run, &label));
    if (label.span != 0 && !mt_api_find_span(run, label.span, &place))
        return mt_api_fail_span(label.span);
    if (label.category != NULL)
        out->category = mt_sink_category(mt_api_sink(run), label.category);
    if (label.op != NULL)
        out->op = label.op;
    out->dtype = (mt_dtype)label.dtype;
    out->role_source = (mt_role_source)label.role_source;
    out->span = place.span;
    out->layer = place.layer;
    *out_stack = label.stack;
    return label.dims != 0 ? copy_shape(&label, out) : MT_OK;
}

mt_status mt_api_label(struct memtrace_run *run, const memtrace_label *label, struct mt_api_purpose *out)
{
    const struct mt_sink *sink = mt_api_sink(run);
    const struct mt_place place = mt_api_place_now(run);
    struct mt_label whole = {.category = MT_CATEGORY_OTHER,
                             .role = MT_ROLE_OTHER,
                             .phase = (mt_phase)memtrace_phase_now(run),
                             .op = "",
                             .span = place.span,
                             .layer = place.layer};
    out->stack = 0;
    MT_TRY(label != NULL ? convert(run, label, &whole, &out->stack) : MT_OK);
    assert((unsigned)whole.phase < MT_PHASE_COUNT);
    out->label = sink->intern_label(sink->context, &whole);
    out->span = whole.span;
    assert(out->label != 0 || mt_host_is_exhausted());
    return MT_OK;
}

/* ---- call stacks ---- */

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

/* Counts an issued number. Numbers are dense. Returns the number. */
static uint32_t count_number(atomic_uint *count, uint32_t number)
{
    uint32_t known = atomic_load(count);
    while (known < number && !atomic_compare_exchange_weak(count, &known, number))
        ;
    return number;
}

uint32_t memtrace_frame(memtrace_run *run, const char *function, const char *file, uint32_t line)
{
    const struct mt_sink *sink = mt_api_sink(run);
    const struct mt_frame frame = {text_of(function), text_of(file), line};
    return count_number(&run->frames, sink->intern_frame(sink->context, &frame));
}

uint32_t memtrace_stack(memtrace_run *run, uint32_t parent, uint32_t frame)
{
    const struct mt_sink *sink = mt_api_sink(run);
    if (frame == 0 || frame > atomic_load(&run->frames) || parent > atomic_load(&run->stacks))
        return 0;
    return count_number(&run->stacks, sink->intern_stack(sink->context, parent, frame));
}
