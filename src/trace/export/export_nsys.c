/* A run as the tables of Nsight Systems: a database is not written from its beginning to its end, so it is made in a file
 * for the time being, and copied. */
#include "trace/export/export.h"
#include "trace/export/nsys.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 16 };

static mt_status fail_on(const char *path, const char *what)
{
    return mt_fail(MT_NOT_WRITTEN, "can't %s %s: %s", what, path, strerror(errno));
}

static mt_status copy(int from, const char *path, struct mt_output_file *file)
{
    char buffer[COPY_BYTES];
    ssize_t bytes;
    mt_status status = MT_OK;
    while (status == MT_OK && (bytes = read(from, buffer, sizeof buffer)) != 0) {
        if (bytes < 0 && errno != EINTR)
            return fail_on(path, "read");
        if (bytes > 0)
            mt_output_file_write(file, buffer, (size_t)bytes);
        status = mt_output_file_go_on(file);
    }
    return status;
}

static mt_status write_through(const struct mt_export_run *from, int descriptor, const char *path,
                               struct mt_output_file *file)
{
    mt_status status = mt_nsys_write(from->trace, from->run, path);
    if (status == MT_FAILED) /* it is the database at `path` that is written */
        return mt_fail_context(MT_NOT_WRITTEN, "the tables");
    return status == MT_OK ? copy(descriptor, path, file) : status;
}

mt_status mt_export_nsys(const struct mt_export_run *from, struct mt_output_file *file)
{
    const char *folder = getenv("TMPDIR");
    struct mt_text path = {0};
    mt_text_add(&path, "%s/memtrace-export-XXXXXX", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    int descriptor = mkostemp(path.data, O_CLOEXEC);
    mt_status status = descriptor < 0 ? fail_on(path.data, "make") : MT_OK;
    if (status == MT_OK) {
        status = write_through(from, descriptor, path.data, file);
        close(descriptor);
        unlink(path.data);
    }
    mt_text_release(&path);
    return status;
}
