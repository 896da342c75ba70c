/* The policies against PyTorch: tests/data/replay lists every request of real training steps, and the segments
 * that PyTorch reserved for them. Peaks are those that torch.cuda reported for the same runs. */
#include "alloc_opening.h"
#include "base/interner.h"
#include "base/memory.h"
#include "fake_device.h"
#include "request_sequence.h"

#include <stdlib.h>

enum { CHECK_EVERY = 2000 };

struct replay {
    struct fake_device fake;
    struct mt_interner *interner;
    struct mt_alloc *alloc;
    struct mt_block **blocks; /* by id */
    gzFile file;
    uint64_t rows, segment_bytes_sum, rows_that_differ;
};

static void replay_open(struct replay *replay, const struct request_sequence *sequence, const char *settings_text)
{
    *replay = (struct replay){.fake = fake_device_make(UINT64_C(150) << 30, 1 << 20, 1)};
    replay->interner = mt_interner_create();
    struct mt_sink sink = mt_sink_discarding(replay->interner);
    replay->alloc = create_alloc(&replay->fake.device, settings_text, &sink);
    replay->blocks = mt_host_alloc(REQUEST_MOST_BLOCKS * sizeof(struct mt_block *));
    replay->file = request_sequence_open(sequence);
}

static void replay_row(struct replay *replay, const struct request *request)
{
    uint64_t before = replay->fake.device.reserved_bytes;
    replay->rows++;
    if (request->frees) {
        mt_alloc_give(replay->alloc, replay->blocks[request->id]);
        return;
    }
    assert_int_equal(mt_alloc_take(replay->alloc, request->bytes, 0, 1, 0, &replay->blocks[request->id]), MT_OK);
    replay->segment_bytes_sum += request->segment_bytes;
    replay->rows_that_differ += replay->fake.device.reserved_bytes - before != request->segment_bytes;
}

static void replay_run(struct replay *replay)
{
    struct request request;
    while (request_sequence_next(replay->file, &request)) {
        replay_row(replay, &request);
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

static void torch_reserves_what_pytorch_reserved_request_by_request(void **state)
{
    (void)state;
    for (int i = 0; i < REQUEST_SEQUENCES; i++) {
        struct replay replay;
        replay_open(&replay, &request_sequences[i], "policy=torch");
        replay_run(&replay);
        struct mt_alloc_stats stats;
        mt_alloc_stats(replay.alloc, &stats);
        assert_int_equal(replay.rows, request_sequences[i].rows);
        assert_int_equal(replay.rows_that_differ, 0);
        assert_int_equal(replay.segment_bytes_sum, request_sequences[i].reserved_bytes);
        assert_int_equal(stats.peak_reserved_bytes, request_sequences[i].reserved_bytes);
        assert_int_equal(stats.segments, request_sequences[i].segments);
        replay_close(&replay);
    }
}

static void tight_reserves_at_most_two_percent_more_than_it_hands_out(void **state)
{
    (void)state;
    for (int i = 0; i < REQUEST_SEQUENCES; i++) {
        struct replay replay;
        replay_open(&replay, &request_sequences[i], "policy=tight");
        replay_run(&replay);
        struct mt_alloc_stats stats;
        mt_alloc_stats(replay.alloc, &stats);
        assert_int_equal(replay.rows, request_sequences[i].rows);
        assert_true((double)stats.peak_reserved_bytes <= 1.02 * (double)stats.all.peak_requested_bytes);
        assert_true(stats.peak_reserved_bytes < request_sequences[i].reserved_bytes);
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
