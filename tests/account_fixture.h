/* For tests of the account of a program's memory: one account whose events are kept, and two threads. Each call is a
 * nanosecond after the one before. */
#pragma once

#include "producers/cuda/account.h"
#include "recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { MIB = 1 << 20, MOST_KERNELS = 16 };

static struct recording recording;
static struct mt_account *account;
static struct mt_account_thread main_thread, other_thread;
static uint64_t now_ns;

/* The kernels that the account emitted, with a copy of each name. */
static struct {
    struct mt_kernel kernels[MOST_KERNELS];
    char names[MOST_KERNELS][32];
    size_t count;
} ran;

static inline void keep_kernel(void *context, const struct mt_kernel *kernel)
{
    (void)context;
    assert_in_range(ran.count, 0, MOST_KERNELS - 1);
    snprintf(ran.names[ran.count], sizeof ran.names[0], "%s", kernel->name);
    ran.kernels[ran.count++] = *kernel;
}

static inline mt_category intern_category(void *context, const char *name)
{
    return mt_interner_category(((struct recording *)context)->interner, name);
}

static inline const char *category_name(void *context, mt_category category)
{
    return mt_interner_category_name(((struct recording *)context)->interner, category);
}

static inline char *spell_nothing(const char *name)
{
    (void)name;
    return NULL;
}

static inline struct mt_sink open_sink(void)
{
    struct mt_sink sink = recording_sink(&recording);
    sink.intern_category = intern_category;
    sink.category_name = category_name;
    sink.kernel = keep_kernel;
    return sink;
}

static inline void open_with(const struct mt_account_settings *settings)
{
    recording_open(&recording);
    const struct mt_sink sink = open_sink();
    account = mt_account_create(&sink, settings);
    ran.count = 0;
    now_ns = 0;
}

static inline void close_account(void)
{
    mt_account_forget_thread(account, &main_thread, now_ns++);
    mt_account_forget_thread(account, &other_thread, now_ns++);
    mt_account_destroy(account);
    recording_close(&recording);
}

static inline int set_up(void **state)
{
    (void)state;
    open_with(&(struct mt_account_settings){.step = "step", .device = MT_EVERY_DEVICE, .spell = spell_nothing});
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    close_account();
    return 0;
}

static inline struct mt_memory_call call_of(mt_memory_kind kind, uint64_t address, uint64_t bytes)
{
    return (struct mt_memory_call){
        .time_ns = now_ns++, .op = "cudaMalloc", .kind = kind, .address = address, .bytes = bytes, .context = 1};
}

static inline void take(uint64_t address, uint64_t bytes)
{
    const struct mt_memory_call call = call_of(MT_MEMORY_DEVICE, address, bytes);
    mt_account_take(account, &main_thread, &call);
}

static inline const struct mt_label *last_label(void)
{
    return recording_label_of(&recording, &recording.events[recording.count - 1]);
}

#define ACCOUNT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
