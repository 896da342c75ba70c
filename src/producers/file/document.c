#include "producers/file/document.h"

#include "base/memory.h"
#include "producers/file/json_reader.h"
#include "producers/file/pickle.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* zlib counts in 32 bits, so it gets pieces. */
enum { FIRST_BYTES = 1 << 16, PIECE_BYTES = 1 << 30, WITH_GZIP_HEADER = 16 };

/* Bytes that can grow. Invariant: length <= room. */
struct growing {
    unsigned char *data;
    size_t length, room;
    uint64_t most; /* limit of `length` */
};

static mt_status set_room(struct growing *bytes, size_t room)
{
    assert(room > bytes->length);
    unsigned char *data = realloc(bytes->data, room);
    if (data == NULL)
        return mt_fail(MT_NO_HOST_MEMORY, "there is no memory for %zu bytes of it", room);
    bytes->data = data;
    bytes->room = room;
    return MT_OK;
}

/* Makes room for one byte at least. */
static mt_status make_room(struct growing *bytes)
{
    assert(bytes->length <= bytes->room);
    if (bytes->length < bytes->room)
        return MT_OK;
    if (bytes->length > bytes->most)
        return mt_value_fail_over(bytes->most);
    return set_room(bytes, bytes->room == 0 ? FIRST_BYTES : bytes->room + bytes->room / 2);
}

/* Reads a file of known size at once, with room for one more byte, which detects the end. */
static mt_status read_all(int descriptor, struct growing *bytes)
{
    struct stat about;
    mt_status status = MT_OK;
    if (fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        const uint64_t on_disk = (uint64_t)about.st_size;
        if (bytes->most < MT_IMPORT_FILE_FACTOR * on_disk)
            bytes->most = MT_IMPORT_FILE_FACTOR * on_disk;
        status = set_room(bytes, (size_t)on_disk + 1);
    }
    while (status == MT_OK && (status = make_room(bytes)) == MT_OK) {
        ssize_t got = read(descriptor, bytes->data + bytes->length, bytes->room - bytes->length);
        if (got == 0)
            return MT_OK;
        if (got < 0 && errno != EINTR)
            return mt_fail(MT_FAILED, "%s", strerror(errno));
        bytes->length += got > 0 ? (size_t)got : 0;
    }
    return status;
}

static unsigned piece(size_t bytes)
{
    return bytes < PIECE_BYTES ? (unsigned)bytes : PIECE_BYTES;
}

static mt_status fail_to_inflate(const z_stream *stream, int code)
{
    if (code == Z_BUF_ERROR)
        return mt_fail(MT_BAD_TRACE, "its gzip data are cut off");
    return mt_fail(MT_BAD_TRACE, "its gzip data are damaged (%s)", stream->msg != NULL ? stream->msg : "zlib");
}

/* Inflates one more piece. Sets *out_ended at the end of the data. */
static mt_status inflate_piece(z_stream *stream, const struct growing *packed, struct growing *plain, bool *out_ended)
{
    MT_TRY(make_room(plain));
    stream->avail_in = piece((size_t)(packed->data + packed->length - stream->next_in));
    stream->next_out = plain->data + plain->length;
    stream->avail_out = piece(plain->room - plain->length);
    int code = inflate(stream, Z_NO_FLUSH);
    plain->length = (size_t)(stream->next_out - plain->data);
    if (code == Z_OK)
        return MT_OK;
    if (code != Z_STREAM_END)
        return fail_to_inflate(stream, code);
    *out_ended = stream->next_in == packed->data + packed->length;
    if (!*out_ended && inflateReset(stream) != Z_OK)
        return fail_to_inflate(stream, Z_STREAM_ERROR);
    return MT_OK;
}

static mt_status inflate_all(const struct growing *packed, struct growing *plain)
{
    z_stream stream = {.next_in = packed->data, .zalloc = mt_host_zlib_alloc, .zfree = mt_host_zlib_free};
    bool ended = false;
    if (inflateInit2(&stream, MAX_WBITS + WITH_GZIP_HEADER) != Z_OK)
        return mt_fail(MT_FAILED, "zlib refuses: %s", stream.msg != NULL ? stream.msg : "for no reason");
    mt_status status = MT_OK;
    while (status == MT_OK && !ended)
        status = inflate_piece(&stream, packed, plain, &ended);
    inflateEnd(&stream);
    return status;
}

