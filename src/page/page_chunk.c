#include "page/page_chunk.h"

#include "base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* zlib's strategy for a table. */
enum packing {
    PACKS_REPEATS, /* repeated strings, and frequent bytes */
    PACKS_NOISE    /* frequent bytes alone, which is smaller where little repeats, as in the times of a card's clock */
};

static const char TAIL[] = "</script>\n";

enum { HEAD_BYTES = 96 + MT_PAGE_SET_NAME };

void mt_page_output_text(const struct mt_page_output *out, const char *text)
{
    out->write(out->context, text, strlen(text));
}

/* ---- one chunk ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Writes three bytes as four characters. */
static void encode_group(const unsigned char *bytes, char *out)
{
    uint32_t group = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    out[0] = digits[group >> 18];
    out[1] = digits[group >> 12 & 63];
    out[2] = digits[group >> 6 & 63];
    out[3] = digits[group & 63];
}

static size_t base64_length(size_t count)
{
    return (count + 2) / 3 * 4;
}

static void encode_base64(const unsigned char *bytes, size_t count, char *out)
{
    size_t rest = count % 3, whole = count - rest;
    for (size_t i = 0; i < whole; i += 3, out += 4)
        encode_group(bytes + i, out);
    if (rest == 0)
        return;
    const unsigned char last[3] = {bytes[whole], rest == 2 ? bytes[whole + 1] : 0};
    encode_group(last, out);
    memset(out + rest + 1, '=', 3 - rest);
}

/* Returns the script element with compressed bytes. The caller frees it. */
static char *make_element(const char *set, size_t number, const unsigned char *compressed, size_t count,
                          size_t *out_length)
{
    char *text = mt_host_alloc(HEAD_BYTES + base64_length(count) + sizeof TAIL);
    int head =
        snprintf(text, HEAD_BYTES, "<script type=\"application/octet-stream;base64\" id=\"%schunk-%zu\">", set, number);
    assert(head > 0 && head < HEAD_BYTES);
    char *at = text + head;
    encode_base64(compressed, count, at);
    at += base64_length(count);
    memcpy(at, TAIL, sizeof TAIL);
    *out_length = (size_t)(at - text) + strlen(TAIL);
    return text;
}

/* Twice as fast as zlib's default level, 6, and the file is 1 % larger. */
enum { LEVEL = 4, WINDOW_BITS = 15, MEMORY_LEVEL = 8 };

/* Returns the compressed bytes, *out_length of them. The caller frees them. NULL if zlib fails. */
static unsigned char *pack(enum packing packing, const unsigned char *bytes, size_t count, size_t *out_length)
{
    int strategy = packing == PACKS_NOISE ? Z_HUFFMAN_ONLY : Z_DEFAULT_STRATEGY;
    assert(count <= UINT32_MAX);
    z_stream stream = {.next_in = (z_const Bytef *)(uintptr_t)bytes,
                       .avail_in = (uInt)count,
                       .zalloc = mt_host_zlib_alloc,
                       .zfree = mt_host_zlib_free};
    if (deflateInit2(&stream, LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, strategy) != Z_OK)
        return NULL;
    uLong bound = deflateBound(&stream, (uLong)count);
    unsigned char *packed = mt_host_alloc(bound);
    stream.next_out = packed;
    stream.avail_out = (uInt)bound;
    int code = deflate(&stream, Z_FINISH);
    *out_length = stream.total_out;
    deflateEnd(&stream);
    if (code == Z_STREAM_END)
        return packed;
    free(packed);
    return NULL;
}

static char *make_chunk(const char *set, size_t number, enum packing packing, const unsigned char *bytes, size_t count,
                        size_t *out_length)
{
    size_t length;
    unsigned char *packed = pack(packing, bytes, count, &length);
    char *text = packed != NULL ? make_element(set, number, packed, length, out_length) : NULL;
    free(packed);
    return text;
}

mt_status mt_page_chunk_write(const struct mt_page_output *out, size_t number, const void *bytes, size_t count)
{
    size_t length = 0;
    char *chunk = make_chunk(out->set, number, PACKS_REPEATS, bytes, count, &length);
    if (chunk == NULL)
        return mt_fail(MT_FAILED, "zlib can't compress chunk %zu of the page", number);
    out->write(out->context, chunk, length);
    free(chunk);
    return MT_OK;
}

