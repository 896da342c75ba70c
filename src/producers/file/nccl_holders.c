/* Sums of NCCL's memory for each communicator. */
#include "base/memory.h"
#include "base/number_map.h"
#include "base/order.h"
#include "producers/file/import_reader.h"
#include "producers/file/json_reader.h"
#include "producers/file/nccl_log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HOLDERS = 32 };

/* The live allocations, and the sums for communicators. Invariants: `blocks` maps each live address to the number of
 * the entry that allocated it; `numbers` maps each communicator's text, by its address, to its place in rows. */
struct account {
    const struct mt_nccl_log *log;
    struct mt_number_map blocks, numbers;
    struct mt_nccl_holders *holders;
    uint64_t live_bytes;
};

static struct mt_nccl_holder *holder_of(struct account *account, const char *name)
{
    uint64_t place = account->holders->count;
    if (mt_number_map_get(&account->numbers, (uint64_t)(uintptr_t)name, &place))
        return &account->holders->rows[place];
    mt_number_map_put(&account->numbers, (uint64_t)(uintptr_t)name, place);
    struct mt_nccl_holder *added = MT_HOST_ADD(account->holders->rows, account->holders->count);
    snprintf(added->name, sizeof added->name, "%s", name[0] != '\0' ? name : "no communicator");
    added->bytes = 0;
    return added;
}

static void end_block(struct account *account, uint64_t address)
{
    uint64_t number;
    if (!mt_number_map_take(&account->blocks, address, &number))
        return;
    const struct mt_nccl_entry *entry = &account->log->entries[number];
    holder_of(account, entry->communicator)->bytes -= entry->bytes;
    account->live_bytes -= entry->bytes;
}

/* An allocation at a live address ends the live one, whose free is missing in the log. */
static void apply(struct account *account, size_t i)
{
    const struct mt_nccl_entry *entry = &account->log->entries[i];
    if (entry->action == MT_NCCL_ALLOC || entry->action == MT_NCCL_FREE)
        end_block(account, entry->address);
    if (entry->action != MT_NCCL_ALLOC)
        return;
    mt_number_map_put(&account->blocks, entry->address, i);
    holder_of(account, entry->communicator)->bytes += entry->bytes;
    account->live_bytes += entry->bytes;
}

/* Applies the first `count` entries. Returns the number of entries at which the live bytes reach their maximum. */
static size_t apply_entries(const struct mt_nccl_log *log, size_t count, struct mt_nccl_holders *out)
{
    struct account account = {.log = log, .holders = out};
    uint64_t most = 0;
    size_t until = 0;
    mt_number_map_create(&account.blocks);
    mt_number_map_create(&account.numbers);
    for (size_t i = 0; i < count; i++) {
        apply(&account, i);
        until = account.live_bytes > most ? i + 1 : until;
        most = account.live_bytes > most ? account.live_bytes : most;
    }
    mt_number_map_release(&account.blocks);
    mt_number_map_release(&account.numbers);
    return until;
}

static mt_status read_events(const struct mt_whole_file *file, struct mt_nccl_holders *out)
{
    struct mt_nccl_log log;
    struct mt_nccl_holders all = {0};
    mt_status status = mt_nccl_log_read(file, &log);
    if (status == MT_OK)
        apply_entries(&log, apply_entries(&log, log.count, &all), out);
    out->rank = log.rank;
    mt_nccl_holders_release(&all);
    mt_nccl_log_release(&log);
    return status;
}

/* Adds the holder of a communicator's sums. They are a JSON text inside the communicator's dump. */
static mt_status add_sums(const struct mt_value *sums, const char *name, struct mt_import_sizes *sizes,
                          struct mt_nccl_holders *out)
{
    int64_t bytes;
    if (!mt_value_integer(mt_value_find(sums, "peakUsage"), &bytes) || bytes < 0)
        return mt_fail(MT_BAD_TRACE, "the sums of a communicator have no \"peakUsage\" that is a natural number");
    MT_TRY(mt_import_sizes_add(sizes, (uint64_t)bytes));
    struct mt_nccl_holder *added = MT_HOST_ADD(out->rows, out->count);
    snprintf(added->name, sizeof added->name, "%s", name);
    added->bytes = (uint64_t)bytes;
    return MT_OK;
}

