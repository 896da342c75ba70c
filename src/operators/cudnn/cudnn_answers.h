/* cuDNN's answers, kept in memory and in a file, so that each question is asked once for a version of cuDNN and a card.
 *
 *   FOLDER/cudnn-91900-3F2A….answers     records of one size, each with a checksum
 *
 * Processes add to the file at the same time, each record under a lock; a record that a killed process left unfinished
 * is not read. The file is only added to, up to MT_CUDNN_MOST_FILE_BYTES. One thread at a time. */
#pragma once

#include "operators/cudnn_plan.h"

enum { MT_CUDNN_MOST_FILE_BYTES = 16 << 20 };

struct mt_cudnn_answers;

/* Reads what the file has. `folder` is one that only this user can write; NULL: nothing is stored. `card` is any text
 * that describes the card. What can't be read or written is left out. The caller closes the result. */
struct mt_cudnn_answers *mt_cudnn_answers_open(const char *folder, int64_t version, const char *card);
void mt_cudnn_answers_close(struct mt_cudnn_answers *answers);

/* Returns the answer, valid until the next one is added; NULL if there is none. */
const struct mt_cudnn_plans *mt_cudnn_answers_find(const struct mt_cudnn_answers *answers,
                                                   const struct mt_convolution_question *question);

/* Adds an answer that is not there yet. */
void mt_cudnn_answers_add(struct mt_cudnn_answers *answers, const struct mt_convolution_question *question,
                          const struct mt_cudnn_plans *plans);
