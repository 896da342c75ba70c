/* Redirects calls of one library into another: here of this program into the C library, by tables of functions that the
 * dynamic linker makes read-only once it has filled them in. */
#include "base/status.h"
#include "producers/torch/torch_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

typedef pid_t call(void);

/* Read-only once they are relocated. */
static call *const first[] = {getppid}, *const second[] = {getpgrp};

static bool refuses_protection;

/* Stands before the C library's. */
int mprotect(void *begin, size_t bytes, int protection)
{
    errno = EACCES;
    return refuses_protection ? -1 : (int)syscall(SYS_mprotect, begin, bytes, protection);
}

/* Returns the function that a table has now, which the compiler can't know. */
static call *entry_of(call *const *table)
{
    __asm__("" : "+r"(table) : : "memory");
    return *table;
}

static pid_t replacement(void)
{
    return -7;
}

/* Writes the protection of the mapping that has the address, as the kernel tells it: "r--p". */
static void find_protection(const void *address, char out[5])
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    out[0] = '\0';
    while (fgets(line, sizeof line, maps) != NULL) {
        uintptr_t begin, end;
        char protection[5];
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, protection) == 3 &&
            begin <= (uintptr_t)address && (uintptr_t)address < end)
            strcpy(out, protection);
    }
    fclose(maps);
}

static void an_entry_is_replaced_and_its_page_is_read_only_again(void **state)
{
    (void)state;
    char before[5], after[5];
    void *original;
    find_protection(first, before);
    assert_string_equal(before, "r--p");
    assert_int_equal(mt_torch_call_replace("", "libc.so.6", "getppid", (void *)replacement, &original), MT_OK);
    assert_ptr_equal(entry_of(first), replacement);
    assert_int_equal(entry_of(first)(), -7);
    assert_ptr_not_equal(original, replacement);
    find_protection(first, after);
    assert_string_equal(after, before);
}

static void an_entry_that_can_not_be_written_is_not_counted(void **state)
{
    (void)state;
    void *original;
    refuses_protection = true;
    const mt_status status = mt_torch_call_replace("", "libc.so.6", "getpgrp", (void *)replacement, &original);
    refuses_protection = false;
    assert_int_equal(status, MT_NO_DEVICE);
    assert_non_null(strstr(mt_last_error(), "can't be redirected"));
    assert_ptr_not_equal(entry_of(second), replacement);
    assert_null(original);
}

static void a_call_that_is_not_there_is_refused(void **state)
{
    (void)state;
    void *original;
    assert_int_equal(mt_torch_call_replace("", "libc.so.6", "sched_rr_get_interval", (void *)replacement, &original),
                     MT_NO_DEVICE);
    assert_int_equal(mt_torch_call_replace("", "libnone.so", "getppid", (void *)replacement, &original), MT_NO_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_replaced_and_its_page_is_read_only_again),
        cmocka_unit_test(an_entry_that_can_not_be_written_is_not_counted),
        cmocka_unit_test(a_call_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