static mt_status read_communicator(const struct mt_value *dump, struct mt_value_store *store,
                                   struct mt_import_sizes *sizes, struct mt_nccl_holders *out)
{
    const char *sums = mt_value_text(mt_value_find(dump, "memory")),
               *name = mt_value_text(mt_value_find(dump, "commDesc"));
    struct mt_value value;
    if (sums[0] == '\0')
        return MT_OK;
    MT_TRY(mt_json_read((const unsigned char *)sums, strlen(sums), store, &value));
    return add_sums(&value, name, sizes, out);
}

/* Reads the sums in a dump of all communicators, of a flight recorder's file, or of only one communicator. */
static mt_status read_dump(const struct mt_value *root, struct mt_value_store *store, struct mt_nccl_holders *out)
{
    const struct mt_value *state = mt_value_find(root, "nccl_comm_state"),
                          *all = state->kind == MT_VALUE_DICT ? state : root;
    struct mt_import_sizes sizes = {0};
    if (mt_value_find(root, "peakUsage")->kind != MT_VALUE_NONE)
        return add_sums(root, "", &sizes, out);
    for (uint32_t i = 0; all->kind == MT_VALUE_DICT && i < mt_value_count(all); i++)
        MT_TRY(read_communicator(mt_value_value_at(all, i), store, &sizes, out));
    return out->count > 0
               ? MT_OK
               : mt_fail(MT_BAD_TRACE, "it is neither NCCL's log of memory events nor a dump of communicators "
                                       "with the key \"memory\"");
}

static mt_status read_sums(const struct mt_whole_file *file, struct mt_nccl_holders *out)
{
    struct mt_document *document;
    const struct mt_value_limits limits = mt_whole_file_limits(file);
    MT_TRY(mt_document_read(file, &document));
    struct mt_value_store *store = mt_value_store_create(&limits);
    mt_status status = read_dump(mt_document_root(document), store, out);
    mt_value_store_destroy(store);
    mt_document_close(document);
    return status;
}

static int compare_holders(const void *left, const void *right)
{
    const struct mt_nccl_holder *a = left, *b = right;
    int order = MT_COMPARE(b->bytes, a->bytes);
    return order != 0 ? order : strcmp(a->name, b->name);
}

/* Sorts the holders, removes those without memory, and joins the smallest ones beyond the bound. */
static void bound(struct mt_nccl_holders *holders)
{
    if (holders->count > 0)
        qsort(holders->rows, holders->count, sizeof *holders->rows, compare_holders);
    while (holders->count > 0 && holders->rows[holders->count - 1].bytes == 0)
        holders->count--;
    if (holders->count <= MOST_HOLDERS)
        return;
    struct mt_nccl_holder *others = &holders->rows[MOST_HOLDERS - 1];
    for (size_t i = MOST_HOLDERS; i < holders->count; i++)
        others->bytes += holders->rows[i].bytes;
    snprintf(others->name, sizeof others->name, "others");
    holders->count = MOST_HOLDERS;
}

mt_status mt_nccl_holders_find(const struct mt_whole_file *file, struct mt_nccl_holders *out)
{
    *out = (struct mt_nccl_holders){.rank = -1};
    mt_status status = mt_nccl_log_is_one(file) ? read_events(file, out) : read_sums(file, out);
    bound(out);
    return status;
}

mt_status mt_nccl_holders_read(const char *path, uint64_t most_bytes, struct mt_nccl_holders *out)
{
    struct mt_whole_file file;
    *out = (struct mt_nccl_holders){0};
    mt_status status = mt_whole_file_read(path, most_bytes, &file);
    if (status == MT_OK && (status = mt_nccl_holders_find(&file, out)) != MT_OK)
        mt_fail_context(status, "%s can't be imported", path);
    mt_whole_file_release(&file);
    return status;
}

void mt_nccl_holders_release(struct mt_nccl_holders *holders)
{
    free(holders->rows);
    *holders = (struct mt_nccl_holders){0};
}
