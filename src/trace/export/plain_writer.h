/* Writes plain data (dicts, lists, texts, whole numbers) as it comes, as JSON or as a pickle of protocol 4, so that a
 * document of any length needs little memory. A pickle of plain data has no classes: reading it executes nothing.
 *
 * What is written often may be kept: it is written out once, and then recalled by its number. A pickle refers to it, so
 * that its reader holds it once, too; JSON repeats it.
 *
 * Dict: open, then key and value by turns, close. List: open, values, close. The document is one value. */
#ifndef MT_CLI_PLAIN_WRITER_H
#define MT_CLI_PLAIN_WRITER_H

#include "answer/output_file.h"
#include "base/interner.h"

typedef enum mt_plain_form { MT_PLAIN_JSON, MT_PLAIN_PICKLE } mt_plain_form;

enum { MT_PLAIN_MOST_DEPTH = 8 };

/* A document under way. Invariants: `depth` dicts and lists are open; of each, counts[] values (in a dict, keys and
 * values) are written. */
struct mt_plain_writer {
    struct mt_output_file *file; /* borrowed */
    mt_plain_form form;
    bool is_ascii; /* JSON: what is not is escaped */
    int depth;
    uint64_t counts[MT_PLAIN_MOST_DEPTH];
    bool in_list[MT_PLAIN_MOST_DEPTH];
    struct mt_name_set *words; /* pickle: keys, too */
    uint32_t *word_memo;       /* pickle: by a word's number, where it is in the memo */
    uint32_t memo_count;       /* pickle: values in the memo */
    struct mt_plain_kept *kept;
    uint32_t kept_count;     /* entries of `kept` */
    struct mt_text *capture; /* JSON: where text goes while a value is being kept; NULL: the file */
};

void mt_plain_begin(struct mt_plain_writer *writer, struct mt_output_file *file, mt_plain_form form);

/* Ends the document and frees what the writer holds. MT_FAILED if writing is useless by now. */
mt_status mt_plain_end(struct mt_plain_writer *writer);

void mt_plain_open_dict(struct mt_plain_writer *writer);
void mt_plain_close_dict(struct mt_plain_writer *writer);
void mt_plain_open_list(struct mt_plain_writer *writer);
void mt_plain_close_list(struct mt_plain_writer *writer);

/* A key of the open dict; of few different ones. */
void mt_plain_key(struct mt_plain_writer *writer, const char *key);

/* Text of any encoding: what is not UTF-8 becomes U+FFFD. */
void mt_plain_text(struct mt_plain_writer *writer, const char *text);

/* The same of few different ones, which a pickle has once. */
void mt_plain_word(struct mt_plain_writer *writer, const char *word);
void mt_plain_number(struct mt_plain_writer *writer, uint64_t number);
void mt_plain_truth(struct mt_plain_writer *writer, bool truth);

/* Nanoseconds as microseconds with three decimals; JSON only. */
void mt_plain_microseconds(struct mt_plain_writer *writer, uint64_t nanoseconds);

/* JSON only: a line's end, for whoever looks at the file. */
void mt_plain_line(struct mt_plain_writer *writer);

/* A key and its value. */
void mt_plain_add_word(struct mt_plain_writer *writer, const char *key, const char *word);
void mt_plain_add_text(struct mt_plain_writer *writer, const char *key, const char *text);
void mt_plain_add_number(struct mt_plain_writer *writer, const char *key, uint64_t number);

/* Writes the value of that number, of which there is room for all below it, and returns true if it was kept; otherwise
 * write it next, between begin and end. For values of dicts; not nested. */
bool mt_plain_recall(struct mt_plain_writer *writer, uint32_t number);
void mt_plain_keep_begin(struct mt_plain_writer *writer, uint32_t number);
void mt_plain_keep_end(struct mt_plain_writer *writer, uint32_t number);

#endif
