#include "trace/store/intake.h"

#include "base/memory.h"
#include "base/text.h"
#include "trace/store/batch.h"
#include "trace/store/database.h"
#include "trace/store/holder.h"
#include "trace/store/program_phase.h"
#include "trace/store/record.h"
#include "trace/store/run_setting.h"
#include "trace/store/scan.h"
#include "trace/store/summary.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* The rows that are inserted one by one. The first column is the run's id. */
enum insert {
    INSERT_LABEL,
    INSERT_SPAN,
    INSERT_MEASUREMENT,
    INSERT_KERNEL_NAME,
    INSERT_KERNEL,
    INSERT_FRAME,
    INSERT_OUTSIDE,
    INSERT_SETTING,
    INSERT_CAVEAT,
    INSERT_PROGRAM_PHASE,
    INSERT_BATCH,
    INSERT_COUNT
};
static const struct {
    const char *table, *columns;
} inserts[INSERT_COUNT] = {
    [INSERT_LABEL] = {"label", "run, id, category, role, op, span, phase, layer, dtype, shape, role_source"},
    [INSERT_SPAN] = {"span", "run, id, parent, name, path"},
    [INSERT_MEASUREMENT] = {"measurement", "run, name, step, value"},
    [INSERT_KERNEL_NAME] = {"kernel_name", "run, id, name"},
    [INSERT_KERNEL] = {"kernel", "run, id, start_ns, duration_ns, name, label, step, stream"},
    [INSERT_FRAME] = {"frame", "run, id, function, file, line"},
    [INSERT_BATCH] = {"batch", "run, first_event, event_count, checksum"},
    [INSERT_OUTSIDE] = {"outside", "run, event, time_ns, kind, name, bytes"},
    [INSERT_SETTING] = {"setting", "run, name, value"},
    [INSERT_CAVEAT] = {"caveat", "run, kind, name, file, line, count, total, bytes, value"},
    [INSERT_PROGRAM_PHASE] = {"program_phase",
                              "run, id, name, first_event, last_event, begin_ns, end_ns, peak_bytes, peak_event"},
};

/* The current phase of the program. */
struct intake_phase {
    int64_t id; /* 0: none has begun */
    mt_program_phase phase;
    int64_t first_event, peak_event;
    uint64_t begin_ns, peak_bytes; /* allocated */
};

/* Invariants: open means that a transaction holds everything stored since the last commit; the batches are empty
 * whenever mt_intake_store is not running; position never goes back, and does not advance once it is at damage. */
struct mt_intake {
    struct mt_database *database;
    int64_t run, first_event;
    uint64_t position; /* of the ring */
    bool open, at_damage;
    struct mt_summary *summary;
    struct mt_batch *events, *uses, *stacks;
    mt_span_id *label_spans; /* by label number; 0 for labels that never came */
    size_t label_count;
    int64_t kernel_count; /* stored: ids 1 to this */
    uint64_t last_ns;     /* time of the last event */
    int64_t batch_begin;  /* event.id of the first event since the last commit */
    uint64_t checksum;    /* of the rows of event since then */
    struct intake_phase phase;
    struct mt_statement *insert[INSERT_COUNT], *insert_holder, *update_run, *update_ended_by;
    struct mt_payload payload; /* of the current record */
};

static void note_label(void *context, uint32_t number, const char *category, mt_role role, mt_phase phase,
                       mt_span_id span)
{
    struct mt_intake *intake = context;
    mt_summary_add_label(intake->summary, number, category, role, phase);
    while (intake->label_count <= number)
        *MT_HOST_ADD(intake->label_spans, intake->label_count) = 0;
    intake->label_spans[number] = span;
}

static void note_event(void *context, const struct mt_event *event)
{
    struct mt_intake *intake = context;
    mt_summary_add(intake->summary, event);
    intake->last_ns = event->time_ns;
}

