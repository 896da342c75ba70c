/* Output of commands on a terminal of some width. */
#pragma once

#include "program.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the output of the command on a terminal of so many columns, for free(). Never inlined: gcc would take the
 * buffer of the memory stream for gone. */
static __attribute__((noinline, unused)) char *on_terminal(unsigned short columns, const char *command)
{
    const struct winsize size = {.ws_row = 50, .ws_col = columns};
    char *said = NULL, byte;
    size_t bytes;
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(side >= 0 && ioctl(side, TIOCSWINSZ, &size) == 0);
    pid_t child = fork();
    if (child == 0) {
        unsetenv("COLUMNS");
        dup2(side, STDOUT_FILENO);
        close(terminal);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    close(side);
    FILE *copy = open_memstream(&said, &bytes);
    while (read(terminal, &byte, 1) == 1) /* fails once nobody has the other side open */
        if (byte != '\r')
            putc(byte, copy);
    fclose(copy);
    close(terminal);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return said;
}

/* In characters. */
static inline size_t longest_line(const char *text)
{
    size_t longest = 0, width = 0;
    for (; *text != '\0'; text++) {
        width = *text == '\n' ? 0 : width + (((unsigned char)*text & 0xC0) != 0x80);
        longest = width > longest ? width : longest;
    }
    return longest;
}
