#include "producers/file/nccl_log.h"

#include "base/memory.h"
#include "producers/file/import_reader.h"
#include "producers/file/json_reader.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool mt_nccl_log_is_one(const struct mt_whole_file *file)
{
    static const char mark[] = "\"MemoryEvent\"";
    if (!mt_json_is_one(file->data, file->length) || file->data[0] != '{')
        return false;
    const void *end = memchr(file->data, '\n', file->length);
    const size_t length = end != NULL ? (size_t)((const unsigned char *)end - file->data) : file->length;
    return memmem(file->data, length, mark, sizeof mark - 1) != NULL;
}

/* The fields of a line. */
static const char *text_of(const struct mt_value *line, const char *name)
{
    return mt_value_text(mt_value_find(mt_value_find(line, "normal"), name));
}

static bool read_integer(const struct mt_value *line, const char *name, int64_t *out)
{
    return mt_value_integer(mt_value_find(mt_value_find(line, "int"), name), out);
}

/* Only registrations have a duration, segments or a kind of memory. */
static mt_nccl_action action_of(const struct mt_value *line, const char *use)
{
    int64_t ignored;
    if (read_integer(line, "durationUs", &ignored) || read_integer(line, "numSegments", &ignored) ||
        text_of(line, "memType")[0] != '\0')
        return MT_NCCL_REGISTRATION;
    if (strstr(use, "Host") != NULL)
        return MT_NCCL_HOST;
    return strstr(use, "Free") != NULL || strstr(use, "Release") != NULL ? MT_NCCL_FREE : MT_NCCL_ALLOC;
}

/* A reading under way. */
struct reading {
    struct mt_nccl_log *out;
    struct mt_import_sizes sizes;
    uint64_t line; /* its number */
};

static mt_status fail_line(const struct reading *reading, const char *what)
{
    return mt_fail(MT_BAD_TRACE, "line %" PRIu64 " of NCCL's log has no %s", reading->line, what);
}

static mt_status read_sizes(struct reading *reading, const struct mt_value *line, struct mt_nccl_entry *out)
{
    int64_t address, bytes = 0;
    if (!read_integer(line, "memoryAddr", &address) || address < 0)
        return fail_line(reading, "\"memoryAddr\" that is an address");
    if (out->action == MT_NCCL_ALLOC && (!read_integer(line, "bytes", &bytes) || bytes < 0))
        return fail_line(reading, "\"bytes\" that is a natural number");
    out->address = (uint64_t)address;
    out->bytes = (uint64_t)bytes;
    mt_status status = mt_import_sizes_add(&reading->sizes, out->bytes);
    if (status != MT_OK)
        return mt_fail_context(status, "line %" PRIu64 " of NCCL's log", reading->line);
    return out->bytes <= INT64_MAX - out->address ? MT_OK : fail_line(reading, "\"bytes\" within its address space");
}

/* Lines of other types are none of memory. A communicator without a description is called undefined. */
static mt_status read_line(struct reading *reading, const struct mt_value *line)
{
    struct mt_nccl_log *log = reading->out;
    struct mt_nccl_entry entry = {
        .use = text_of(line, "use"), .callsite = text_of(line, "callsite"), .communicator = text_of(line, "commDesc")};
    if (strcmp(text_of(line, "type"), "MemoryEvent") != 0)
        return MT_OK;
    if (strcmp(entry.communicator, "undefined") == 0)
        entry.communicator = "";
    entry.action = action_of(line, entry.use);
    read_integer(line, "globalRank", &log->rank);
    MT_TRY(read_sizes(reading, line, &entry));
    MT_TRY(mt_value_store_count(log->store, sizeof entry));
    *MT_HOST_ADD(log->entries, log->count) = entry;
    return MT_OK;
}

mt_status mt_nccl_log_read(const struct mt_whole_file *file, struct mt_nccl_log *out)
{
    const struct mt_value_limits limits = mt_whole_file_limits(file);
    struct reading reading = {.out = out};
    mt_status status = MT_OK;
    *out = (struct mt_nccl_log){.store = mt_value_store_create(&limits), .rank = -1};
    for (size_t at = 0; at < file->length && status == MT_OK && !out->is_cut;) {
        const unsigned char *begin = file->data + at, *end = memchr(begin, '\n', file->length - at);
        const size_t length = end != NULL ? (size_t)(end - begin) : file->length - at;
        struct mt_value line = {0};
        reading.line++;
        at += length + 1;
        if (length == 0)
            continue;
        status = mt_json_read(begin, length, out->store, &line);
        out->is_cut = status != MT_OK && end == NULL;
        if (status != MT_OK && !out->is_cut)
            mt_fail_context(status, "line %" PRIu64, reading.line);
        status = out->is_cut ? MT_OK : status == MT_OK ? read_line(&reading, &line) : status;
    }
    return status;
}

void mt_nccl_log_release(struct mt_nccl_log *log)
{
    mt_value_store_destroy(log->store);
    free(log->entries);
    *log = (struct mt_nccl_log){0};
}