/* Prepares the statements. They replace rows, because a damaged ring may contain a label or a span twice. */
static mt_status prepare(struct mt_intake *intake)
{
    mt_status status = mt_batch_create(intake->database, &mt_event_batch, &intake->events);
    MT_THEN(status, mt_batch_create(intake->database, &mt_use_batch, &intake->uses));
    MT_THEN(status, mt_batch_create(intake->database, &mt_stack_batch, &intake->stacks));
    for (int i = 0; i < INSERT_COUNT && status == MT_OK; i++) {
        status = mt_database_prepare_insert(intake->database, inserts[i].table, inserts[i].columns, &intake->insert[i]);
        mt_statement_bind_integer(intake->insert[i], 1, intake->run);
    }
    MT_THEN(status,
            mt_database_prepare(intake->database, "UPDATE run SET event_count = ?, ring_position = ? WHERE id = ?",
                                &intake->update_run));
    MT_THEN(status, mt_database_prepare(
                        intake->database,
                        "INSERT INTO holder (run, allocation, id, kind, name, owner, file, line, held_bytes,"
                        " loop_file, loop_line)"
                        " SELECT ?1, ?2, 1 + ifnull((SELECT max(id) FROM holder WHERE run = ?1 AND allocation = ?2),"
                        " 0), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10",
                        &intake->insert_holder));
    if (status == MT_OK)
        status =
            mt_database_prepare(intake->database, "UPDATE run SET ended_by = ? WHERE id = ?", &intake->update_ended_by);
    return status;
}

/* Reads the id of the run's first event, and the number of its stored records and kernels. */
static mt_status read_run(struct mt_intake *intake)
{
    mt_status status = MT_OK;
    bool is_found = false;
    MT_EACH_ROW (row, status, intake->database,
                 "SELECT first_event, ring_position, (SELECT max(id) FROM kernel WHERE kernel.run = run.id) FROM run"
                 " WHERE id = ?",
                 MT_BIND_INTEGER(intake->run)) {
        is_found = true;
        intake->first_event = mt_statement_integer(row, 0);
        intake->position = (uint64_t)mt_statement_integer(row, 1);
        intake->kernel_count = mt_statement_integer(row, 2);
    }
    if (status == MT_OK && !is_found)
        return mt_fail(MT_BAD_TRACE, "%s has no run %" PRId64, mt_database_path(intake->database), intake->run);
    bool are_numbers = intake->first_event >= 0 && intake->first_event <= MT_LAST_POSSIBLE_EVENT &&
                       intake->kernel_count >= 0 && intake->kernel_count <= MT_LAST_POSSIBLE_EVENT;
    if (status == MT_OK && !are_numbers)
        return mt_fail(MT_BAD_TRACE,
                       "%s is damaged: run %" PRId64 " begins with event %" PRId64 ", after kernel %" PRId64,
                       mt_database_path(intake->database), intake->run, intake->first_event, intake->kernel_count);
    return status;
}

/* Reads the phase that was current when an earlier process stopped storing the run. */
static mt_status read_phase(struct mt_intake *intake)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, intake->database,
                 "SELECT id, name, first_event, begin_ns, peak_bytes, peak_event FROM program_phase WHERE run = ?"
                 " AND last_event IS NULL ORDER BY id DESC LIMIT 1",
                 MT_BIND_INTEGER(intake->run)) {
        struct intake_phase *phase = &intake->phase;
        if (!mt_program_phase_find(mt_statement_text(row, 1), &phase->phase))
            continue;
        phase->id = mt_statement_integer(row, 0);
        phase->first_event = mt_statement_integer(row, 2);
        phase->begin_ns = (uint64_t)mt_statement_integer(row, 3);
        phase->peak_bytes = (uint64_t)mt_statement_integer(row, 4);
        phase->peak_event = mt_statement_integer(row, 5);
    }
    return status;
}

/* Begins a batch after the stored events. */
static void begin_batch(struct mt_intake *intake)
{
    intake->batch_begin = intake->first_event + mt_summary_events(intake->summary);
    intake->checksum = (uint64_t)intake->batch_begin;
}

