/* Fuzzes readers of traces, verify and salvage in front of SQLite: the bytes are changes of a whole trace's pages. The
 * first says whether its checksums are compared.
 *
 *  of each change   the place (3 bytes), the bytes to change (1), what they become (1) */
#include "fuzzed_trace.h"

enum { EVENTS = 250, CHANGE_BYTES = 5, MOST_CHANGES = 32, COUNTER_AT = 24 };

static struct fuzzed_content damaged;

static void record_once(void)
{
    if (!fuzzed_begins())
        return;
    fuzzed_record(EVENTS);
    damaged = (struct fuzzed_content){.data = malloc(whole.bytes), .bytes = whole.bytes};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length == 0)
        return 0;
    record_once();
    memcpy(damaged.data, whole.data, whole.bytes);
    if (data[0] % 2 == 0)
        damaged.data[COUNTER_AT + 3] ^= 0x55; /* as if another program had written: nothing is compared */
    for (size_t i = 0; i < MOST_CHANGES && 1 + (i + 1) * CHANGE_BYTES <= length; i++) {
        const uint8_t *change = data + 1 + i * CHANGE_BYTES;
        const size_t place = ((size_t)change[0] | (size_t)change[1] << 8 | (size_t)change[2] << 16) % damaged.bytes;
        for (size_t at = place; at < damaged.bytes && at <= place + change[3]; at++)
            damaged.data[at] = change[4];
    }
    fuzzed_write(names.path, damaged);
    return fuzzed_try(data, length);
}
