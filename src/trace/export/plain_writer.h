/* Writes plain data (dicts, lists, texts, integers) as a stream, as JSON or as a pickle of protocol 4, so that
 * a document of any length needs little memory. A pickle of plain data has no classes: reading it executes nothing.
 *
 * A repeated value may be kept: it is written once, and then recalled by its number. A pickle refers to it,
 * so its reader also holds it once; JSON repeats it.
 *
 * Dict: open, then key and value in turns, close. List: open, values, close. The document is one value. */
#pragma once

#include "answer/output_file.h"
#include "base/interner.h"

typedef enum mt_plain_form { MT_PLAIN_JSON, MT_PLAIN_PICKLE } mt_plain_form;

enum { MT_PLAIN_MOST_DEPTH = 8 };

/* A document under construction. Invariants: `depth` dicts and lists are open, at most MT_PLAIN_MOST_DEPTH; counts[]
 * has the number of values (in a dict, of keys) in each. */
struct mt_plain_writer {
    struct mt_output_file *file; /* borrowed */
    mt_plain_form form;
    bool is_ascii; /* JSON: other characters are escaped */
    int depth;
    uint64_t counts[MT_PLAIN_MOST_DEPTH];
    bool in_list[MT_PLAIN_MOST_DEPTH];
    struct mt_name_set *words; /* pickle: also keys */
    uint32_t *word_memo;       /* pickle: memo number, by a word's number */
    uint32_t memo_count;       /* pickle: values in the memo */
    struct mt_plain_kept *kept;
    uint32_t kept_count;     /* entries of `kept` */
    struct mt_text *capture; /* JSON: the destination while a value is being kept; NULL: the file */
};

void mt_plain_begin(struct mt_plain_writer *writer, struct mt_output_file *file, mt_plain_form form);

/* Ends the document and frees the writer's memory. Fails as mt_output_file_go_on does. */
mt_status mt_plain_end(struct mt_plain_writer *writer);

void mt_plain_open_dict(struct mt_plain_writer *writer);
void mt_plain_close_dict(struct mt_plain_writer *writer);
void mt_plain_open_list(struct mt_plain_writer *writer);
void mt_plain_close_list(struct mt_plain_writer *writer);

/* Writes a key of the open dict. There are few different keys. */
void mt_plain_key(struct mt_plain_writer *writer, const char *key);

/* Writes a text from a small set. A pickle contains each once. */
void mt_plain_word(struct mt_plain_writer *writer, const char *word);
void mt_plain_number(struct mt_plain_writer *writer, uint64_t number);
void mt_plain_truth(struct mt_plain_writer *writer, bool truth);

/* Writes nanoseconds as microseconds with three decimals. JSON only. */
void mt_plain_microseconds(struct mt_plain_writer *writer, uint64_t nanoseconds);

/* Ends the line in JSON, for people who read the file. */
void mt_plain_line(struct mt_plain_writer *writer);

/* Write a key and its value. Text may have any encoding; bytes that are not UTF-8 become U+FFFD. */
void mt_plain_add_word(struct mt_plain_writer *writer, const char *key, const char *word);
void mt_plain_add_text(struct mt_plain_writer *writer, const char *key, const char *text);
void mt_plain_add_number(struct mt_plain_writer *writer, const char *key, uint64_t number);

/* Writes the kept value with a number and returns true, if there is one. Otherwise the caller writes it next, between
 * begin and end. For values of dicts; not nested. Memory is proportional to the largest number. */
bool mt_plain_recall(struct mt_plain_writer *writer, uint32_t number);
void mt_plain_keep_begin(struct mt_plain_writer *writer, uint32_t number);
void mt_plain_keep_end(struct mt_plain_writer *writer, uint32_t number);
