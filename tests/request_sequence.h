/* The requests of real training steps with PyTorch, row by row, and what PyTorch reserved for them:
 * tests/data/replay. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum { REQUEST_MOST_BLOCKS = 50000, REQUEST_SEQUENCES = 2 };

/* A sequence, and what torch.cuda reported for it. */
static const struct request_sequence {
    const char *file;
    uint64_t rows, reserved_bytes, segments;
} request_sequences[REQUEST_SEQUENCES] = {
    {"cs336_2.7B_seq256_fp32_segments.csv.gz", 17441, UINT64_C(71032635392), 1332},
    {"cs336_2.7B_seq256_autocast_segments.csv.gz", 45154, UINT64_C(71525466112), 1395},
};

struct request {
    bool frees;
    size_t id; /* of the block, below REQUEST_MOST_BLOCKS */
    uint64_t bytes;
    uint64_t segment_bytes; /* what PyTorch reserved to meet it */
};

static inline gzFile request_sequence_open(const struct request_sequence *sequence)
{
    char path[512], header[128];
    snprintf(path, sizeof path, "%s/replay/%s", MT_TEST_DATA, sequence->file);
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    assert_non_null(gzgets(file, header, sizeof header));
    assert_string_equal(header, "action,id,bytes,segment_bytes\n");
    return file;
}

/* False at the end of the file. */
static inline bool request_sequence_next(gzFile file, struct request *out)
{
    char line[128];
    *out = (struct request){0};
    if (gzgets(file, line, sizeof line) == NULL)
        return false;
    out->frees = sscanf(line, "free,%zu", &out->id) == 1;
    if (!out->frees)
        assert_true(sscanf(line, "alloc,%zu,%" SCNu64 ",%" SCNu64, &out->id, &out->bytes, &out->segment_bytes) >= 2);
    assert_true(out->id < REQUEST_MOST_BLOCKS);
    return true;
}
