/* For any calls about another program's memory, in any order, the resulting events obey the event record and agree with
 * a naive model, and the trace's peaks are the model's. */
#include "trace_path.h"

#include "base/interner.h"
#include "seed.h"
#include "trace/store/foreign.h"

enum { BASE = 1 << 20, CELLS = 240, SEGMENTS = 1 << 14, RANGES = 3, RANGE_CELLS = 50, OPERATIONS = 3000, SEEDS = 12 };

/* Others call their streams by addresses. */
enum { STREAM = 0x5EAD0000 };

enum { MANY = 1 << 15 }; /* blocks */

/* A block, as both sides know it. */
struct known {
    uint64_t begin, bytes, requested;
    mt_stream stream;
    mt_label_id label;
    mt_span_id span;
    bool live;
};

/* The emitted memory and blocks, an address a cell: 0 for neither. */
struct shadow {
    uint32_t segment[CELLS]; /* birth + 1 */
    uint32_t block[CELLS];   /* sequence of the alloc + 1 */
    uint64_t base[SEGMENTS];
    struct known blocks[CELLS];     /* by first cell */
    uint64_t events, time_ns, ooms; /* time of the last one */
    uint32_t births;
    struct mt_interner *interner;
};

static uint64_t seed, drawn;

static uint64_t draw(uint64_t below)
{
    return mt_splitmix64(seed * 7919 + drawn++) % below;
}

static void begin_seed(void)
{
    seed = take_seed();
    drawn = 0;
}

static void shadow_memory(struct shadow *shadow, const struct mt_event *event, uint64_t first)
{
    bool maps = event->kind == MT_EVENT_SEGMENT_MAP;
    assert_true(event->block_bytes > 0 && first + event->block_bytes <= CELLS);
    if (maps && event->segment == shadow->births)
        shadow->base[shadow->births++ % SEGMENTS] = event->segment_address;
    assert_in_range(event->segment, 0, shadow->births - 1);
    assert_int_equal(event->segment_address, shadow->base[event->segment]);
    for (uint64_t cell = first; cell < first + event->block_bytes; cell++) {
        assert_int_equal(shadow->segment[cell], maps ? 0 : event->segment + 1);
        assert_int_equal(shadow->block[cell], 0);
        shadow->segment[cell] = maps ? event->segment + 1 : 0;
    }
    for (uint64_t cell = 0; cell < CELLS && shadow->segment[cell] != event->segment + 1; cell++)
        if (cell == CELLS - 1)
            shadow->base[event->segment] = UINT64_MAX; /* it ended: nothing fits it any more */
}

static void shadow_alloc(struct shadow *shadow, const struct mt_event *event, uint64_t first)
{
    assert_true(event->requested_bytes <= event->block_bytes && first + event->block_bytes <= CELLS);
    for (uint64_t cell = first; cell < first + event->block_bytes; cell++) {
        assert_int_equal(shadow->segment[cell], event->segment + 1);
        assert_int_equal(shadow->block[cell], 0);
        shadow->block[cell] = (uint32_t)event->sequence + 1;
    }
    shadow->blocks[first] = (struct known){.begin = BASE + first,
                                           .bytes = event->block_bytes,
                                           .requested = event->requested_bytes,
                                           .stream = event->stream,
                                           .label = event->label,
                                           .span = event->span,
                                           .live = true};
}

static void shadow_free(struct shadow *shadow, const struct mt_event *event, uint64_t first)
{
    struct known *block = &shadow->blocks[first];
    assert_true(block->live && block->bytes == event->block_bytes && block->requested == event->requested_bytes);
    assert_true(block->stream == event->stream && block->label == event->label && block->span == event->span);
    for (uint64_t cell = first; cell < first + block->bytes; cell++) {
        assert_int_equal(shadow->segment[cell], event->segment + 1);
        assert_int_equal(shadow->block[cell], shadow->block[first]);
    }
    memset(&shadow->block[first], 0, block->bytes * sizeof shadow->block[0]);
    block->live = false;
}

static void shadow_emit(void *context, const struct mt_event *event)
{
    struct shadow *shadow = context;
    bool is_memory = event->kind == MT_EVENT_SEGMENT_MAP || event->kind == MT_EVENT_SEGMENT_UNMAP;
    uint64_t base = is_memory ? event->segment_address : shadow->base[event->segment % SEGMENTS];
    uint64_t first = base + event->offset - BASE;
    assert_int_equal(event->sequence, shadow->events++);
    assert_true(event->time_ns >= shadow->time_ns);
    shadow->time_ns = event->time_ns;
    if (event->kind <= MT_EVENT_FREE)
        assert_in_range(first, 0, CELLS - 1);
    if (is_memory)
        shadow_memory(shadow, event, first);
    else if (event->kind == MT_EVENT_ALLOC)
        shadow_alloc(shadow, event, first);
    else if (event->kind == MT_EVENT_FREE)
        shadow_free(shadow, event, first);
    else
        shadow->ooms += event->kind == MT_EVENT_OOM;
}

