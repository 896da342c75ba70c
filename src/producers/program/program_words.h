/* The words of a program that a user names. A Python script without an interpreter runs under the user's.
 *
 *   train.py --lr 1 ──▶ /home/me/venv/bin/python train.py --lr 1
 *
 * Threads: the main one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Invariant: words[0] is interpreter unless that is NULL. */
struct mt_program_words {
    char *const *words; /* to start, ending with NULL */
    char **made;        /* owned; NULL: the words are the user's */
    char *interpreter;  /* owned; NULL: the first word is not a script */
    const char *source; /* how the interpreter was found: ".venv"; NULL: there is none, or the user named it */
};

/* True if the word is a Python script: a file whose name ends in .py or whose first line names Python, unless a shell
 * could start it, since it is executable and given by its path. */
bool mt_program_is_script(const char *word);

/* True if the word is a path or the name of a Python script, whether or not there is such a file. */
bool mt_program_names_file(const char *word);

/* Finds the words that start the user's program. `python` is the interpreter that the user named, which is put in
 * front. If it is NULL, a first word that is a Python script gets an interpreter in front: python of $VIRTUAL_ENV, else
 * .venv/bin/python of the current folder, else python3 of $PATH. Borrows `given`, which must outlive *out. The caller
 * releases *out. */
void mt_program_words_find(char *const *given, const char *python, struct mt_program_words *out);
void mt_program_words_release(struct mt_program_words *words);

/* Returns the path of an executable file in a folder, whose path has `length` bytes; NULL if there is none. The caller
 * frees it. */
char *mt_program_find_in(const char *folder, size_t length, const char *name);

/* Returns the path of a program, found as a shell finds it; NULL if there is none. The caller frees it. */
char *mt_program_find(const char *name);
