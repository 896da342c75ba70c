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

const char *mt_role_source_name(mt_role_source source)
{
    TABLE_LOOKUP(source, MT_ROLE_SOURCES(NAME));
}

/* The names that formats 1 to 3 of the trace had for roles. */
static const struct {
    const char *name;
    mt_role role;
} earlier_roles[] = {
    {"param", MT_ROLE_PARAMETER},  {"grad", MT_ROLE_GRADIENT}, {"opt state", MT_ROLE_OPTIMIZER_STATE},
    {"saved", MT_ROLE_ACTIVATION}, {"data", MT_ROLE_INPUT},
};

/* True if the texts are equal, where "_" and "-" of the first count as spaces and hyphens. */
static bool is_named(const char *text, const char *name)
{
    for (; *text != '\0' && *name != '\0'; text++, name++)
        if (*text != *name && !((*name == ' ' || *name == '-') && (*text == '_' || *text == '-')))
            return false;
    return *text == *name;
}

bool mt_role_find(const char *name, mt_role *out)
{
    for (int i = 0; i < MT_ROLE_COUNT; i++)
        if (is_named(name, mt_role_name((mt_role)i))) {
            *out = (mt_role)i;
            return true;
        }
    for (size_t i = 0; i < sizeof earlier_roles / sizeof earlier_roles[0]; i++)
        if (is_named(name, earlier_roles[i].name)) {
            *out = earlier_roles[i].role;
            return true;
        }
    return false;
}

const char *mt_phase_name(mt_phase phase)
{
    TABLE_LOOKUP(phase, MT_PHASES(NAME));
}

const char *mt_event_kind_name(mt_event_kind kind)
{
    TABLE_LOOKUP(kind, MT_EVENT_KINDS(NAME));
}

const char *mt_outside_kind_name(mt_outside_kind kind)
{
    TABLE_LOOKUP(kind, MT_OUTSIDE_KINDS(NAME));
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
