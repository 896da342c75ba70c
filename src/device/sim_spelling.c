/* The spellings of simulated devices: "a100-80gb", "24GiB", "a100-80gb:24GiB", "my.json:24GiB", "l4:free=20GiB". */
#include "device/backend.h"
#include "device/device.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file name extension of a card. */
#define CARD_FILE ".json"

/* Precedes the memory that other processes leave free, at the end of a spelling. */
#define FREE "free="

enum { LONGEST_ARGUMENT = 4096 };

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

mt_status mt_sim_open(const char *argument, struct mt_device **out)
{
    struct mt_card card;
    if (argument == NULL)
        argument = MT_REFERENCE_CARD;
    MT_TRY(parse(argument, &card));
    if (strlen("sim:") + strlen(argument) >= MT_DEVICE_NAME)
        return mt_fail(MT_USAGE, "sim:%s: the spelling of a device has %d characters at most", argument,
                       MT_DEVICE_NAME - 1);
    *out = mt_sim_create(&card);
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
