/* The names of every enumeration that users see: one table each, from the list that declares it. */
#include "base/event.h"

#define NAME(name, text) text,
#define TABLE_LOOKUP(value, ...)                                                                                       \
    static const char *const names[] = {__VA_ARGS__};                                                                  \
    return (size_t)(value) < sizeof names / sizeof names[0] ? names[value] : "?"

const char *mt_category_name(mt_category category)
{
    TABLE_LOOKUP(category, MT_CATEGORIES(NAME));
}

const char *mt_role_name(mt_role role)
{
    TABLE_LOOKUP(role, MT_ROLES(NAME));
}

const char *mt_phase_name(mt_phase phase)
{
    TABLE_LOOKUP(phase, MT_PHASES(NAME));
}

const char *mt_event_kind_name(mt_event_kind kind)
{
    TABLE_LOOKUP(kind, MT_EVENT_KINDS(NAME));
}

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
#define X(name, text, bytes) {text, bytes},
    MT_DTYPES(X)
#undef X
};

const char *mt_dtype_name(mt_dtype dtype)
{
    return dtype < MT_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

size_t mt_dtype_bytes(mt_dtype dtype)
{
    return dtype < MT_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}