/* The model: gets the same calls, and executes them cell by cell. */
struct model {
    uint32_t segment[CELLS]; /* 0: no memory */
    uint32_t next_segment;
    uint64_t owner[CELLS]; /* the cell of the block that owns the segment here, plus 1; 0: none */
    struct known blocks[CELLS];
    struct mt_foreign_counts counts;
    uint64_t allocated, requested, reserved, peaks[3];
};

static void model_end(struct model *model, uint64_t first)
{
    struct known *block = &model->blocks[first];
    block->live = false;
    model->allocated -= block->bytes;
    model->requested -= block->requested;
    for (uint64_t cell = 0; cell < CELLS; cell++)
        if (model->owner[cell] == first + 1) {
            model->owner[cell] = model->segment[cell] = 0;
            model->reserved--;
        }
}

static uint64_t model_end_all(struct model *model, uint64_t first, uint64_t cells)
{
    uint64_t ended = 0;
    for (uint64_t at = 0; at < CELLS; at++)
        if (model->blocks[at].live && at < first + cells && at + model->blocks[at].bytes > first) {
            model_end(model, at);
            ended++;
        }
    return ended;
}

static uint64_t model_mapped(const struct model *model, uint64_t first, uint64_t cells)
{
    uint64_t mapped = 0;
    for (uint64_t cell = first; cell < first + cells; cell++)
        mapped += model->segment[cell] != 0;
    return mapped;
}

static void model_clear(struct model *model, uint64_t first, uint64_t cells)
{
    for (uint64_t cell = first; cell < first + cells; cell++) {
        model->reserved -= model->segment[cell] != 0;
        model->segment[cell] = 0;
    }
}

static void model_fill(struct model *model, uint64_t first, uint64_t cells, uint32_t segment, uint64_t owner)
{
    for (uint64_t cell = first; cell < first + cells; cell++) {
        model->segment[cell] = segment;
        model->owner[cell] = owner;
    }
    model->reserved += cells;
}

/* The reserved ranges are the first cells. All memory in one belongs to one segment, which has the range's number from
 * 1. */
static uint32_t model_range(uint64_t first, uint64_t cells)
{
    bool within = first / RANGE_CELLS == (first + cells - 1) / RANGE_CELLS && first / RANGE_CELLS < RANGES;
    return within ? (uint32_t)(first / RANGE_CELLS + 1) : 0;
}

static void model_map(struct model *model, uint64_t first, uint64_t cells)
{
    uint32_t range = model_range(first, cells);
    model->counts.maps++;
    model->counts.lost_gives += model_end_all(model, first, cells);
    model->counts.lost_unmaps += model_mapped(model, first, cells) > 0;
    model_clear(model, first, cells);
    model_fill(model, first, cells, range != 0 ? range : ++model->next_segment, 0);
}

static void model_unmap(struct model *model, uint64_t first, uint64_t cells)
{
    model->counts.unmaps++;
    model->counts.unseen_unmaps += model_mapped(model, first, cells) < cells;
    model->counts.unmapped_gives += model_end_all(model, first, cells);
    model_clear(model, first, cells);
}

static void model_take(struct model *model, uint64_t first, uint64_t cells, const struct known *block)
{
    model->counts.takes++;
    model->counts.lost_gives += model_end_all(model, first, cells);
    bool covered = model->segment[first] != 0;
    for (uint64_t cell = first; cell < first + cells; cell++)
        covered = covered && model->segment[cell] == model->segment[first];
    if (!covered) {
        model->counts.straddles += model_mapped(model, first, cells) > 0;
        model->counts.owned_segments++;
        model_clear(model, first, cells);
        model_fill(model, first, cells, ++model->next_segment, first + 1);
    }
    model->blocks[first] = *block;
    model->allocated += block->bytes;
    model->requested += block->requested;
}

static void model_give(struct model *model, uint64_t cell)
{
    model->counts.gives++;
    if (model->blocks[cell].live)
        model_end(model, cell);
    else
        model->counts.unseen_gives++;
}

