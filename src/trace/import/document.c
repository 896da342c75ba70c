#include "trace/import/document.h"

#include "base/memory.h"
#include "trace/import/json_reader.h"
#include "trace/import/pickle.h"
#include "trace/import/whole_file.h"

#include <stdlib.h>
#include <string.h>

struct mt_document {
    const char *format;
    struct mt_value_store *store;
    struct mt_value root;
};

/* What else it is, where that can be told. */
static mt_status fail_unknown(const struct mt_whole_file *file)
{
    static const char database[] = "SQLite format 3";
    if (file->length == 0)
        return mt_fail(MT_BAD_TRACE, "it is empty");
    if (file->length >= sizeof database && memcmp(file->data, database, sizeof database) == 0)
        return mt_fail(MT_BAD_TRACE, "it is a database that was compressed, which is read as it is: gunzip it first");
    return mt_fail(MT_BAD_TRACE,
                   "it is neither a pickle of protocol 2 to 5 nor JSON, as snapshots of PyTorch are, no log "
                   "of RMM, and no database, which nsys export --type sqlite makes of a report");
}

static mt_status read_values(const struct mt_whole_file *file, struct mt_document *document)
{
    if (mt_pickle_is_one(file->data, file->length)) {
        document->format = "pickle";
        return mt_pickle_read(file->data, file->length, document->store, &document->root);
    }
    document->format = "JSON";
    if (mt_json_is_one(file->data, file->length))
        return mt_json_read(file->data, file->length, document->store, &document->root);
    return fail_unknown(file);
}

mt_status mt_document_read(const char *path, const struct mt_whole_file *file, struct mt_document **out)
{
    struct mt_document *document = mt_host_alloc(sizeof *document);
    const struct mt_value_limits limits = mt_value_limits_of(file->length);
    document->store = mt_value_store_create(&limits);
    mt_status status = read_values(file, document);
    *out = status == MT_OK ? document : NULL;
    if (status == MT_OK)
        return MT_OK;
    mt_document_close(document);
    return mt_fail_context(status, "%s can't be imported", path);
}

mt_status mt_document_open(const char *path, struct mt_document **out)
{
    struct mt_whole_file file;
    *out = NULL;
    mt_status status = mt_whole_file_read(path, &file);
    if (status == MT_OK)
        status = mt_document_read(path, &file, out);
    mt_whole_file_release(&file);
    return status;
}

void mt_document_close(struct mt_document *document)
{
    if (document == NULL)
        return;
    mt_value_store_destroy(document->store);
    free(document);
}

const struct mt_value *mt_document_root(const struct mt_document *document)
{
    return &document->root;
}

const char *mt_document_format(const struct mt_document *document)
{
    return document->format;
}