mt_status mt_intake_create(struct mt_database *database, int64_t run, struct mt_intake **out)
{
    struct mt_intake *intake = mt_host_alloc(sizeof *intake);
    intake->database = database;
    intake->run = run;
    *out = intake;
    MT_TRY(read_run(intake));
    MT_TRY(read_phase(intake));
    intake->summary = mt_summary_create(intake->first_event);
    const struct mt_scan_visitor visitor = {.context = intake, .label = note_label, .event = note_event};
    MT_TRY(mt_scan_run(database, run, &visitor));
    begin_batch(intake);
    return prepare(intake);
}

void mt_intake_destroy(struct mt_intake *intake)
{
    if (intake == NULL)
        return;
    mt_database_rollback(intake->database);
    mt_batch_destroy(intake->events);
    mt_batch_destroy(intake->uses);
    mt_batch_destroy(intake->stacks);
    for (int i = 0; i < INSERT_COUNT; i++)
        mt_statement_finalize(intake->insert[i]);
    mt_statement_finalize(intake->insert_holder);
    mt_statement_finalize(intake->update_run);
    mt_statement_finalize(intake->update_ended_by);
    mt_summary_destroy(intake->summary);
    free(intake->label_spans);
    free(intake);
}

uint64_t mt_intake_position(const struct mt_intake *intake)
{
    return intake->position;
}

bool mt_intake_is_at_damage(const struct mt_intake *intake)
{
    return intake->at_damage;
}

bool mt_intake_is_open(const struct mt_intake *intake)
{
    return intake->open;
}

static mt_status open_transaction(struct mt_intake *intake)
{
    if (intake->open)
        return MT_OK;
    assert(intake->update_run != NULL);
    mt_status status = mt_database_begin(intake->database);
    intake->open = status == MT_OK;
    return status;
}

/* Returns the id of the last event; the id before the run's first if there is none. */
static int64_t last_event(const struct mt_intake *intake)
{
    return intake->first_event + mt_summary_events(intake->summary) - 1;
}

/* Raises the peak of the program's phase to the current allocated bytes. */
static void raise_phase(struct mt_intake *intake)
{
    uint64_t now = mt_summary_now(intake->summary)[MT_MEASURE_ALLOCATED];
    if (now <= intake->phase.peak_bytes)
        return;
    intake->phase.peak_bytes = now;
    intake->phase.peak_event = last_event(intake);
}

static mt_status add_event(struct mt_intake *intake, const struct mt_event *event)
{
    struct mt_event_row_in *row = mt_batch_add(intake->events);
    uint32_t label = mt_label_number(event->label);
    int64_t allocation = mt_summary_add(intake->summary, event);
    bool is_span_of_label = label != 0 && label < intake->label_count && intake->label_spans[label] == event->span;
    assert(allocation == 0 || event->kind == MT_EVENT_FREE || event->kind == MT_EVENT_RELABEL);
    mt_event_row_set(row, event, allocation, is_span_of_label ? 0 : event->span);
    intake->checksum = mt_event_row_checksum(intake->checksum, row);
    intake->last_ns = event->time_ns;
    raise_phase(intake);
    return mt_batch_is_full(intake->events) ? mt_batch_store(intake->events) : MT_OK;
}

static void format_shape(const struct mt_label *label, struct mt_text *out)
{
    for (int i = 0; i < label->dims; i++)
        mt_text_add(out, "%s%lld", i == 0 ? "" : ",", (long long)label->shape[i]);
}

static mt_status write_label(struct mt_intake *intake, uint32_t number, const char *category,
                             const struct mt_label *label)
{
    struct mt_text shape = {0};
    format_shape(label, &shape);
    int layer = label->layer < 0 ? -1 : label->layer;
    mt_status status =
        MT_RUN_WITH(intake->insert[INSERT_LABEL], 2, MT_BIND_INTEGER(number), MT_BIND_TEXT(category),
                    MT_BIND_TEXT(mt_role_name(label->role)), MT_BIND_TEXT(label->op), MT_BIND_INTEGER(label->span),
                    MT_BIND_TEXT(mt_phase_name(label->phase)), MT_BIND_INTEGER_UNLESS(-1, layer),
                    MT_BIND_TEXT(mt_dtype_name(label->dtype)), MT_BIND_TEXT(mt_text_get(&shape)),
                    MT_BIND_TEXT(mt_role_source_name(label->role_source)));
    mt_text_release(&shape);
    return status;
}