static void model_raise(struct model *model)
{
    const uint64_t now[] = {model->allocated, model->requested, model->reserved};
    for (int i = 0; i < 3; i++)
        model->peaks[i] = now[i] > model->peaks[i] ? now[i] : model->peaks[i];
}

/* Makes one random call to both sides. */
static void tell_something(struct mt_foreign *foreign, struct model *model, const mt_label_id *labels, uint64_t time_ns)
{
    uint64_t first = draw(CELLS), most = CELLS - first, cells = 1 + draw(most < 24 ? most : 24), what = draw(100);
    if (what < 15) {
        mt_foreign_map(foreign, time_ns, BASE + first, cells, 0);
        model_map(model, first, cells);
    } else if (what < 25) {
        mt_foreign_unmap(foreign, time_ns, BASE + first, cells);
        model_unmap(model, first, cells);
    } else if (what < 65) {
        uint64_t requested = draw(cells + 1), stream = draw(3);
        const struct known block = {.begin = BASE + first,
                                    .bytes = cells,
                                    .requested = requested,
                                    .stream = (mt_stream)stream,
                                    .label = labels[draw(4)],
                                    .live = true};
        const struct mt_foreign_block taken = {.address = BASE + first,
                                               .requested_bytes = requested,
                                               .block_bytes = cells,
                                               .stream = stream == 0 ? 0 : STREAM + stream,
                                               .label = block.label};
        mt_foreign_take(foreign, time_ns, &taken);
        model_take(model, first, cells, &block);
    } else {
        for (uint64_t i = 0; i < 20 && !model->blocks[first].live; i++)
            first = draw(CELLS);
        mt_foreign_give(foreign, time_ns, BASE + first);
        model_give(model, first);
    }
    model_raise(model);
}

/* Labels of four categories, the ranges that model_range knows, and streams in the order that the model numbers
 * them. */
static struct mt_foreign *begin_foreign(const struct mt_sink *sink, mt_label_id *labels)
{
    static const char *const names[] = {"Param", "Tower", "Other", "Adapter"};
    struct mt_foreign *foreign = mt_foreign_create(sink);
    for (int i = 0; i < 4; i++) {
        struct mt_label label = {.category = mt_sink_category(sink, names[i]), .op = "foreign", .layer = i};
        labels[i] = sink->intern_label(sink->context, &label);
    }
    for (uint64_t i = 0; i < 2 * RANGES; i++) /* in halves, since ranges of one owner join */
        assert_true(mt_foreign_reserve(foreign, BASE + i * RANGE_CELLS / 2, RANGE_CELLS / 2, i / 2));
    for (uint64_t stream = 1; stream < 3; stream++) {
        const struct mt_foreign_block request = {.stream = STREAM + stream, .label = labels[0]};
        mt_foreign_oom(foreign, 0, &request);
    }
    return foreign;
}

static void check_state(const struct mt_foreign *foreign, const struct shadow *shadow, const struct model *model)
{
    const struct mt_foreign_counts counts = mt_foreign_counts(foreign);
    assert_memory_equal(&counts, &model->counts, sizeof counts);
    for (uint64_t cell = 0; cell < CELLS; cell++) {
        const struct known *a = &shadow->blocks[cell], *b = &model->blocks[cell];
        struct mt_foreign_block found;
        assert_int_equal(shadow->segment[cell] != 0, model->segment[cell] != 0);
        assert_int_equal(a->live, b->live);
        assert_int_equal(mt_foreign_find(foreign, BASE + cell, &found), b->live);
        if (!b->live)
            continue;
        assert_true(a->begin == b->begin && a->bytes == b->bytes && a->requested == b->requested);
        assert_true(a->stream == b->stream && a->label == b->label);
        assert_true(found.requested_bytes == b->requested && found.block_bytes == b->bytes && found.label == b->label);
        assert_int_equal(found.stream, b->stream == 0 ? 0 : STREAM + b->stream);
    }
    for (uint64_t cell = 1; cell < CELLS; cell++) /* neighbours belong to one segment on both sides, or on neither */
        if (model->segment[cell] != 0 && model->segment[cell - 1] != 0)
            assert_int_equal(shadow->segment[cell] == shadow->segment[cell - 1],
                             model->segment[cell] == model->segment[cell - 1]);
}

static mt_label_id shadow_label(void *context, const struct mt_label *label)
{
    return mt_interner_label(((struct shadow *)context)->interner, label, NULL);
}

