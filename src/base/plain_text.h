/* Numbers with a decimal point, whatever the locale of the program around us says. From any thread. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

/* As snprintf and vsnprintf. */
int mt_print(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int mt_print_list(char *text, size_t bytes, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* As strtod. */
double mt_read_real(const char *text, char **out_end);

/* Writes a number with so many significant digits. */
void mt_write_real(char *text, size_t bytes, int digits, double value);
