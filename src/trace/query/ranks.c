#include "trace/query/ranks.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/text.h"
#include "trace/query/rank_catalogue.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names of files, an array for MT_HOST_ADD. */
struct names {
    char **items;
    size_t count;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void release_names(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

static bool is_trace_name(const char *name)
{
    static const char ENDING[] = ".db";
    const size_t length = strlen(name), ending = sizeof ENDING - 1;
    return length > ending && strcmp(name + length - ending, ENDING) == 0;
}

static mt_status list_traces(const char *folder, struct names *out)
{
    *out = (struct names){0};
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return mt_fail(MT_USAGE, "can't read folder %s: %s", folder, strerror(errno));
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory))
        if (is_trace_name(entry->d_name))
            *MT_HOST_ADD(out->items, out->count) = mt_host_strdup(entry->d_name);
    closedir(directory);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_names);
    return MT_OK;
}

static void drop_from(struct mt_ranks *ranks, size_t count, size_t problem_count)
{
    for (; ranks->count > count; ranks->count--)
        free(ranks->items[ranks->count - 1].shares);
    ranks->problem_count = problem_count;
}

/* Reads traces by the catalogue at `path`; NULL: by one in memory. After a failure *out is as it was. */
static mt_status read_by(const char *path, const char *folder, const struct names *names, struct mt_ranks *out)
{
    struct mt_rank_catalogue *catalogue;
    const size_t count = out->count, problem_count = out->problem_count;
    mt_status status = mt_rank_catalogue_open(path, &catalogue);
    MT_THEN(status, mt_rank_catalogue_update(catalogue, folder, names->items, names->count));
    MT_THEN(status, mt_rank_catalogue_load(catalogue, folder, out));
    mt_rank_catalogue_close(catalogue);
    if (status != MT_OK)
        drop_from(out, count, problem_count);
    return status;
}

/* A damaged catalogue is made anew. Where none can be kept, one in memory does. */
static mt_status read_folder(const char *folder, struct mt_ranks *out)
{
    struct names names;
    struct mt_text path = {0};
    MT_TRY(list_traces(folder, &names));
    const char *prefix = strcmp(folder, ".") == 0 ? "" : folder;
    mt_text_add(&path, "%s/" MT_RANK_CATALOGUE, folder);
    const bool is_kept = access(folder, W_OK) == 0 && mt_rank_catalogue_may_be_at(path.data);
    mt_status status = is_kept ? read_by(path.data, prefix, &names, out) : MT_FAILED;
    if (status == MT_BAD_TRACE && mt_rank_catalogue_is_at(path.data) && unlink(path.data) == 0)
        status = read_by(path.data, prefix, &names, out);
    if (status != MT_OK)
        status = read_by(NULL, prefix, &names, out);
    mt_text_release(&path);
    release_names(&names);
    return status;
}

static mt_status read_files(struct names *files, struct mt_ranks *out)
{
    if (files->count == 0)
        return MT_OK;
    qsort(files->items, files->count, sizeof *files->items, compare_names);
    return read_by(NULL, "", files, out);
}

static int compare_ranks(const void *left, const void *right)
{
    const struct mt_rank *a = left, *b = right;
    const int by_job = strcmp(a->job, b->job);
    if (by_job != 0)
        return by_job;
    return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank) : strcmp(a->file, b->file);
}

mt_status mt_ranks_open(const char *const *places, size_t count, struct mt_ranks *out)
{
    struct names files = {0};
    struct stat about;
    mt_status status = MT_OK;
    *out = (struct mt_ranks){.texts = mt_interner_create()};
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        if (stat(places[i], &about) != 0)
            status = mt_fail(MT_USAGE, "there is no file or folder %s", places[i]);
        else if (S_ISDIR(about.st_mode))
            status = read_folder(places[i], out);
        else
            *MT_HOST_ADD(files.items, files.count) = mt_host_strdup(places[i]);
    }
    MT_THEN(status, read_files(&files, out));
    release_names(&files);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_ranks);
    return status;
}

void mt_ranks_close(struct mt_ranks *ranks)
{
    drop_from(ranks, 0, 0);
    free(ranks->items);
    free(ranks->problems);
    if (ranks->texts != NULL)
        mt_interner_destroy(ranks->texts);
    *ranks = (struct mt_ranks){0};
}
