#include "export_file.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER_BYTES = 1 << 16, FILE_MODE = 0666 };

/* Invariants: `partial` is NULL if it is written under its own name, and both names are NULL if it is stdout; `error` is
 * the errno of the first write that failed, 0 if none has. */
struct mt_export_file {
    char *name, *partial;
    gzFile stream; /* also of what is not compressed */
    int error;
    bool is_terminal;
    size_t used; /* of the buffer */
    char buffer[BUFFER_BYTES];
};

static bool ends_in_gz(const char *name)
{
    size_t length = name != NULL ? strlen(name) : 0;
    return length > 3 && strcmp(name + length - 3, ".gz") == 0;
}

static void destroy(struct mt_export_file *file)
{
    free(file->name);
    free(file->partial);
    free(file);
}

static const char *what(const struct mt_export_file *file)
{
    return file->name != NULL ? file->name : "the output";
}

static mt_status fail_to_write(const struct mt_export_file *file, int error)
{
    return mt_fail(MT_FAILED, "can't write %s: %s", what(file), strerror(error));
}

/* Where a symbolic link leads, so that the link stays one. */
static char *resolve(const char *name)
{
    char *target = realpath(name, NULL);
    return target != NULL ? target : mt_host_strdup(name);
}

/* Opens what will be renamed, or the name itself if it is no file that could be replaced. */
static int open_descriptor(struct mt_export_file *file)
{
    struct stat found;
    if (stat(file->name, &found) == 0 && !S_ISREG(found.st_mode))
        return open(file->name, O_WRONLY | O_CLOEXEC);
    struct mt_text partial = {0};
    mt_text_add(&partial, "%s.%ld", file->name, (long)getpid());
    file->partial = partial.data;
    return open(file->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
}

static mt_status open_stream(struct mt_export_file *file, bool is_compressed)
{
    int descriptor = file->name != NULL ? open_descriptor(file) : dup(STDOUT_FILENO);
    if (descriptor < 0)
        return fail_to_write(file, errno);
    file->is_terminal = isatty(descriptor) == 1;
    if (file->is_terminal && is_compressed) {
        close(descriptor);
        return mt_fail(MT_USAGE, "what is compressed is nothing for a terminal: give it a file with -o, or a pipe");
    }
    file->stream = gzdopen(descriptor, is_compressed ? "wb" : "wbT");
    if (file->stream == NULL)
        mt_host_exhausted("memory for a compressed file");
    return MT_OK;
}

mt_status mt_export_file_open(const char *name, mt_export_compression compression, struct mt_export_file **out)
{
    bool is_file = name != NULL && strcmp(name, "-") != 0;
    struct mt_export_file *file = mt_host_alloc(sizeof *file);
    file->name = is_file ? resolve(name) : NULL;
    mt_status status = open_stream(file, compression == MT_COMPRESS_ALWAYS || ends_in_gz(file->name));
    if (status != MT_OK) {
        destroy(file);
        return status;
    }
    *out = file;
    return MT_OK;
}

static void write_out(struct mt_export_file *file, const void *data, size_t bytes)
{
    if (file->error != 0 || bytes == 0)
        return;
    errno = 0;
    if (gzwrite(file->stream, data, (unsigned)bytes) <= 0)
        file->error = errno != 0 ? errno : EIO;
}

static void flush(struct mt_export_file *file)
{
    write_out(file, file->buffer, file->used);
    file->used = 0;
}

void mt_export_write(struct mt_export_file *file, const void *data, size_t bytes)
{
    const char *rest = data;
    while (bytes > 0) {
        size_t room = BUFFER_BYTES - file->used, part = bytes < room ? bytes : room;
        memcpy(file->buffer + file->used, rest, part);
        file->used += part;
        rest += part;
        bytes -= part;
        if (file->used == BUFFER_BYTES)
            flush(file);
    }
}

void mt_export_print(struct mt_export_file *file, const char *text)
{
    mt_export_write(file, text, strlen(text));
}

mt_status mt_export_go_on(const struct mt_export_file *file)
{
    return file->error == 0 ? MT_OK : fail_to_write(file, file->error);
}

bool mt_export_is_terminal(const struct mt_export_file *file)
{
    return file->is_terminal;
}

/* Writes what is left, of the compressed stream too. */
static void finish_stream(struct mt_export_file *file)
{
    flush(file);
    errno = 0;
    if (gzclose(file->stream) != Z_OK && file->error == 0)
        file->error = errno != 0 ? errno : EIO;
}

/* Gives it its name, or takes it away. */
static mt_status settle(const struct mt_export_file *file, mt_status status)
{
    if (file->partial == NULL)
        return status;
    if (status == MT_OK && rename(file->partial, file->name) != 0)
        status = fail_to_write(file, errno);
    if (status != MT_OK)
        unlink(file->partial);
    return status;
}

mt_status mt_export_file_close(struct mt_export_file *file, mt_status status)
{
    finish_stream(file);
    bool reader_has_left = file->name == NULL && file->error == EPIPE;
    if (status == MT_OK)
        status = mt_export_go_on(file);
    status = reader_has_left ? MT_OK : settle(file, status);
    destroy(file);
    return status;
}
