#include "answer/output_file.h"

#include "base/memory.h"
#include "base/text.h"
#include "trace/store/trace_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER_BYTES = 1 << 16, FILE_MODE = 0666, ALL_MODES = 0777 };

/* Invariants: `partial` is NULL if the output is written or appended to under its own name; both names are NULL for the
 * standard output; `error` is the errno of the first failed write, 0 if none. */
struct mt_output_file {
    char *name, *partial;
    gzFile stream; /* also for uncompressed output */
    int kept;      /* a second descriptor of the partial file, which outlives the stream; -1: no partial file */
    int error;
    bool is_terminal, is_log;
    uint64_t written, most; /* before gzip; `most` is the limit, 0: none */
    const char *reason;     /* of the limit */
    bool is_nameless;       /* the partial file has no name yet */
    size_t used;            /* in the buffer */
    char buffer[BUFFER_BYTES];
};

static bool ends_in_gz(const char *name)
{
    size_t length = name != NULL ? strlen(name) : 0;
    return length > 3 && strcmp(name + length - 3, ".gz") == 0;
}

static void destroy(struct mt_output_file *file)
{
    if (file->kept >= 0)
        close(file->kept);
    free(file->name);
    free(file->partial);
    free(file);
}

static const char *what(const struct mt_output_file *file)
{
    return file->name != NULL ? file->name : "the output";
}

static mt_status fail_to_write(const struct mt_output_file *file, int error)
{
    return mt_fail(MT_NOT_WRITTEN, "can't write %s: %s", what(file), strerror(error));
}

/* Returns the target of a symbolic link, so that the link is kept; the caller frees it. */
static char *resolve(const char *name)
{
    char *target = realpath(name, NULL);
    return target != NULL ? target : mt_host_strdup(name);
}