static mt_status add_label(struct mt_intake *intake, const struct mt_record_head *head)
{
    struct mt_label label;
    const char *category;
    uint32_t number = mt_label_number(head->id);
    if (!mt_payload_get_label(&intake->payload, &label, &category) || category[0] == '\0')
        return MT_OK;
    note_label(intake, number, category, label.role, label.phase, label.span);
    return write_label(intake, number, category, &label);
}

static mt_status add_span(struct mt_intake *intake, const struct mt_record_head *head)
{
    struct mt_span span;
    if (!mt_payload_get(&intake->payload, MT_RECORD_SPAN, &span))
        return MT_OK;
    return MT_RUN_WITH(intake->insert[INSERT_SPAN], 2, MT_BIND_INTEGER(head->id), MT_BIND_INTEGER(span.parent),
                       MT_BIND_TEXT(span.name), MT_BIND_TEXT(span.path));
}

static mt_status add_measurement(struct mt_intake *intake)
{
    struct mt_measurement measurement;
    if (!mt_payload_get(&intake->payload, MT_RECORD_MEASUREMENT, &measurement))
        return MT_OK;
    return MT_RUN_WITH(intake->insert[INSERT_MEASUREMENT], 2, MT_BIND_TEXT(measurement.name),
                       MT_BIND_INTEGER(measurement.step), MT_BIND_REAL(measurement.value)); /* NaN becomes NULL */
}

static mt_status add_kernel_name(struct mt_intake *intake, const struct mt_record_head *head)
{
    const char *name;
    if (!mt_payload_get(&intake->payload, MT_RECORD_KERNEL_NAME, &name))
        return MT_OK;
    return MT_RUN_WITH(intake->insert[INSERT_KERNEL_NAME], 2, MT_BIND_INTEGER(head->id), MT_BIND_TEXT(name));
}

static mt_status add_frame(struct mt_intake *intake, const struct mt_record_head *head)
{
    struct mt_frame frame;
    if (!mt_payload_get(&intake->payload, MT_RECORD_FRAME, &frame))
        return MT_OK;
    return MT_RUN_WITH(intake->insert[INSERT_FRAME], 2, MT_BIND_INTEGER(head->id), MT_BIND_TEXT(frame.function),
                       MT_BIND_TEXT(frame.file), MT_BIND_INTEGER(frame.line));
}

static mt_status add_stack(struct mt_intake *intake, const struct mt_record_head *head)
{
    struct mt_stack stack;
    if (!mt_payload_get(&intake->payload, MT_RECORD_STACK, &stack))
        return MT_OK;
    *(struct mt_stack_row_in *)mt_batch_add(intake->stacks) =
        (struct mt_stack_row_in){{intake->run, head->id, stack.parent, stack.frame}};
    return mt_batch_is_full(intake->stacks) ? mt_batch_store(intake->stacks) : MT_OK;
}

/* Stores one limit of an estimate's range. */
static mt_status add_range_end(struct mt_intake *intake, const char *end, const struct mt_outside *outside,
                               uint64_t bytes)
{
    struct mt_text name = {0};
    mt_text_add(&name, "outside_%s:%s:%s", end, mt_outside_kind_name(outside->kind), outside->name);
    mt_status status = MT_RUN_WITH(intake->insert[INSERT_MEASUREMENT], 2, MT_BIND_TEXT(mt_text_get(&name)),
                                   MT_BIND_INTEGER(MT_NO_STEP), MT_BIND_REAL((double)bytes));
    mt_text_release(&name);
    return status;
}

/* The moment is the last event's, or the run's beginning. */
static mt_status add_outside(struct mt_intake *intake)
{
    struct mt_outside outside;
    if (!mt_payload_get(&intake->payload, MT_RECORD_OUTSIDE, &outside))
        return MT_OK;
    MT_TRY(MT_RUN_WITH(intake->insert[INSERT_OUTSIDE], 2, MT_BIND_INTEGER(last_event(intake)),
                       MT_BIND_INTEGER(intake->last_ns), MT_BIND_TEXT(mt_outside_kind_name(outside.kind)),
                       MT_BIND_TEXT(outside.name), MT_BIND_INTEGER(outside.bytes)));
    if (outside.high_bytes == 0)
        return MT_OK;
    MT_TRY(add_range_end(intake, "low", &outside, outside.low_bytes));
    return add_range_end(intake, "high", &outside, outside.high_bytes);
}