static void any_interleaving_is_what_a_naive_model_says(void **state)
{
    (void)state;
    static struct shadow shadow;
    for (int i = 0; i < SEEDS; i++) {
        begin_seed();
        shadow = (struct shadow){.interner = mt_interner_create()};
        const struct mt_sink sink = {.context = &shadow, .emit = shadow_emit, .intern_label = shadow_label};
        struct model model = {.next_segment = RANGES};
        mt_label_id labels[4];
        struct mt_foreign *foreign = begin_foreign(&sink, labels);
        for (uint64_t j = 0; j < OPERATIONS; j++) {
            tell_something(foreign, &model, labels, j);
            if (j % 16 == 0)
                check_state(foreign, &shadow, &model);
        }
        check_state(foreign, &shadow, &model);
        assert_int_equal(shadow.ooms, 2);
        mt_foreign_destroy(foreign);
        mt_interner_destroy(shadow.interner);
    }
}

static int64_t peak_bytes(const char *measure)
{
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT bytes FROM summary_peak WHERE step = -2 AND measure = '%s'", measure);
    return sql_integer(path, sql);
}

/* The composition of the peak sums to it, by the given names. */
static void the_peaks_of_a_trace_are_those_of_its_events(void **state)
{
    (void)state;
    static const char *const measures[] = {"allocated", "requested", "reserved"};
    begin_seed();
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct model model = {.next_segment = RANGES};
    mt_label_id labels[4];
    struct mt_foreign *foreign = begin_foreign(mt_recorder_sink(recorder), labels);
    for (uint64_t j = 0; j < 10 * OPERATIONS; j++)
        tell_something(foreign, &model, labels, j);
    mt_foreign_destroy(foreign);
    fixture_close(recorder, MT_RUN_DONE);
    for (int i = 0; i < 3; i++)
        assert_int_equal(peak_bytes(measures[i]), model.peaks[i]);
    assert_int_equal(sql_integer(path, "SELECT sum(allocated_bytes) FROM summary_peak_category WHERE step = -2 AND"
                                       " measure = 'allocated'"),
                     model.peaks[0]);
    assert_string_equal(sql_text(path, "SELECT group_concat(category) FROM"
                                       " (SELECT DISTINCT category FROM summary_category ORDER BY category)"),
                        "Adapter,Other,Param,Tower");
    assert_int_equal(sql_integer(path, "SELECT sum(count) FROM summary_category"), model.counts.takes);
}
/* Sums the calls. */
struct sums {
    uint64_t allocs, frees, live_bytes;
};

static void sum_event(void *context, const struct mt_event *event)
{
    struct sums *sums = context;
    bool takes = event->kind == MT_EVENT_ALLOC, gives = event->kind == MT_EVENT_FREE;
    sums->allocs += takes;
    sums->frees += gives;
    sums->live_bytes += takes ? event->block_bytes : gives ? -event->block_bytes : 0;
}

/* Every slot once, in an order that another number changes. */
static uint64_t slot_of(uint64_t i, uint64_t by)
{
    return (i * by + seed) % MANY;
}

static void many_blocks_are_found_in_any_order(void **state)
{
    (void)state;
    struct sums sums = {0};
    struct mt_foreign_block found;
    const struct mt_sink sink = {.context = &sums, .emit = sum_event};
    struct mt_foreign *foreign = mt_foreign_create(&sink);
    begin_seed();
    mt_foreign_map(foreign, 0, BASE, MANY * 8, 0);
    for (uint64_t i = 0; i < MANY; i++)
        mt_foreign_take(foreign, i,
                        &(struct mt_foreign_block){
                            .address = BASE + slot_of(i, 7919) * 8, .requested_bytes = 1 + i % 8, .label = 1});
    assert_int_equal(sums.allocs, MANY);
    assert_int_equal(sums.live_bytes, MANY / 8 * 36);
    for (uint64_t i = 0; i < MANY; i++) {
        assert_true(mt_foreign_find(foreign, BASE + slot_of(i, 104729) * 8, &found));
        mt_foreign_give(foreign, MANY + i, found.address);
        assert_false(mt_foreign_find(foreign, found.address, &found));
    }
    assert_int_equal(sums.frees, MANY);
    assert_int_equal(sums.live_bytes, 0);
    assert_int_equal(mt_foreign_counts(foreign).unseen_gives + mt_foreign_counts(foreign).lost_gives, 0);
    mt_foreign_destroy(foreign);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_interleaving_is_what_a_naive_model_says),
        cmocka_unit_test_setup_teardown(the_peaks_of_a_trace_are_those_of_its_events, set_up, tear_down),
        cmocka_unit_test(many_blocks_are_found_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
