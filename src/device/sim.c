/* The simulated device: an address range with a capacity and no memory.
 *
 * Every address is used only once, so two reservations never overlap and a stale address is never a live one. Only
 * mt_device_spend advances the clock: equal work takes equal times on every machine. */
#include "device/backend.h"
#include "device/device.h"
#include "device/sim_watch.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The attained fractions of a card's peak rates. Matrix products: 0.67 (0.63 to 0.72), in PyTorch's step with 2.7
 * billion parameters on an H200 in fp32 and bf16 (tests/data/kernels_h200.json). Bandwidth: 0.9, of a large copy
 * there. */
static const double ATTAINED_MATRIX_RATE = 0.67, ATTAINED_BANDWIDTH = 0.9;

/* The file name extension of a card. */
#define CARD_FILE ".json"

/* Precedes the memory that other processes leave free, at the end of a spelling. */
#define FREE "free="

enum { LONGEST_ARGUMENT = 4096 };

/* The first address, and the unit of addresses: the pages that a driver maps. */
static const mt_addr FIRST_ADDRESS = (mt_addr)1 << 40;
static const uint64_t ADDRESS_UNIT = (uint64_t)2 << 20;

#define MIB ((uint64_t)1 << 20)

/* Invariants: next_address is a multiple of ADDRESS_UNIT above all used addresses; host_ns <= clock_ns, and neither
 * decreases. */
struct sim {
    struct mt_device device;
    mt_addr next_address;
    uint64_t host_ns;  /* when the program has launched the queued work */
    uint64_t clock_ns; /* when the queued work is done */
};

static mt_status sim_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    struct sim *sim = (struct sim *)device;
    mt_addr address = __atomic_load_n(&sim->next_address, __ATOMIC_RELAXED);
    mt_addr next;
    do {
        uint64_t span;
        if (!mt_checked_round_up(bytes, ADDRESS_UNIT, &span) || !mt_checked_add(address, span, &next))
            return mt_fail(MT_OUT_OF_MEMORY, "%s: no address is left for %" PRIu64 " bytes", device->name, bytes);
    } while (
        !__atomic_compare_exchange_n(&sim->next_address, &address, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    assert(address % ADDRESS_UNIT == 0 && next > address && next - address >= bytes);
    *out_address = address;
    return MT_OK;
}

static void sim_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
}

/* Does nothing: a range and its memory are only addresses. */
static mt_status sim_range_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
    return MT_OK;
}

static uint64_t sim_now_ns(const struct mt_device *device)
{
    return __atomic_load_n(&((const struct sim *)device)->clock_ns, __ATOMIC_RELAXED);
}

/* Returns the operations per second for `work`. Products of fp32 use the tf32 units, which round their operands, only
 * if requested. fp64, used only in tests, counts as fp32. */
static double peak_rate(const struct mt_card *card, const struct mt_work *work)
{
    double matrix_rate = 0;
    if (work->matrix_product && work->dtype == MT_BF16)
        matrix_rate = card->bf16_matrix_rate;
    if (work->matrix_product && mt_is_fp8(work->dtype))
        matrix_rate = card->fp8_matrix_rate;
    if (work->matrix_product && work->dtype == MT_F16)
        matrix_rate = card->fp16_matrix_rate;
    if (work->matrix_product && work->dtype == MT_F32 && work->rounds_to_tf32)
        matrix_rate = card->tf32_matrix_rate;
    return matrix_rate > 0 ? matrix_rate : card->fp32_rate;
}

/* The roofline model: an op takes as long as its operations or its bytes, whichever is longer. Williams, Waterman,
 * Patterson, "Roofline: an insightful visual performance model", CACM 2009. A kernel takes at least the time of a
 * launch. */
static uint64_t device_ns(const struct mt_card *card, const struct mt_work *work)
{
    assert(peak_rate(card, work) > 0 && card->fp32_rate > 0 && card->bytes_per_second > 0);
    double rate = peak_rate(card, work) * (work->matrix_product ? ATTAINED_MATRIX_RATE : 1);
    double computing = work->operations / rate + work->besides / card->fp32_rate;
    double moving = (double)work->bytes / (card->bytes_per_second * ATTAINED_BANDWIDTH);
    assert(computing >= 0 && moving >= 0);
    uint64_t ns = (uint64_t)((computing > moving ? computing : moving) * 1e9 + 0.5);
    uint64_t least_ns = (uint64_t)card->launch_ns * (uint64_t)(work->launches > 0 ? work->launches : 1);
    return ns > least_ns ? ns : least_ns;
}