/* ---- the chunks of tables ---- */

/* Returns the packing that makes fewer bytes of a sample. */
static enum packing choose_packing(const struct mt_page_table *table)
{
    size_t count, repeats = 0, noise = 0;
    unsigned char *sample = mt_page_table_sample(table, &count);
    unsigned char *as_repeats = pack(PACKS_REPEATS, sample, count, &repeats);
    unsigned char *as_noise = pack(PACKS_NOISE, sample, count, &noise);
    bool is_less = as_repeats != NULL && as_noise != NULL && noise <= repeats;
    free(as_repeats);
    free(as_noise);
    free(sample);
    return is_less ? PACKS_NOISE : PACKS_REPEATS;
}

/* Threads take parts one by one, so that they finish a wave within a few milliseconds of each other. */
enum { WAVE_PARTS = 16, MOST_THREADS = 8 };

/* A part of a table: one chunk. */
struct part {
    const struct mt_page_table *table;
    enum packing packing;
    size_t number; /* of the part in its table, from 0 */
    char *text;    /* the chunk's element; NULL: zlib has failed */
    size_t length;
};

/* Invariants: each part below `next` was taken by one thread; count <= WAVE_PARTS. */
struct wave {
    const char *set;
    struct part parts[WAVE_PARTS];
    size_t count;
    atomic_size_t next;
};

static void make_part(const char *set, struct part *part)
{
    size_t count;
    unsigned char *bytes = mt_page_table_encode(part->table, part->number, &count);
    part->text = make_chunk(set, part->table->first_chunk + part->number, part->packing, bytes, count, &part->length);
    free(bytes);
}

static void *make_parts(void *context)
{
    struct wave *wave = context;
    for (size_t i; (i = atomic_fetch_add(&wave->next, 1)) < wave->count;)
        make_part(wave->set, &wave->parts[i]);
    return NULL;
}

static size_t thread_count(const struct wave *wave)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = cores < 1 ? 1 : cores < MOST_THREADS ? (size_t)cores : MOST_THREADS;
    return count < wave->count ? count : wave->count;
}

/* Makes all parts, on this thread and on one for each other core. */
static void make_wave(struct wave *wave)
{
    pthread_t helpers[MOST_THREADS];
    size_t wanted = thread_count(wave), count = 0;
    assert(wanted <= MOST_THREADS);
    atomic_init(&wave->next, 0);
    while (count + 1 < wanted && pthread_create(&helpers[count], NULL, make_parts, wave) == 0)
        count++;
    make_parts(wave);
    while (count > 0)
        pthread_join(helpers[--count], NULL);
}

static mt_status write_part(const struct mt_page_output *out, const struct part *part)
{
    if (part->text == NULL)
        return mt_fail(MT_FAILED, "zlib can't compress part %zu of the table %s", part->number, part->table->name);
    out->write(out->context, part->text, part->length);
    return MT_OK;
}

/* Makes and writes the parts of the wave, and leaves it empty. */
static mt_status write_wave(const struct mt_page_output *out, struct wave *wave)
{
    mt_status status = MT_OK;
    make_wave(wave);
    for (size_t i = 0; i < wave->count; i++) {
        MT_THEN(status, write_part(out, &wave->parts[i]));
        free(wave->parts[i].text);
    }
    wave->count = 0;
    return status;
}

static mt_status write_table(const struct mt_page_output *out, const struct mt_page_table *table, struct wave *wave)
{
    mt_status status = MT_OK;
    enum packing packing = choose_packing(table);
    for (size_t i = 0; i < mt_page_table_chunks(table) && status == MT_OK; i++) {
        assert(wave->count < WAVE_PARTS);
        wave->parts[wave->count++] = (struct part){.table = table, .packing = packing, .number = i};
        if (wave->count == WAVE_PARTS)
            status = write_wave(out, wave);
    }
    return status;
}

mt_status mt_page_tables_write(const struct mt_page_output *out, const struct mt_page_table *tables, size_t count)
{
    struct wave wave = {.set = out->set};
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        if (tables[i].name != NULL)
            status = write_table(out, &tables[i], &wave);
    return status == MT_OK ? write_wave(out, &wave) : status;
}