static bool is_gzip(const struct growing *bytes)
{
    return bytes->length >= 2 && bytes->data[0] == 0x1F && bytes->data[1] == 0x8B;
}

static mt_status undo_gzip(struct growing *bytes)
{
    struct growing plain = {.most = bytes->most};
    mt_status status = inflate_all(bytes, &plain);
    free(bytes->data);
    *bytes = plain;
    return status;
}

/* Removes the byte order mark with which some editors begin a text. */
static void leave_out_mark(struct growing *bytes)
{
    static const unsigned char mark[] = {0xEF, 0xBB, 0xBF};
    if (bytes->length < sizeof mark || memcmp(bytes->data, mark, sizeof mark) != 0)
        return;
    bytes->length -= sizeof mark;
    memmove(bytes->data, bytes->data + sizeof mark, bytes->length);
}

mt_status mt_whole_file_read(const char *path, uint64_t most_bytes, struct mt_whole_file *out)
{
    struct growing bytes = {.most = most_bytes};
    *out = (struct mt_whole_file){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return mt_fail(MT_FAILED, "can't open %s: %s", path, strerror(errno));
    mt_status status = read_all(descriptor, &bytes);
    close(descriptor);
    if (status == MT_OK && is_gzip(&bytes))
        status = undo_gzip(&bytes);
    leave_out_mark(&bytes);
    *out = (struct mt_whole_file){bytes.data, bytes.length, bytes.most, false};
    return status == MT_OK ? MT_OK : mt_fail_context(status, "%s can't be read", path);
}

void mt_whole_file_release(struct mt_whole_file *file)
{
    free(file->data);
    *file = (struct mt_whole_file){0};
}

struct mt_value_limits mt_whole_file_limits(const struct mt_whole_file *file)
{
    struct mt_value_limits limits = mt_value_limits_of(file->length, file->most_bytes);
    if (file->is_asked)
        limits.bytes = file->most_bytes;
    return limits;
}

struct mt_document {
    const char *format;
    struct mt_value_store *store;
    struct mt_value root;
};

mt_status mt_document_refuse(const struct mt_whole_file *file)
{
    static const char database[] = "SQLite format 3";
    if (file->length == 0)
        return mt_fail(MT_BAD_TRACE, "it is empty");
    if (file->length >= sizeof database && memcmp(file->data, database, sizeof database) == 0)
        return mt_fail(MT_BAD_TRACE, "it is a compressed database: gunzip it first");
    return mt_fail(MT_BAD_TRACE, "it is neither a pickle of protocol 2 to 5 nor JSON, as files of PyTorch are, no log "
                                 "of RMM, and no database, which nsys export --type sqlite makes of a report");
}

bool mt_document_is_one(const struct mt_whole_file *file)
{
    return mt_pickle_is_one(file->data, file->length) || mt_json_is_one(file->data, file->length);
}

static mt_status read_values(const struct mt_whole_file *file, struct mt_document *document)
{
    bool is_pickle = mt_pickle_is_one(file->data, file->length);
    document->format = is_pickle ? "pickle" : "JSON";
    return is_pickle ? mt_pickle_read(file->data, file->length, document->store, &document->root)
                     : mt_json_read(file->data, file->length, document->store, &document->root);
}

mt_status mt_document_read(const struct mt_whole_file *file, struct mt_document **out)
{
    *out = NULL;
    if (!mt_document_is_one(file))
        return mt_document_refuse(file);
    struct mt_document *document = mt_host_alloc(sizeof *document);
    const struct mt_value_limits limits = mt_whole_file_limits(file);
    document->store = mt_value_store_create(&limits);
    mt_status status = read_values(file, document);
    if (status == MT_OK)
        *out = document;
    else
        mt_document_close(document);
    return status;
}

mt_status mt_document_open(const char *path, struct mt_document **out)
{
    struct mt_whole_file file;
    *out = NULL;
    mt_status status = mt_whole_file_read(path, MT_IMPORT_USUAL_BYTES, &file);
    if (status == MT_OK && (status = mt_document_read(&file, out)) != MT_OK)
        mt_fail_context(status, "%s can't be imported", path);
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

mt_status mt_document_count(struct mt_document *document, uint64_t bytes)
{
    return mt_value_store_count(document->store, bytes);
}

const struct mt_value *mt_document_root(const struct mt_document *document)
{
    assert(document->store != NULL && document->format != NULL);
    return &document->root;
}

const char *mt_document_format(const struct mt_document *document)
{
    return document->format;
}
