/* The environment of a program that is started: a copy of this process's, which can be changed without changing this
 * process's own. So a library can start programs in a process with threads. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Owns its entries. Invariant: entries[count] is NULL. */
struct mt_environment {
    char **entries; /* "NAME=VALUE", as execve takes them */
    size_t count;
};

/* Copies the environment of this process. The caller releases *out. */
void mt_environment_copy(struct mt_environment *out);

/* Copies another one. The caller releases *out. */
void mt_environment_copy_of(const struct mt_environment *environment, struct mt_environment *out);
void mt_environment_release(struct mt_environment *environment);

/* Sets a variable. Copies the texts. NULL removes the variable. */
void mt_environment_set(struct mt_environment *environment, const char *name, const char *value);
void mt_environment_set_number(struct mt_environment *environment, const char *name, int64_t value);

/* Returns the value of a variable, valid until it is set again; NULL if there is none. */
const char *mt_environment_get(const struct mt_environment *environment, const char *name);