/* True if two names of files that do not exist yet refer to the same place. */
static bool is_same_place(const char *a, const char *b)
{
    char *of_a = mt_host_strdup(a), *of_b = mt_host_strdup(b); /* modified by dirname */
    const char *name_a = strrchr(a, '/'), *name_b = strrchr(b, '/');
    struct stat folder_a, folder_b;
    bool is_same = stat(dirname(of_a), &folder_a) == 0 && stat(dirname(of_b), &folder_b) == 0 &&
                   folder_a.st_dev == folder_b.st_dev && folder_a.st_ino == folder_b.st_ino &&
                   strcmp(name_a != NULL ? name_a + 1 : a, name_b != NULL ? name_b + 1 : b) == 0;
    free(of_a);
    free(of_b);
    return is_same;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
    if (!has_a && !has_b)
        return is_same_place(a, b);
    return has_a && has_b && S_ISREG(of_a.st_mode) && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

static bool is_standard_output(const char *name)
{
    return name == NULL || strcmp(name, "-") == 0;
}

static bool ends_with(const char *name, size_t length, const char *ending)
{
    const size_t bytes = strlen(ending);
    return length > bytes && strncmp(name + length - bytes, ending, bytes) == 0;
}

/* Returns the length of a name; for "X-ring-damaged-2", without the number. */
static size_t length_without_number(const char *name)
{
    size_t length = strlen(name);
    while (length > 0 && name[length - 1] >= '0' && name[length - 1] <= '9')
        length--;
    return ends_with(name, length, "-ring-damaged-") ? length - 1 : strlen(name);
}

/* Returns the name of the trace or other database to which a file with this name would belong; NULL: none. The caller
 * frees it. */
static char *trace_of(const char *name)
{
    static const char *const endings[] = {"", "-ring", "-ring-damaged", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t length = length_without_number(name);
        if (!ends_with(name, length, endings[i]))
            continue;
        char *trace = mt_host_strdup(name);
        trace[length - strlen(endings[i])] = '\0';
        if (mt_trace_file_is_database(trace))
            return trace;
        free(trace);
    }
    return NULL;
}

/* Fails for any trace, even if the command does not read it, and for a file that belongs to one. */
static mt_status check_no_trace(const char *name)
{
    char *trace = is_standard_output(name) ? NULL : trace_of(name);
    const bool is_beside = trace != NULL && strcmp(trace, name) != 0;
    free(trace);
    if (trace == NULL)
        return MT_OK;
    if (is_beside)
        return mt_fail(MT_USAGE, "%s would belong to a trace or another database: name another file", name);
    return mt_fail(MT_USAGE, "%s is a trace or another database, which would be lost: name another file", name);
}

mt_status mt_output_file_check(const char *option, const char *name, const char *other)
{
    if (is_standard_output(name))
        return MT_OK;
    if (name[0] == '\0')
        return mt_fail(MT_USAGE, "%s: the file's name is empty", option);
    if (other != NULL && is_same_file(name, other))
        return mt_fail(MT_USAGE, "%s %s is %s itself: name another file", option, name, other);
    mt_status status = check_no_trace(name);
    return status == MT_OK ? status : mt_fail_context(status, "%s", option);
}

/* Opens an unnamed file in the folder of `name`, which disappears with the process. -1 if the file system does not
 * support it. */
static int open_nameless(const char *name, mode_t mode)
{
    char *copy = mt_host_strdup(name); /* modified by dirname */
    const bool can_be_named = access("/proc/self/fd", X_OK) == 0;
    int descriptor = can_be_named ? open(dirname(copy), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode) : -1;
    free(copy);
    return descriptor;
}

/* Opens the file to be renamed later; or the name itself, for a file to append to, a pipe or a device. The new file
 * gets the mode of the file that it replaces. */
static int open_descriptor(struct mt_output_file *file, mt_output_form form)
{
    struct stat found;
    if (form == MT_OUTPUT_APPENDED)
        return open(file->name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, FILE_MODE);
    bool is_there = stat(file->name, &found) == 0;
    if (is_there && !S_ISREG(found.st_mode))
        return open(file->name, O_WRONLY | O_CLOEXEC);
    struct mt_text partial = {0};
    mt_text_add(&partial, "%s.%ld", file->name, (long)getpid());
    file->partial = partial.data;
    mode_t mode = is_there ? found.st_mode & ALL_MODES : FILE_MODE;
    int descriptor = open_nameless(file->name, mode);
    file->is_nameless = descriptor >= 0;
    if (!file->is_nameless)
        descriptor = open(file->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (is_there && descriptor >= 0)
        fchmod(descriptor, mode); /* despite the umask; some file systems have no modes */
    return descriptor;
}

static bool is_compressed(const struct mt_output_file *file, mt_output_form form)
{
    return form == MT_OUTPUT_COMPRESSED || (form == MT_OUTPUT_BY_NAME && ends_in_gz(file->name));
}

static bool is_regular(int descriptor)
{
    struct stat about;
    return fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
}

static mt_status open_stream(struct mt_output_file *file, mt_output_form form)
{
    int descriptor = file->name != NULL ? open_descriptor(file, form) : dup(STDOUT_FILENO);
    if (descriptor < 0)
        return fail_to_write(file, errno);
    file->is_terminal = isatty(descriptor) == 1;
    file->is_log = file->name == NULL && !is_regular(descriptor);
    if (file->partial != NULL && (file->kept = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) < 0) {
        mt_status status = fail_to_write(file, errno);
        close(descriptor);
        return status;
    }
    if (file->is_terminal && is_compressed(file, form)) {
        close(descriptor);
        return mt_fail(MT_USAGE, "compressed output is not written to a terminal: use -o FILE or a pipe");
    }
    file->stream = gzdopen(descriptor, is_compressed(file, form) ? "wb" : "wbT");
    if (file->stream == NULL)
        mt_host_exhausted("memory for a compressed file");
    return MT_OK;
}

mt_status mt_output_file_open(const char *name, mt_output_form form, struct mt_output_file **out)
{
    MT_TRY(check_no_trace(name));
    struct mt_output_file *file = mt_host_alloc(sizeof *file);
    file->name = is_standard_output(name) ? NULL : resolve(name);
    file->kept = -1;
    mt_status status = open_stream(file, form);
    if (status != MT_OK) {
        destroy(file);
        return status;
    }
    *out = file;
    return MT_OK;
}

static void write_out(struct mt_output_file *file, const void *data, size_t bytes)
{
    if (file->error != 0 || bytes == 0)
        return;
    file->written += bytes;
    if (file->most != 0 && file->written > file->most) {
        file->error = EOVERFLOW;
        return;
    }
    errno = 0;
    if (gzwrite(file->stream, data, (unsigned)bytes) <= 0)
        file->error = errno != 0 ? errno : EIO;
}

static void flush(struct mt_output_file *file)
{
    write_out(file, file->buffer, file->used);
    file->used = 0;
}

void mt_output_file_write(struct mt_output_file *file, const void *data, size_t bytes)
{
    const char *rest = data;
    while (bytes > 0) {
        assert(file->used < BUFFER_BYTES);
        size_t room = BUFFER_BYTES - file->used, part = bytes < room ? bytes : room;
        memcpy(file->buffer + file->used, rest, part);
        file->used += part;
        rest += part;
        bytes -= part;
        if (file->used == BUFFER_BYTES)
            flush(file);
    }
}

void mt_output_file_print(struct mt_output_file *file, const char *text)
{
    mt_output_file_write(file, text, strlen(text));
}

void mt_output_file_limit(struct mt_output_file *file, uint64_t bytes, const char *reason)
{
    file->most = bytes;
    file->reason = reason;
}

mt_status mt_output_file_go_on(const struct mt_output_file *file)
{
    char size[MT_BYTES_TEXT];
    if (file->error == 0)
        return MT_OK;
    if (file->error == EOVERFLOW && file->most != 0)
        return mt_fail(MT_NOT_WRITTEN, "%s would have more than %s: %s", what(file), mt_format_bytes(file->most, size),
                       file->reason);
    return fail_to_write(file, file->error);
}

bool mt_output_file_is_terminal(const struct mt_output_file *file)
{
    return file->is_terminal;
}

bool mt_output_file_is_log(const struct mt_output_file *file)
{
    return file->is_log;
}

/* Writes the remaining bytes, also of the compressed stream. */
static void finish_stream(struct mt_output_file *file)
{
    flush(file);
    errno = 0;
    if (gzclose(file->stream) != Z_OK && file->error == 0)
        file->error = errno != 0 ? errno : EIO;
}

/* Syncs the folder's entry of a file to disk. Failures are ignored: some file systems can't, and the file is
 * complete. */
static void sync_folder(const char *name)
{
    char *copy = mt_host_strdup(name); /* modified by dirname */
    int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (folder < 0)
        return;
    fsync(folder);
    close(folder);
}

/* Links the unnamed file to its partial name, since a link can't replace another file, but a rename can. */
static bool name_file(const struct mt_output_file *file)
{
    char descriptor[64];
    snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", file->kept);
    return linkat(AT_FDCWD, descriptor, AT_FDCWD, file->partial, AT_SYMLINK_FOLLOW) == 0;
}

/* Renames the file after syncing its content to disk. After a power failure, the name refers to the complete new file
 * or to the old one. */
static bool rename_file(struct mt_output_file *file)
{
    if (fsync(file->kept) != 0)
        return false;
    if (file->is_nameless && !name_file(file))
        return false;
    file->is_nameless = false;
    return rename(file->partial, file->name) == 0;
}

/* Renames the file, or removes it after a failure. */
static mt_status settle(struct mt_output_file *file, mt_status status)
{
    if (file->partial == NULL)
        return status;
    if (status == MT_OK && !rename_file(file))
        status = fail_to_write(file, errno);
    if (status == MT_OK)
        sync_folder(file->name);
    else if (!file->is_nameless)
        unlink(file->partial);
    return status;
}

mt_status mt_output_file_close(struct mt_output_file *file, mt_status status)
{
    assert(file->partial == NULL || file->name != NULL);
    finish_stream(file);
    bool reader_has_left = file->name == NULL && file->error == EPIPE;
    MT_THEN(status, mt_output_file_go_on(file));
    status = reader_has_left ? MT_OK : settle(file, status);
    destroy(file);
    return status;
}

mt_status mt_output_file_put(const char *name, mt_output_form form, const char *text)
{
    struct mt_output_file *file;
    MT_TRY(mt_output_file_open(name, form, &file));
    mt_output_file_print(file, text);
    return mt_output_file_close(file, MT_OK);
}
