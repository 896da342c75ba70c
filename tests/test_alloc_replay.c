/* The policies against what PyTorch did: tests/data/replay lists every request of real training steps, and the segments
 * that PyTorch reserved for them. Peaks are those that torch.cuda reported for the same runs. */
#include "alloc/alloc.h"
#include "base/interner.h"
#include "base/memory.h"
#include "fake_device.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum { MOST_BLOCKS = 50000, CHECK_EVERY = 2000 };

struct replay {
    struct fake_device fake;
    struct mt_interner *interner;
    struct mt_alloc *alloc;
    struct mt_block **blocks; /* by id */
    gzFile file;
    uint64_t rows, segment_bytes_sum, rows_that_differ;
};

static void replay_open(struct replay *replay, const char *name, const char *settings_text)
{
    *replay = (struct replay){.fake = fake_device_make(UINT64_C(150) << 30, 1 << 20, 1)};
    replay->interner = mt_interner_create();
    struct mt_sink sink = mt_sink_discarding(replay->interner);
    struct mt_alloc_settings settings;
    assert_int_equal(mt_alloc_settings_parse(settings_text, &settings), MT_OK);
    assert_int_equal(mt_alloc_create(&replay->fake.device, &sink, &settings, &replay->alloc), MT_OK);
    replay->blocks = mt_host_alloc(MOST_BLOCKS * sizeof(struct mt_block *));
    char path[512], header[128];
    snprintf(path, sizeof path, "%s/replay/%s", MT_TEST_DATA, name);
    replay->file = gzopen(path, "rb");
    assert_non_null(replay->file);
    assert_non_null(gzgets(replay->file, header, sizeof header));
    assert_string_equal(header, "action,id,bytes,segment_bytes\n");
}

static void replay_row(struct replay *replay, const char *line)
{
    unsigned long id;
    uint64_t bytes, segment_bytes = 0, before = replay->fake.device.reserved_bytes;
    replay->rows++;
    if (sscanf(line, "free,%lu", &id) == 1) {
        assert_true(id < MOST_BLOCKS);
        mt_alloc_give(replay->alloc, replay->blocks[id]);
        return;
    }
    assert_true(sscanf(line, "alloc,%lu,%" SCNu64 ",%" SCNu64, &id, &bytes, &segment_bytes) >= 2);
    assert_true(id < MOST_BLOCKS);
    assert_int_equal(mt_alloc_take(replay->alloc, bytes, 0, 1, 0, &replay->blocks[id]), MT_OK);
    replay->segment_bytes_sum += segment_bytes;
    replay->rows_that_differ += replay->fake.device.reserved_bytes - before != segment_bytes;
}

static void replay_run(struct replay *replay)
{
    char line[128];
    while (gzgets(replay->file, line, sizeof line) != NULL) {
        replay_row(replay, line);
        if (replay->rows % CHECK_EVERY == 0 && mt_alloc_check(replay->alloc) != MT_OK)
            fail_msg("after %" PRIu64 " rows: %s", replay->rows, mt_last_error());
    }
}

static void replay_close(struct replay *replay)
{
    gzclose(replay->file);
    mt_alloc_destroy(replay->alloc);
    mt_interner_destroy(replay->interner);
    free(replay->blocks);
    assert_int_equal(replay->fake.device.reserved_bytes, 0);
}

static const struct measured {
    const char *name;
    uint64_t rows, reserved_bytes, segments;
} runs[] = {
    {"cs336_2.7B_seq256_fp32_segments.csv.gz", 17441, UINT64_C(71032635392), 1332},
    {"cs336_2.7B_seq256_autocast_segments.csv.gz", 45154, UINT64_C(71525466112), 1395},
};

enum { RUNS = sizeof runs / sizeof runs[0] };

static void torch_reserves_what_pytorch_reserved_request_by_request(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; i++) {
        struct replay replay;
        replay_open(&replay, runs[i].name, "policy=torch");
        replay_run(&replay);
        struct mt_alloc_stats stats;
        mt_alloc_stats(replay.alloc, &stats);
        assert_int_equal(replay.rows, runs[i].rows);
        assert_int_equal(replay.rows_that_differ, 0);
        assert_int_equal(replay.segment_bytes_sum, runs[i].reserved_bytes);
        assert_int_equal(stats.peak_reserved_bytes, runs[i].reserved_bytes);
        assert_int_equal(stats.segments, runs[i].segments);
        replay_close(&replay);
    }
}

static void tight_reserves_at_most_two_percent_more_than_it_hands_out(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; i++) {
        struct replay replay;
        replay_open(&replay, runs[i].name, "policy=tight");
        replay_run(&replay);
        struct mt_alloc_stats stats;
        mt_alloc_stats(replay.alloc, &stats);
        assert_int_equal(replay.rows, runs[i].rows);
        assert_true((double)stats.peak_reserved_bytes <= 1.02 * (double)stats.all.peak_requested_bytes);
        assert_true(stats.peak_reserved_bytes < runs[i].reserved_bytes);
        replay_close(&replay);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torch_reserves_what_pytorch_reserved_request_by_request),
        cmocka_unit_test(tight_reserves_at_most_two_percent_more_than_it_hands_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
