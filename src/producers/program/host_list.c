/* Lists of hosts, in files and in options. */
#include "producers/program/launcher_options.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct host {
    char *name;
    int64_t slots; /* 0: not given */
};

struct host_list {
    struct host *hosts; /* an array for MT_HOST_ADD */
    size_t count;
};

/* Adds a host, or slots to an existing one. A name that occurs twice without a number has two slots. */
static void add_host(struct host_list *list, const char *name, size_t length, int64_t slots)
{
    for (size_t i = 0; i < list->count; i++) {
        struct host *host = &list->hosts[i];
        if (strncmp(host->name, name, length) != 0 || host->name[length] != '\0')
            continue;
        host->slots = (host->slots > 0 ? host->slots : 1) + (slots > 0 ? slots : 1);
        return;
    }
    struct mt_text copy = {0};
    mt_text_add(&copy, "%.*s", (int)length, name);
    *MT_HOST_ADD(list->hosts, list->count) = (struct host){.name = copy.data, .slots = slots};
}

/* Adds "NAME", "NAME:N" or "NAME slots=N". False if the number is invalid. */
static bool read_host(struct host_list *list, const char *text)
{
    int64_t slots = 0;
    const size_t length = strcspn(text, ": \t");
    const char *slots_word = strstr(text + length, "slots="), *number = slots_word != NULL ? slots_word + 6 : NULL;
    if (text[length] == ':')
        number = text + length + 1;
    if (number != NULL) {
        char digits[32];
        snprintf(digits, sizeof digits, "%.*s", (int)strcspn(number, " \t"), number);
        if (!mt_launcher_count_read(digits, &slots))
            return false;
    }
    add_host(list, text, length, slots);
    return true;
}

/* Reads hosts that are separated by the separators. '#' begins a comment, until the end of the line. */
static bool read_hosts(struct host_list *list, char *text, const char *separators)
{
    char *rest = text;
    bool is_whole = true;
    for (char *entry; (entry = strsep(&rest, separators)) != NULL;) {
        entry[strcspn(entry, "#\r")] = '\0';
        entry += strspn(entry, " \t");
        is_whole = is_whole && (*entry == '\0' || read_host(list, entry));
    }
    return is_whole;
}

/* Takes the hosts into the launch. Releases the list. */
static mt_status take_list(const struct mt_given_option *given, struct host_list *list, bool is_whole,
                           struct mt_launch *launch)
{
    is_whole = is_whole && list->count > 0;
    for (size_t i = 1; i < list->count; i++)
        is_whole = is_whole && list->hosts[i].slots == list->hosts[0].slots;
    launch->hosts = (int64_t)list->count;
    launch->slots = list->count > 0 ? list->hosts[0].slots : 0;
    for (size_t i = 0; i < list->count; i++)
        free(list->hosts[i].name);
    free(list->hosts);
    return is_whole ? MT_OK : mt_launcher_option_refuse(given, launch, "no list of hosts with equal numbers of slots");
}

mt_status mt_take_hosts(const struct mt_given_option *given, struct mt_launch *launch)
{
    struct host_list list = {0};
    char *text = mt_host_strdup(given->values[0]);
    const bool is_whole = read_hosts(&list, text, ",");
    free(text);
    return take_list(given, &list, is_whole, launch);
}

mt_status mt_take_host_file(const struct mt_given_option *given, struct mt_launch *launch)
{
    enum { MOST_BYTES = 1 << 20 };
    struct host_list list = {0};
    FILE *file = fopen(given->values[0], "re");
    if (file == NULL)
        return mt_launcher_option_refuse(given, launch, strerror(errno));
    char *text = mt_host_alloc(MOST_BYTES + 1);
    text[fread(text, 1, MOST_BYTES, file)] = '\0';
    fclose(file);
    const bool is_whole = read_hosts(&list, text, "\n");
    free(text);
    return take_list(given, &list, is_whole, launch);
}
