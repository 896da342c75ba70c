#include "operators/cudnn/cudnn_answers.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "base/random.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NO_FILE = -1, FORMAT = 2 };

struct record {
    uint64_t checksum; /* of the rest */
    struct mt_convolution_question question;
    struct mt_cudnn_plans plans;
};

/* Invariant: places has the index of each record by the digest of its question. */
struct mt_cudnn_answers {
    int file; /* NO_FILE: nothing is stored */
    struct record *records;
    size_t count;
    struct mt_number_map places;
};

/* Returns a digest of bytes, which are whole words. Never MT_NUMBER_MAP_NO_KEY in practice, which the map ignores. */
static uint64_t digest_of(const void *bytes, size_t length)
{
    uint64_t digest = FORMAT, word;
    for (size_t i = 0; i + sizeof word <= length; i += sizeof word) {
        memcpy(&word, (const char *)bytes + i, sizeof word);
        digest = mt_splitmix64(digest ^ word);
    }
    return digest;
}

static uint64_t digest_of_text(const char *text)
{
    uint64_t digest = FORMAT;
    for (; *text != '\0'; text++)
        digest = mt_splitmix64(digest ^ (unsigned char)*text);
    return digest;
}

static uint64_t checksum_of(const struct record *record)
{
    return digest_of(&record->question, sizeof *record - offsetof(struct record, question));
}

static const struct record *find(const struct mt_cudnn_answers *answers, const struct mt_convolution_question *question)
{
    uint64_t place;
    if (!mt_number_map_get(&answers->places, digest_of(question, sizeof *question), &place))
        return NULL;
    const struct record *found = &answers->records[place];
    return memcmp(&found->question, question, sizeof *question) == 0 ? found : NULL;
}

static void keep(struct mt_cudnn_answers *answers, const struct record *record)
{
    mt_number_map_put(&answers->places, digest_of(&record->question, sizeof record->question), answers->count);
    *MT_HOST_ADD(answers->records, answers->count) = *record;
}

/* ---- the file ---- */

/* True if it is a plain file of this user's that nobody else can write. */
static bool is_own(int file)
{
    struct stat status;
    return fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static int open_file(const char *folder, int64_t version, const char *card)
{
    struct mt_text path = {0};
    mt_text_add(&path, "%s/cudnn-%" PRId64 "-%016" PRIX64 ".answers", folder, version, digest_of_text(card));
    int file = open(mt_text_get(&path), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    mt_text_release(&path);
    if (file >= 0 && !is_own(file)) {
        close(file);
        file = NO_FILE;
    }
    return file;
}

/* Plans come from cuDNN, and a damaged file may have any: counts are within their arrays. */
static bool is_valid(const struct record *record)
{
    const struct mt_cudnn_plans *plans = &record->plans;
    return record->checksum == checksum_of(record) && plans->count >= 0 && plans->count <= MT_CONVOLUTION_MOST_PLANS &&
           plans->first_rejected_count >= 0 && plans->rejected_count >= plans->first_rejected_count &&
           plans->rejected_count <= MT_CUDNN_MOST_REJECTED;
}

static void read_file(struct mt_cudnn_answers *answers)
{
    struct record record;
    for (off_t at = 0; at < MT_CUDNN_MOST_FILE_BYTES; at += (off_t)sizeof record) {
        if (pread(answers->file, &record, sizeof record, at) != (ssize_t)sizeof record)
            return;
        if (is_valid(&record) && find(answers, &record.question) == NULL)
            keep(answers, &record);
    }
}

/* Adds a record after the last whole one, where a killed process may have left a part of another. */
static void write_record(int file, const struct record *record)
{
    struct stat status;
    if (flock(file, LOCK_EX) != 0)
        return;
    if (fstat(file, &status) == 0 && status.st_size < MT_CUDNN_MOST_FILE_BYTES) {
        const off_t whole = status.st_size - status.st_size % (off_t)sizeof *record;
        if (whole == status.st_size || ftruncate(file, whole) == 0) {
            const ssize_t written = write(file, record, sizeof *record);
            (void)written; /* a part of a record is not read */
        }
    }
    flock(file, LOCK_UN);
}

/* ---- answers ---- */

struct mt_cudnn_answers *mt_cudnn_answers_open(const char *folder, int64_t version, const char *card)
{
    struct mt_cudnn_answers *answers = mt_host_alloc(sizeof *answers);
    mt_number_map_create(&answers->places);
    answers->file = folder != NULL ? open_file(folder, version, card) : NO_FILE;
    if (answers->file >= 0)
        read_file(answers);
    return answers;
}

void mt_cudnn_answers_close(struct mt_cudnn_answers *answers)
{
    if (answers == NULL)
        return;
    if (answers->file >= 0)
        close(answers->file);
    mt_number_map_release(&answers->places);
    free(answers->records);
    free(answers);
}

const struct mt_cudnn_plans *mt_cudnn_answers_find(const struct mt_cudnn_answers *answers,
                                                   const struct mt_convolution_question *question)
{
    const struct record *found = find(answers, question);
    return found != NULL ? &found->plans : NULL;
}

void mt_cudnn_answers_add(struct mt_cudnn_answers *answers, const struct mt_convolution_question *question,
                          const struct mt_cudnn_plans *plans)
{
    struct record record = {.question = *question, .plans = *plans};
    record.checksum = checksum_of(&record);
    keep(answers, &record);
    if (answers->file >= 0)
        write_record(answers->file, &record);
}
