/* Fuzzes recovery: a killed process left a trace and its ring, and the bytes are changes of the ring. A record that was
 * changed may get the right checksum, as from a faulty producer.
 *
 *  of each change   the record (2 bytes; the highest: the header), the place in it (1), the new byte (1), whether it gets a
 *                   checksum (1) */
#include "fuzzed_trace.h"

#include "trace/store/ring.h"

#include <sys/wait.h>

enum { EVENTS = 400, RECORDS = 2048, HEADER_BYTES = 4096, CHANGE_BYTES = 5, MOST_CHANGES = 64 };

static struct fuzzed_content whole_ring, ring;

/* Leaves the trace before a commit that the writer makes after a tenth of a second, mostly. */
static void leave_trace(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct mt_recorder *recorder = fixture_open(names.path, RECORDS);
        fuzzed_emit(recorder, EVENTS);
        _exit(0);
    }
    if (waitpid(child, NULL, 0) != child)
        abort();
}

static void record_once(void)
{
    if (!fuzzed_begins())
        return;
    leave_trace();
    whole = fuzzed_read(names.path);
    whole_ring = fuzzed_read(names.ring);
    ring = (struct fuzzed_content){.data = malloc(whole_ring.bytes), .bytes = whole_ring.bytes};
    fuzzed_remove(names.path);
}

static void change(const uint8_t *bytes)
{
    const size_t number = (size_t)bytes[0] | (size_t)bytes[1] << 8;
    if (number >= 0xFF00) {
        ring.data[bytes[2]] = bytes[3];
        return;
    }
    union mt_record record;
    unsigned char *place = ring.data + HEADER_BYTES + number % RECORDS * sizeof record;
    memcpy(&record, place, sizeof record);
    record.bytes[bytes[2] % sizeof record] = bytes[3];
    if (bytes[4] % 2 == 0)
        record.event.checksum = mt_sum_at(&record, number % RECORDS);
    memcpy(place, &record, sizeof record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    record_once();
    memcpy(ring.data, whole_ring.data, ring.bytes);
    for (size_t i = 0; i < MOST_CHANGES && (i + 1) * CHANGE_BYTES <= length; i++)
        change(data + i * CHANGE_BYTES);
    fuzzed_write(names.path, whole);
    fuzzed_write(names.ring, ring);
    return fuzzed_try(data, length);
}
