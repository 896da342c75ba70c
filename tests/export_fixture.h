/* A trace of two runs for tests of exports, and the program's exports of it. */
#pragma once

#include "program.h"

#include "base/memory.h"
#include "profile_reader.h"
#include "trace/query/blocks.h"

#include <zlib.h>

#define TINY "run --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --seq 8 --batch 2 --device sim --steps 2 "

enum { WHOLE_BYTES = 1 << 23 };

/* A trace of two runs, and the program's own reader of the second. */
struct fixture {
    char *folder;
    struct mt_trace *trace;
    const struct mt_run *run;
};

static inline int set_up(void **state)
{
    struct fixture *fixture = mt_host_alloc(sizeof *fixture);
    fixture->folder = enter_folder("test_export");
    assert_int_equal(MEMTRACE(TINY "--name plain")->code, 0);
    assert_int_equal(MEMTRACE(TINY "--name cast --autocast bf16")->code, 0);
    assert_int_equal(mt_trace_open("memtrace.db", &fixture->trace), MT_OK);
    assert_int_equal(mt_trace_find_run(fixture->trace, "cast", &fixture->run), MT_OK);
    *state = fixture;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *fixture = *state;
    if (fixture == NULL) /* it could not be set up */
        return 0;
    void *folder = fixture->folder;
    mt_trace_close(fixture->trace);
    free(fixture);
    return leave_folder(&folder);
}

static inline void expect_success(const struct said *said)
{
    if (said->code != 0)
        fail_msg("exit code %d: %s", said->code, said->err);
}

/* Returns the bytes of a file, unpacked if it is compressed. The caller frees them. */
static inline char *contents(const char *path, size_t *out_bytes)
{
    char *text = mt_host_alloc(WHOLE_BYTES + 1);
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    int bytes = gzread(file, text, WHOLE_BYTES);
    assert_in_range(bytes, 0, WHOLE_BYTES - 1);
    assert_int_equal(gzclose(file), Z_OK);
    *out_bytes = (size_t)bytes;
    return text;
}

static inline char *export_to(const char *arguments, const char *path)
{
    size_t bytes;
    expect_success(shell("\"$M\" export %s -o %s", arguments, path));
    return contents(path, &bytes);
}

static inline uint64_t peak_bytes(const struct fixture *fixture, const char *run, mt_measure measure)
{
    const struct mt_run *found;
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_find_run(fixture->trace, run, &found), MT_OK);
    assert_int_equal(mt_trace_peak(fixture->trace, found, measure, &peak), MT_OK);
    uint64_t bytes = peak.bytes;
    mt_peak_row_release(&peak);
    return bytes;
}

static inline uint64_t all_bytes(const struct fixture *fixture)
{
    struct mt_block_row *blocks;
    size_t count;
    uint64_t sum = 0;
    assert_int_equal(mt_trace_blocks(fixture->trace, fixture->run, 0, INT64_MAX, &blocks, &count), MT_OK);
    for (size_t i = 0; i < count; i++)
        sum += blocks[i].block_bytes;
    free(blocks);
    return sum;
}

static inline struct profile export_profile(const char *arguments)
{
    size_t bytes;
    expect_success(shell("\"$M\" export %s --format pprof -o profile.pb.gz", arguments));
    char *data = contents("profile.pb.gz", &bytes);
    struct profile profile = profile_read(data, bytes);
    free(data);
    return profile;
}