/* Binds a number, or NULL if it is negative. */
static struct mt_bound natural(int64_t number)
{
    return number < 0 ? MT_BIND_NULL : MT_BIND_INTEGER(number);
}

/* Stores a caveat. A total that has changed is sent again, and replaces the earlier one. */
static mt_status add_caveat(struct mt_intake *intake)
{
    struct mt_caveat caveat;
    if (!mt_payload_get(&intake->payload, MT_RECORD_CAVEAT, &caveat))
        return MT_OK;
    return MT_RUN_WITH(intake->insert[INSERT_CAVEAT], 2, MT_BIND_TEXT(mt_caveat_kind_name(caveat.kind)),
                       MT_BIND_TEXT(caveat.name), MT_BIND_TEXT(caveat.file), MT_BIND_INTEGER(caveat.line),
                       natural(caveat.count), natural(caveat.total), natural(caveat.bytes),
                       MT_BIND_REAL(caveat.value)); /* NaN becomes NULL */
}

/* Stores the current phase, if there is one, replacing its earlier row. `end` is its last event; 0: it has not
 * ended. */
static mt_status store_phase(struct mt_intake *intake, int64_t end)
{
    const struct intake_phase *phase = &intake->phase;
    if (phase->id == 0)
        return MT_OK;
    return MT_RUN_WITH(intake->insert[INSERT_PROGRAM_PHASE], 2, MT_BIND_INTEGER(phase->id),
                       MT_BIND_TEXT(mt_program_phase_name(phase->phase)), MT_BIND_INTEGER(phase->first_event),
                       MT_BIND_INTEGER_UNLESS(0, end), MT_BIND_INTEGER(phase->begin_ns),
                       end == 0 ? MT_BIND_NULL : MT_BIND_INTEGER(intake->last_ns), MT_BIND_INTEGER(phase->peak_bytes),
                       MT_BIND_INTEGER(phase->peak_event));
}

/* Ends the current phase and begins another one. A phase without an event is not stored. */
static mt_status add_program_phase(struct mt_intake *intake)
{
    mt_program_phase phase;
    const int64_t end = last_event(intake);
    if (!mt_payload_get(&intake->payload, MT_RECORD_PROGRAM_PHASE, &phase))
        return MT_OK;
    const bool is_empty = end < intake->phase.first_event;
    if (!is_empty)
        MT_TRY(store_phase(intake, end));
    intake->phase = (struct intake_phase){.id = intake->phase.id + (intake->phase.id == 0 || !is_empty),
                                          .phase = phase,
                                          .first_event = end + 1,
                                          .peak_event = end + 1,
                                          .begin_ns = intake->last_ns,
                                          .peak_bytes = mt_summary_now(intake->summary)[MT_MEASURE_ALLOCATED]};
    return MT_OK;
}

/* Stores a holder of a live block. */
static mt_status add_holder(struct mt_intake *intake)
{
    struct mt_holder holder;
    if (!mt_payload_get(&intake->payload, MT_RECORD_HOLDER, &holder))
        return MT_OK;
    const int64_t allocation = mt_summary_find(intake->summary, holder.address);
    if (allocation == 0)
        return MT_OK;
    return MT_RUN_WITH(intake->insert_holder, 1, MT_BIND_INTEGER(intake->run), MT_BIND_INTEGER(allocation),
                       MT_BIND_TEXT(mt_holder_kind_name(holder.kind)), MT_BIND_TEXT(holder.name),
                       MT_BIND_TEXT(holder.owner), MT_BIND_TEXT(holder.file), MT_BIND_INTEGER(holder.line),
                       MT_BIND_INTEGER(holder.held_bytes), MT_BIND_TEXT(holder.loop_file),
                       MT_BIND_INTEGER(holder.loop_line));
}

