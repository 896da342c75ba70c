#include "producers/model/token_source.h"

#include "base/memory.h"
#include "base/random.h"
#include "producers/model/use.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { REFERENCE_GENERATOR = 1000 };

struct mt_token_source {
    const struct mt_training_config *config; /* borrowed */
    FILE *file;                              /* of MT_DATA_FILE */
    int64_t file_bytes;
    int64_t width;   /* tokens of a row: seq, or seq + 1 if targets are the tokens after the inputs */
    int64_t *tokens; /* room for batch rows; NULL until a device wants them */
};

/* Opens the file after checking its type, since opening a pipe would wait for a writer. */
static mt_status open_file(struct mt_token_source *source)
{
    const char *path = source->config->data_file;
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return mt_fail(MT_FAILED, "%s is no regular file", path);
    source->file = fopen(path, "rb");
    if (source->file == NULL || fseek(source->file, 0, SEEK_END) != 0)
        return mt_fail(MT_FAILED, "can't read %s: %s", path, strerror(errno));
    source->file_bytes = ftell(source->file);
    if (source->file_bytes < source->width)
        return mt_fail(MT_FAILED, "%s has %lld bytes; a sequence and its targets take %lld", path,
                       (long long)source->file_bytes, (long long)source->width);
    return MT_OK;
}

mt_status mt_token_source_open(const struct mt_training_config *config, struct mt_token_source **out)
{
    struct mt_token_source *source = mt_host_alloc(sizeof *source);
    source->config = config;
    source->width = config->data == MT_DATA_RANDOM ? config->seq : config->seq + 1;
    mt_status status = config->data == MT_DATA_FILE ? open_file(source) : MT_OK;
    if (status != MT_OK) {
        mt_token_source_close(source);
        return status;
    }
    *out = source;
    return MT_OK;
}

void mt_token_source_close(struct mt_token_source *source)
{
    if (source == NULL)
        return;
    if (source->file != NULL)
        fclose(source->file);
    free(source->tokens);
    free(source);
}

/* Draws the tokens: token i is number first + i of the generator's stream. */
static void generate(struct mt_token_source *source, uint64_t generator, uint64_t first)
{
    int64_t count = source->config->batch * source->width;
    for (int64_t i = 0; i < count; i++)
        source->tokens[i] =
            (int64_t)(mt_random_unit(generator, first + (uint64_t)i) * (double)source->config->model.vocab);
}

/* Reads the rows, each from a random place of the file. */
static mt_status read_rows(struct mt_token_source *source, uint64_t first)
{
    for (int64_t row = 0; row < source->config->batch; row++) {
        double place = mt_random_unit(0, first + (uint64_t)row);
        int64_t start = (int64_t)(place * (double)(source->file_bytes - source->width + 1));
        assert(start >= 0 && start + source->width <= source->file_bytes);
        if (fseek(source->file, (long)start, SEEK_SET) != 0)
            return mt_fail(MT_FAILED, "can't seek in %s: %s", source->config->data_file, strerror(errno));
        for (int64_t i = 0; i < source->width; i++) {
            int byte = fgetc(source->file);
            if (byte == EOF)
                return mt_fail(MT_FAILED, "%s became shorter while it was read", source->config->data_file);
            source->tokens[row * source->width + i] = byte;
        }
    }
    return MT_OK;
}

static mt_status fill_tokens(struct mt_token_source *source, int64_t step)
{
    uint64_t first = mt_splitmix64(source->config->seed ^ mt_splitmix64((uint64_t)step));
    switch (source->config->data) {
    case MT_DATA_FILE:
        return read_rows(source, first);
    case MT_DATA_REFERENCE:
        generate(source, REFERENCE_GENERATOR, 0);
        return MT_OK;
    case MT_DATA_RANDOM:
        break;
    }
    generate(source, 0, first);
    return MT_OK;
}

/* Writes the step's tokens into their block, if the device stores data. */
static mt_status write_tokens(struct mt_runtime *rt, struct mt_token_source *source, int64_t step,
                              const struct mt_tensor *block)
{
    if (!mt_device_executes(rt->device))
        return MT_OK;
    if (source->tokens == NULL)
        source->tokens = mt_host_alloc((size_t)mt_tensor_bytes(block));
    MT_TRY(fill_tokens(source, step));
    return mt_device_write(rt->device, block->address, source->tokens, mt_tensor_bytes(block), rt->stream);
}

void mt_token_source_next(struct mt_runtime *rt, struct mt_token_source *source, int64_t step,
                          struct mt_tensor **out_inputs, struct mt_tensor **out_targets)
{
    const struct mt_training_config *config = source->config;
    const int64_t shape[] = {config->batch, source->width}, stride[] = {source->width, 1};
    const int64_t seen[] = {config->batch, config->seq};
    assert(source->width == config->seq || source->width == config->seq + 1);
    struct mt_scope outer = mt_scope_enter(rt, "data", MT_CATEGORY_DATA, "tokens");
    struct mt_tensor *block = mt_tensor_empty(rt, MT_ROLE_INPUT, NULL, MT_I64, 2, shape);
    mt_scope_leave(rt, outer);
    if (rt->status == MT_OK) {
        mt_use_write(rt, block);
        mt_runtime_fail(rt, write_tokens(rt, source, step, block));
    }
    *out_inputs = mt_tensor_view(rt, block, 2, seen, stride, 0);
    *out_targets = mt_tensor_view(rt, block, 2, seen, stride, source->width - config->seq);
    mt_tensor_release(rt, block);
}