/* A queue: work begins when the host has launched it and the previous work is done. */
static void sim_spend(struct mt_device *device, const struct mt_work *work)
{
    struct sim *sim = (struct sim *)device;
    sim->host_ns += work->host_ns;
    uint64_t idle_ns = __atomic_load_n(&sim->clock_ns, __ATOMIC_RELAXED);
    uint64_t begin_ns = sim->host_ns > idle_ns ? sim->host_ns : idle_ns;
    uint64_t end_ns = begin_ns + device_ns(&device->card, work);
    __atomic_store_n(&sim->clock_ns, end_ns, __ATOMIC_RELAXED);
    assert(sim->host_ns <= sim->clock_ns);
    if (device->watch != NULL)
        mt_sim_watch_add(device->watch, work->op, begin_ns, end_ns);
}

static mt_status sim_synchronize(struct mt_device *device)
{
    struct sim *sim = (struct sim *)device;
    sim->host_ns = sim->clock_ns;
    return MT_OK;
}

/* Without real kernels, each op counts as one, with its estimated time. */
static mt_status sim_watch_kernels(struct mt_device *device, struct mt_kernel_watch **out)
{
    (void)device;
    *out = mt_sim_watch_create();
    return MT_OK;
}

void mt_device_use_host_clock(struct mt_device *device)
{
    if (device->table->now_ns == sim_now_ns)
        device->host_clock_ns = mt_clock_ns();
}

static void sim_close(struct mt_device *device)
{
    free(device);
}

static const struct mt_device_table sim_table = {
    .kind = "sim",
    .reserve = sim_reserve,
    .release = sim_release,
    .range_open = sim_reserve,
    .range_close = sim_release,
    .range_map = sim_range_map,
    .range_unmap = sim_release,
    .synchronize = sim_synchronize,
    .watch_kernels = sim_watch_kernels,
    .now_ns = sim_now_ns,
    .spend = sim_spend,
    .close = sim_close,
};

/* Splits "a100-80gb", "24GiB", "a100-80gb:24GiB" or "my.json:24GiB" into a card's name, which may be empty, and a size,
 * or NULL. */
static const char *split(const char *argument, char *name, size_t name_bytes)
{
    const char *colon = strrchr(argument, ':');
    if (isdigit((unsigned char)argument[0]) && strstr(argument, CARD_FILE) == NULL) {
        name[0] = '\0';
        return argument;
    }
    snprintf(name, name_bytes, "%.*s", colon != NULL ? (int)(colon - argument) : (int)strlen(argument), argument);
    return colon != NULL ? colon + 1 : NULL;
}

static bool is_file(const char *name)
{
    size_t length = strlen(name);
    return length > strlen(CARD_FILE) && strcmp(name + length - strlen(CARD_FILE), CARD_FILE) == 0;
}

static mt_status find_card(const char *name, struct mt_card *out)
{
    if (is_file(name))
        return mt_card_read(name, out);
    return mt_card_find(name, out) ? MT_OK : mt_card_fail_unknown(name);
}

/* Removes "free=20GiB" from the end of a spelling. Returns "20GiB", or NULL if the spelling has no such end. */
static char *cut_free(char *argument)
{
    char *colon = strrchr(argument, ':'), *last = colon != NULL ? colon + 1 : argument;
    if (strncmp(last, FREE, strlen(FREE)) != 0)
        return NULL;
    *(colon != NULL ? colon : last) = '\0';
    return last + strlen(FREE);
}

/* Counts memory that is not free as other processes'. Fails with MT_USAGE if the card has less, or its context leaves
 * nothing. */
static mt_status share_card(const char *size, struct mt_card *card)
{
    uint64_t bytes;
    char asked[MT_BYTES_TEXT], limit[MT_BYTES_TEXT];
    MT_TRY(mt_capacity_parse(size, &bytes));
    (void)mt_format_bytes(bytes, asked);
    if (bytes > card->memory_bytes)
        return mt_fail(MT_USAGE, "%s can't be free: sim:%s has %s", asked, card->name,
                       mt_format_bytes(card->memory_bytes, limit));
    if (bytes <= card->context_bytes)
        return mt_fail(MT_USAGE, "%s free leaves nothing: CUDA's context uses %s of sim:%s", asked,
                       mt_format_bytes(card->context_bytes, limit), card->name);
    card->others_bytes = card->memory_bytes - bytes;
    return MT_OK;
}