static mt_status add_setting(struct mt_intake *intake)
{
    struct mt_run_setting setting;
    if (!mt_payload_get(&intake->payload, MT_RECORD_SETTING, &setting))
        return MT_OK;
    return MT_RUN_WITH(intake->insert[INSERT_SETTING], 2, MT_BIND_TEXT(setting.name), MT_BIND_TEXT(setting.value));
}

static mt_status add_ended_by(struct mt_intake *intake)
{
    mt_ended_by reason;
    if (!mt_payload_get(&intake->payload, MT_RECORD_ENDED_BY, &reason))
        return MT_OK;
    return MT_RUN_WITH(intake->update_ended_by, 1, MT_BIND_TEXT(mt_ended_by_name(reason)),
                       MT_BIND_INTEGER(intake->run));
}

static mt_status add_kernel(struct mt_intake *intake, const struct mt_record_kernel *row)
{
    return MT_RUN_WITH(intake->insert[INSERT_KERNEL], 2, MT_BIND_INTEGER(++intake->kernel_count),
                       MT_BIND_INTEGER(row->start_ns), MT_BIND_INTEGER(row->duration_ns), MT_BIND_INTEGER(row->name),
                       MT_BIND_INTEGER_UNLESS(0, mt_label_number(row->label)),
                       MT_BIND_INTEGER_UNLESS(MT_NO_STEP, row->step), MT_BIND_INTEGER(row->stream));
}

/* Skips the use of a block that this run does not have. Only a damaged ring can contain one. */
static mt_status add_use(struct mt_intake *intake, const struct mt_record_use *record)
{
    const struct mt_use use = mt_use_of_record(record);
    if (use.block >= (uint64_t)mt_summary_events(intake->summary))
        return MT_OK;
    mt_use_row_set(mt_batch_add(intake->uses), intake->first_event, &use);
    return mt_batch_is_full(intake->uses) ? mt_batch_store(intake->uses) : MT_OK;
}

static mt_status add_item(struct mt_intake *intake, const struct mt_record_head *head)
{
    switch (head->kind) {
    case MT_RECORD_LABEL:
        return add_label(intake, head);
    case MT_RECORD_SPAN:
        return add_span(intake, head);
    case MT_RECORD_MEASUREMENT:
        return add_measurement(intake);
    case MT_RECORD_KERNEL_NAME:
        return add_kernel_name(intake, head);
    case MT_RECORD_FRAME:
        return add_frame(intake, head);
    case MT_RECORD_STACK:
        return add_stack(intake, head);
    case MT_RECORD_OUTSIDE:
        return add_outside(intake);
    case MT_RECORD_CAVEAT:
        return add_caveat(intake);
    case MT_RECORD_ENDED_BY:
        return add_ended_by(intake);
    case MT_RECORD_SETTING:
        return add_setting(intake);
    case MT_RECORD_PROGRAM_PHASE:
        return add_program_phase(intake);
    case MT_RECORD_HOLDER:
        return add_holder(intake);
    }
    return MT_OK;
}

/* Stores a record without a payload. */
static mt_status add_short(struct mt_intake *intake, const union mt_record *record)
{
    if (record->event.kind == MT_RECORD_USE)
        return add_use(intake, &record->use);
    if (record->event.kind == MT_RECORD_KERNEL)
        return add_kernel(intake, &record->kernel);
    return add_event(intake, &record->event);
}

/* True if the record has no payload. */
static bool is_short(const union mt_record *record)
{
    uint16_t kind = record->event.kind;
    return kind < MT_EVENT_KIND_COUNT || kind == MT_RECORD_USE || kind == MT_RECORD_KERNEL;
}

/* True if the record is intact: its checksum is right, and an event's category is possible. An untrusted file may
 * have a right checksum over anything. */
static bool is_sound(const union mt_record *record, uint64_t position)
{
    bool has_category =
        record->event.kind >= MT_EVENT_KIND_COUNT || mt_label_category(record->event.label) < MT_MOST_CATEGORIES;
    return has_category && mt_sum_at(record, position) == record->event.checksum;
}

