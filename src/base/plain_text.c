#include "base/plain_text.h"

#include <assert.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* The locale of C, made once and never freed. */
static locale_t plain;

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* all of it: glibc has it ready, and takes no memory */
}

static locale_t plain_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain);
    assert(plain != (locale_t)0);
    return plain;
}

double mt_read_real(const char *text, char **out_end)
{
    return strtod_l(text, out_end, plain_locale());
}

int mt_print_list(char *text, size_t bytes, const char *format, va_list arguments)
{
    const locale_t before = uselocale(plain_locale());
    const int length = vsnprintf(text, bytes, format, arguments);
    uselocale(before);
    return length;
}

int mt_print(char *text, size_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = mt_print_list(text, bytes, format, arguments);
    va_end(arguments);
    return length;
}

void mt_write_real(char *text, size_t bytes, int digits, double value)
{
    mt_print(text, bytes, "%.*g", digits, value);
}
