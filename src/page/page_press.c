#include "page/page_press.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Parts are taken one by one, so that a wave this long ends in all threads within a few milliseconds. */
enum { WAVE_PARTS = 64, MOST_THREADS = 8 };

/* A part of a table on its way. */
struct press_part {
    const struct mt_page_table *table;
    mt_page_packing packing;
    size_t number; /* of the part in its table, from 0 */
    char *text;    /* the chunk's element; NULL: not made */
    size_t length;
};

/* Invariant: each part below `next` was taken by one thread. */
struct press_wave {
    struct press_part parts[WAVE_PARTS];
    size_t count;
    atomic_size_t next;
};

static void make_part(struct press_part *part)
{
    size_t count;
    unsigned char *bytes = mt_page_table_encode(part->table, part->number, &count);
    part->text =
        mt_page_chunk_make(part->table->first_chunk + part->number, part->packing, bytes, count, &part->length);
    free(bytes);
}

static void *make_parts(void *context)
{
    struct press_wave *wave = context;
    for (size_t i; (i = atomic_fetch_add(&wave->next, 1)) < wave->count;)
        make_part(&wave->parts[i]);
    return NULL;
}

static size_t thread_count(const struct press_wave *wave)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = cores < 1 ? 1 : cores < MOST_THREADS ? (size_t)cores : MOST_THREADS;
    return count < wave->count ? count : wave->count;
}

/* Makes all parts: this thread, and as many others as there are cores and threads to be had. */
static void make_wave(struct press_wave *wave)
{
    pthread_t helpers[MOST_THREADS];
    size_t wanted = thread_count(wave), count = 0;
    atomic_init(&wave->next, 0);
    while (count + 1 < wanted && pthread_create(&helpers[count], NULL, make_parts, wave) == 0)
        count++;
    make_parts(wave);
    while (count > 0)
        pthread_join(helpers[--count], NULL);
}

static mt_status write_part(const struct mt_page_output *out, const struct press_part *part)
{
    if (part->text == NULL)
        return mt_fail(MT_FAILED, "zlib can't compress part %zu of the table %s", part->number, part->table->name);
    out->write(out->context, part->text, part->length);
    return MT_OK;
}

/* Makes what has gathered, writes it, and leaves the wave empty. */
static mt_status press_wave(const struct mt_page_output *out, struct press_wave *wave)
{
    mt_status status = MT_OK;
    make_wave(wave);
    for (size_t i = 0; i < wave->count; i++) {
        if (status == MT_OK)
            status = write_part(out, &wave->parts[i]);
        free(wave->parts[i].text);
    }
    wave->count = 0;
    return status;
}

static mt_page_packing choose_packing(const struct mt_page_table *table)
{
    size_t count;
    unsigned char *sample = mt_page_table_sample(table, &count);
    mt_page_packing packing = mt_page_packing_choose(sample, count);
    free(sample);
    return packing;
}

static mt_status press_table(const struct mt_page_output *out, const struct mt_page_table *table,
                             struct press_wave *wave)
{
    mt_status status = MT_OK;
    mt_page_packing packing = choose_packing(table);
    for (size_t i = 0; i < mt_page_table_chunks(table) && status == MT_OK; i++) {
        wave->parts[wave->count++] = (struct press_part){.table = table, .packing = packing, .number = i};
        if (wave->count == WAVE_PARTS)
            status = press_wave(out, wave);
    }
    return status;
}

mt_status mt_page_press(const struct mt_page_output *out, const struct mt_page_table *tables, size_t count)
{
    struct press_wave wave = {.count = 0};
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        if (tables[i].name != NULL)
            status = press_table(out, &tables[i], &wave);
    return status == MT_OK ? press_wave(out, &wave) : status;
}
