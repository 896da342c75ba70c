/* Writes a trace whose names look like markup, quotes and worse, for the tests of the timeline page: strange_trace FILE
 *
 * A recorder would truncate names of 10,000 letters and refuse an unknown category. These are inserted
 * afterwards, as the sender of a trace could do. */
#include "trace/store/recorder.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT "<script>document.title='taken'</script>"
#define IMAGE "\"'><img src=x onerror=\"document.title='taken'\">"

enum { LAYERS = 4, BLOCKS_A_LAYER = 6, BLOCK_BYTES = 1 << 20, LONG_NAME = 10000 };

static const struct mt_run_setting settings[] = {{"model", SCRIPT}, {IMAGE, "1"}};
static const struct mt_run_info info = {.name = "</script>" SCRIPT,
                                        .device = "sim:" IMAGE,
                                        .capacity_bytes = UINT64_C(1) << 30,
                                        .settings = settings,
                                        .setting_count = sizeof settings / sizeof settings[0]};
static const char *const ops[BLOCKS_A_LAYER] = {SCRIPT, IMAGE, "&lt;b&gt;&amp;<b>", "]]>--><!--", "cut here", "\xC3("};

static void emit(const struct mt_sink *sink, uint64_t *sequence, struct mt_event event)
{
    event.sequence = *sequence;
    event.time_ns = ++*sequence * 1000;
    sink->emit(sink->context, &event);
}

static void emit_layer(const struct mt_sink *sink, uint64_t *sequence, int layer)
{
    char name[sizeof IMAGE + 16];
    snprintf(name, sizeof name, "%d%s", layer, IMAGE);
    mt_span_id span = sink->intern_span(sink->context, sink->intern_span(sink->context, 0, SCRIPT), name);
    emit(sink, sequence, (struct mt_event){.kind = MT_EVENT_SPAN_BEGIN, .span = span});
    for (int i = 0; i < BLOCKS_A_LAYER; i++) {
        const struct mt_label label = {
            .category = (mt_category)i, .phase = MT_PHASE_FORWARD, .op = ops[i], .span = span, .layer = layer};
        emit(sink, sequence,
             (struct mt_event){.kind = MT_EVENT_ALLOC,
                               .requested_bytes = BLOCK_BYTES - 100,
                               .block_bytes = BLOCK_BYTES,
                               .offset = (uint64_t)(layer * BLOCKS_A_LAYER + i) * BLOCK_BYTES,
                               .label = sink->intern_label(sink->context, &label),
                               .span = span});
    }
    emit(sink, sequence, (struct mt_event){.kind = MT_EVENT_SPAN_END, .span = span});
}

static mt_status record(const char *path)
{
    struct mt_recorder *recorder;
    mt_status status = mt_recorder_open(path, &info, &recorder);
    if (status != MT_OK)
        return status;
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    uint64_t sequence = 0;
    emit(sink, &sequence, (struct mt_event){.kind = MT_EVENT_SEGMENT_MAP, .block_bytes = UINT64_C(64) << 20});
    emit(sink, &sequence, (struct mt_event){.kind = MT_EVENT_STEP_BEGIN});
    emit(sink, &sequence, (struct mt_event){.kind = MT_EVENT_PHASE, .value = MT_PHASE_FORWARD});
    for (int layer = 0; layer < LAYERS; layer++)
        emit_layer(sink, &sequence, layer);
    emit(sink, &sequence, (struct mt_event){.kind = MT_EVENT_STEP_END});
    return mt_recorder_close(recorder, MT_RUN_DONE);
}

/* Returns whether it succeeded. */
static bool make_stranger(const char *path)
{
    static char long_name[LONG_NAME + 1];
    memset(long_name, 'x', LONG_NAME);
    sqlite3 *handle;
    if (sqlite3_open(path, &handle) != SQLITE_OK)
        return false;
    char *sql = sqlite3_mprintf("UPDATE label SET op = '%q' WHERE op = 'cut here';"
                                "UPDATE label SET category = '%q' WHERE op = '%q';",
                                long_name, SCRIPT, long_name);
    int code = sqlite3_exec(handle, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
    sqlite3_close(handle);
    return code == SQLITE_OK;
}

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "usage: strange_trace FILE\n");
        return MT_USAGE;
    }
    mt_status status = record(arguments[1]);
    if (status == MT_OK && !make_stranger(arguments[1]))
        status = mt_fail(MT_FAILED, "%s can't be changed", arguments[1]);
    if (status != MT_OK)
        fprintf(stderr, "strange_trace: %s\n", mt_last_error());
    return status;
}