/* Stores one event, or one item with its payload, and moves the position past it. A damaged one only sets at_damage. */
static mt_status add_record(struct mt_intake *intake, const struct mt_ring *ring, uint64_t end)
{
    const union mt_record *record = mt_ring_record(ring, intake->position);
    assert(intake->open && intake->position < end && !intake->at_damage);
    if (is_short(record)) {
        intake->at_damage = !is_sound(record, intake->position);
        intake->position += !intake->at_damage;
        return intake->at_damage ? MT_OK : add_short(intake, record);
    }
    intake->at_damage = !mt_payload_read(&intake->payload, ring, intake->position, end);
    if (intake->at_damage)
        return MT_OK;
    intake->position += mt_payload_records(record->head.length);
    return add_item(intake, &record->head);
}

mt_status mt_intake_store(struct mt_intake *intake, const struct mt_ring *ring, uint64_t end, uint64_t most)
{
    uint64_t stop = end - intake->position > most ? intake->position + most : end;
    assert(intake->position <= end && end - intake->position <= mt_ring_capacity(ring));
    if (intake->position == end)
        return MT_OK;
    mt_status status = open_transaction(intake);
    while (intake->position < stop && !intake->at_damage && status == MT_OK)
        status = add_record(intake, ring, end);
    assert(intake->position <= end);
    MT_THEN(status, mt_batch_store(intake->events));
    MT_THEN(status, mt_batch_store(intake->uses));
    return status == MT_OK ? mt_batch_store(intake->stacks) : status;
}

/* Stores the checksum of the events since the last commit. */
static mt_status store_batch(struct mt_intake *intake)
{
    int64_t count = intake->first_event + mt_summary_events(intake->summary) - intake->batch_begin;
    if (count == 0)
        return MT_OK;
    MT_TRY(MT_RUN_WITH(intake->insert[INSERT_BATCH], 2, MT_BIND_INTEGER(intake->batch_begin), MT_BIND_INTEGER(count),
                       MT_BIND_INTEGER(intake->checksum)));
    begin_batch(intake);
    return MT_OK;
}

mt_status mt_intake_commit(struct mt_intake *intake)
{
    assert(intake->open);
    MT_TRY(store_batch(intake));
    if (intake->phase.first_event <= last_event(intake))
        MT_TRY(store_phase(intake, 0));
    MT_TRY(mt_summary_store_progress(intake->summary, intake->database, intake->run, ""));
    MT_TRY(MT_RUN_WITH(intake->update_run, 1, MT_BIND_INTEGER(mt_summary_events(intake->summary)),
                       MT_BIND_INTEGER(intake->position), MT_BIND_INTEGER(intake->run)));
    MT_TRY(mt_database_commit(intake->database));
    intake->open = false;
    return MT_OK;
}

static mt_status write_end(struct mt_intake *intake, const struct mt_run_end *end)
{
    struct mt_statement *statement;
    assert(end->state != MT_RUN_RUNNING);
    MT_TRY(mt_database_prepare(intake->database,
                               "UPDATE run SET state = ?, lost_events = ?, stall_count = ?, stall_ns = ?,"
                               " missing_records = ?, complete_from_bytes = ? WHERE id = ?",
                               &statement));
    mt_status status = MT_RUN_WITH(
        statement, 1, MT_BIND_TEXT(mt_run_state_name(end->state)), MT_BIND_INTEGER(end->lost_events),
        MT_BIND_INTEGER(end->stall_count), MT_BIND_INTEGER(end->stall_ns), MT_BIND_INTEGER(end->missing_records),
        MT_BIND_INTEGER(mt_summary_complete_from_bytes(intake->summary)), MT_BIND_INTEGER(intake->run));
    mt_statement_finalize(statement);
    return status;
}

mt_status mt_intake_end(struct mt_intake *intake, const struct mt_run_end *end)
{
    MT_TRY(open_transaction(intake));
    MT_TRY(mt_summary_store_totals(intake->summary, intake->database, intake->run, ""));
    MT_TRY(write_end(intake, end));
    return mt_intake_commit(intake);
}