/* Finds the card and the capacity in a spelling without "free=". */
static mt_status parse_card(const char *argument, struct mt_card *out)
{
    char name[LONGEST_ARGUMENT];
    const char *size = split(argument, name, sizeof name);
    const bool is_size_alone = size == argument;
    MT_TRY(find_card(is_size_alone ? MT_REFERENCE_CARD : name, out));
    mt_status status = MT_OK;
    if (size != NULL) {
        out->context_bytes = 0; /* all memory is available to the run */
        status = mt_capacity_parse(size, &out->memory_bytes);
    }
    if (status == MT_OK || !is_size_alone)
        return status;
    return mt_fail(status, "%s; or name a card, such as %s", mt_last_error(), MT_REFERENCE_CARD);
}

/* Finds the card, the capacity, and its free part. */
static mt_status parse(const char *argument, struct mt_card *out)
{
    char spelling[LONGEST_ARGUMENT];
    snprintf(spelling, sizeof spelling, "%s", argument);
    const char *size = cut_free(spelling);
    MT_TRY(parse_card(spelling[0] != '\0' || size == NULL ? spelling : MT_REFERENCE_CARD, out));
    return size != NULL ? share_card(size, out) : MT_OK;
}

_Static_assert(MT_CARD_NAME + sizeof "sim::18446744073709551615MiB" <= MT_DEVICE_NAME,
               "any card and size can be spelled");

static struct mt_device *create(const struct mt_card *card)
{
    struct sim *sim = mt_host_alloc(sizeof *sim);
    sim->device = (struct mt_device){
        .table = &sim_table,
        .capacity_bytes = mt_card_usable_bytes(card),
        .card = *card,
    };
    sim->next_address = FIRST_ADDRESS;
    return &sim->device;
}

mt_status mt_sim_open(const char *argument, struct mt_device **out)
{
    struct mt_card card;
    if (argument == NULL)
        argument = MT_REFERENCE_CARD;
    MT_TRY(parse(argument, &card));
    if (strlen("sim:") + strlen(argument) >= MT_DEVICE_NAME)
        return mt_fail(MT_USAGE, "sim:%s: the spelling of a device has %d characters at most", argument,
                       MT_DEVICE_NAME - 1);
    *out = create(&card);
    snprintf((*out)->name, sizeof(*out)->name, "sim:%s", argument);
    return MT_OK;
}

mt_status mt_sim_card(const char *argument, struct mt_card *out)
{
    return parse(argument != NULL ? argument : MT_REFERENCE_CARD, out);
}

bool mt_sim_find_listed(const char *argument, struct mt_card *out)
{
    char name[LONGEST_ARGUMENT] = "", spelling[LONGEST_ARGUMENT] = "";
    if (argument != NULL)
        snprintf(spelling, sizeof spelling, "%s", argument);
    (void)cut_free(spelling);
    if (spelling[0] != '\0')
        (void)split(spelling, name, sizeof name);
    return !is_file(name) && mt_sim_card(argument, out) == MT_OK;
}

char *mt_device_spell_simulated(const struct mt_card *card, uint64_t capacity_bytes, char *text)
{
    const bool is_reference = card == NULL || strcmp(card->name, MT_REFERENCE_CARD) == 0;
    const bool is_whole = capacity_bytes > 0 && capacity_bytes % MIB == 0;
    int length =
        snprintf(text, MT_DEVICE_NAME, "sim:%s%s%" PRIu64 "%s", is_reference ? "" : card->name, is_reference ? "" : ":",
                 is_whole ? capacity_bytes / MIB : capacity_bytes, is_whole ? "MiB" : "");
    assert(length > 0 && length < MT_DEVICE_NAME);
    (void)length;
    return text;
}

mt_status mt_device_open_simulated(const struct mt_card *card, uint64_t capacity_bytes, struct mt_device **out)
{
    struct mt_card reference = mt_card_reference();
    *out = create(card != NULL ? card : &reference);
    struct mt_device *device = *out;
    device->capacity_bytes = device->card.memory_bytes = capacity_bytes;
    device->card.context_bytes = device->card.others_bytes = 0;
    mt_device_spell_simulated(card, capacity_bytes, device->name);
    return MT_OK;
}
