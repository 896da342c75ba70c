/* Answers to questions about convolutions by cuDNN itself, as rules of operators ask (operators/convolution.h): from
 * the answers that are kept, or from a helper process, which starts with the first question. What goes wrong there ends
 * no program: from then on there are no answers, and the reason is kept. Threads: any. */
#pragma once

#include "operators/convolution.h"

struct mt_cudnn_source;

/* Copies the paths: of the helper program, of libcudnn.so.9, and of the folder in which answers are kept (NULL: none).
 * The caller closes the result. */
struct mt_cudnn_source *mt_cudnn_source_open(const char *program, const char *library, const char *folder);
void mt_cudnn_source_close(struct mt_cudnn_source *source);

/* As `ask` of struct mt_convolution_source. All questions are about one card. */
bool mt_cudnn_source_ask(struct mt_cudnn_source *source, const struct mt_card *card,
                         const struct mt_convolution_question *question, struct mt_convolution_answer *out);

/* Returns why there are no answers, "" while there are. Valid while the source is open. */
const char *mt_cudnn_source_error(const struct mt_cudnn_source *source);

/* Returns the version of cuDNN; 0 before the first answer. */
int64_t mt_cudnn_source_version(const struct mt_cudnn_source *source);
