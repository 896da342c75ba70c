/* The stack machine of pickle.h.
 *
 *   data    80 04 95 … 7d 94 28 8c 08 73 65 67 …   ▲ at
 *   stack   value value │ value value value         values under construction; │ a mark: elements of a list or dict follow
 *   memo    0: value, 1: value, …                   values that are used again
 *
 * A length is compared with the rest of the data before memory is allocated. Each instruction allocates at most a fixed
 * number of bytes per byte of its own, and memo numbers must be near those used before. */
#include "producers/file/pickle.h"

#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_PROTOCOL = 2, LAST_PROTOCOL = 5, FIRST_ENTRIES = 64, MEMO_SLACK = 1024 };

/* An array that doubles. */
struct value_list {
    struct mt_value *values;
    size_t count, capacity;
};

/* Invariants: data <= at <= end; the marks ascend, and none is above the stack's count. */
struct machine {
    const unsigned char *data, *at, *end;
    const unsigned char *opcode; /* of the current instruction */
    struct mt_value_store *store;
    struct value_list stack, memo;
    uint32_t *marks; /* positions in the stack */
    size_t mark_count, mark_capacity;
    bool ended;
};

/* A function that runs an instruction, and its argument: the number of bytes of its operand, or the kind of value it
 * makes. */
struct instruction {
    mt_status (*carry_out)(struct machine *machine, unsigned argument);
    unsigned argument;
};

bool mt_pickle_is_one(const unsigned char *data, size_t length)
{
    return length >= 2 && data[0] == 0x80 && data[1] >= FIRST_PROTOCOL && data[1] <= LAST_PROTOCOL;
}

static mt_status fail_empty(void)
{
    return mt_fail(MT_BAD_TRACE, "an instruction needs more values than the stack holds");
}

/* Reads an unsigned number of `bytes` bytes, lowest first. */
static mt_status read_number(struct machine *machine, size_t bytes, uint64_t *out)
{
    assert(machine->at <= machine->end && bytes <= sizeof *out);
    if (bytes > (size_t)(machine->end - machine->at))
        return mt_fail(MT_BAD_TRACE, "it ends within an instruction");
    *out = 0;
    memcpy(out, machine->at, bytes);
    machine->at += bytes;
    return MT_OK;
}

/* Reads a length of `length_bytes` bytes, and the text that follows it. */
static mt_status read_counted(struct machine *machine, size_t length_bytes, const char **out, uint32_t *out_length)
{
    uint64_t length = 0;
    MT_TRY(read_number(machine, length_bytes, &length));
    if (length > (size_t)(machine->end - machine->at))
        return mt_fail(MT_BAD_TRACE, "it says that %" PRIu64 " bytes follow, and %td do", length,
                       machine->end - machine->at);
    if (length > UINT32_MAX)
        return mt_fail(MT_BAD_TRACE, "it has a text of %" PRIu64 " bytes", length);
    *out = (const char *)machine->at;
    *out_length = (uint32_t)length;
    machine->at += length;
    return MT_OK;
}

/* Returns the items with room for one more after `count` of them. New memory counts in the store. Returns NULL with
 * MT_BAD_TRACE if the store's limit is reached. */
static void *make_room(struct mt_value_store *store, void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return items;
    size_t larger = *capacity == 0 ? FIRST_ENTRIES : *capacity * 2;
    if (mt_value_store_count(store, (larger - *capacity) * item_bytes) != MT_OK)
        return NULL;
    *capacity = larger;
    return mt_host_resize(items, larger, item_bytes);
}

static mt_status list_add(struct mt_value_store *store, struct value_list *list, struct mt_value value)
{
    void *values = make_room(store, list->values, list->count, &list->capacity, sizeof value);
    if (values == NULL)
        return MT_BAD_TRACE;
    list->values = values;
    list->values[list->count++] = value;
    return MT_OK;
}

static mt_status push(struct machine *machine, struct mt_value value)
{
    return list_add(machine->store, &machine->stack, value);
}

/* Returns the lowest position that an instruction may pop: above the newest mark. */
static size_t stack_floor(const struct machine *machine)
{
    assert(machine->mark_count == 0 || machine->marks[machine->mark_count - 1] <= machine->stack.count);
    return machine->mark_count > 0 ? machine->marks[machine->mark_count - 1] : 0;
}

static bool has_values(const struct machine *machine, size_t count)
{
    return machine->stack.count - stack_floor(machine) >= count;
}

static struct mt_value *top(struct machine *machine, size_t below)
{
    assert(below < machine->stack.count);
    return &machine->stack.values[machine->stack.count - 1 - below];
}

/* Pops the newest mark and sets *out_count to the number of values above it. */
static mt_status take_mark(struct machine *machine, uint32_t *out_count)
{
    *out_count = 0;
    if (machine->mark_count == 0)
        return mt_fail(MT_BAD_TRACE, "an instruction needs a mark, and the stack has none");
    uint32_t mark = machine->marks[--machine->mark_count];
    *out_count = (uint32_t)(machine->stack.count - mark);
    return MT_OK;
}

static mt_status do_protocol(struct machine *machine, unsigned argument)
{
    (void)argument;
    uint64_t protocol = 0;
    mt_status status = read_number(machine, 1, &protocol);
    if (status == MT_OK && (protocol < FIRST_PROTOCOL || protocol > LAST_PROTOCOL))
        return mt_fail(MT_BAD_TRACE, "it is of protocol %" PRIu64 "; %d to %d are read", protocol, FIRST_PROTOCOL,
                       LAST_PROTOCOL);
    return status;
}

/* Skips a frame's length, which says how much to read at once. Here everything is read already. */
static mt_status do_frame(struct machine *machine, unsigned argument)
{
    (void)argument;
    uint64_t length = 0;
    mt_status status = read_number(machine, 8, &length);
    if (status == MT_OK && length > (size_t)(machine->end - machine->at))
        return mt_fail(MT_BAD_TRACE, "it says that a frame of %" PRIu64 " bytes follows, and %td do", length,
                       machine->end - machine->at);
    return status;
}

static mt_status do_stop(struct machine *machine, unsigned argument)
{
    (void)argument;
    if (machine->stack.count != 1 || machine->mark_count != 0)
        return mt_fail(MT_BAD_TRACE, "it stops with %zu values on the stack, not one", machine->stack.count);
    machine->ended = true;
    return MT_OK;
}

static mt_status do_mark(struct machine *machine, unsigned argument)
{
    (void)argument;
    void *marks =
        make_room(machine->store, machine->marks, machine->mark_count, &machine->mark_capacity, sizeof *machine->marks);
    if (marks == NULL)
        return MT_BAD_TRACE;
    machine->marks = marks;
    if (machine->stack.count > UINT32_MAX)
        return mt_fail(MT_BAD_TRACE, "it has more than %" PRIu32 " values on the stack", UINT32_MAX);
    machine->marks[machine->mark_count++] = (uint32_t)machine->stack.count;
    return MT_OK;
}

static mt_status do_pop(struct machine *machine, unsigned argument)
{
    (void)argument;
    if (has_values(machine, 1)) {
        machine->stack.count--;
        return MT_OK;
    }
    uint32_t count;
    return take_mark(machine, &count); /* like Python's POP, which also pops a mark */
}

static mt_status do_pop_mark(struct machine *machine, unsigned argument)
{
    (void)argument;
    uint32_t count;
    mt_status status = take_mark(machine, &count);
    machine->stack.count -= count;
    return status;
}

static mt_status do_duplicate(struct machine *machine, unsigned argument)
{
    (void)argument;
    return has_values(machine, 1) ? push(machine, *top(machine, 0)) : fail_empty();
}

static mt_status do_none(struct machine *machine, unsigned argument)
{
    return push(machine, (struct mt_value){.kind = MT_VALUE_NONE, .integer = argument});
}

static mt_status do_bool(struct machine *machine, unsigned argument)
{
    return push(machine, (struct mt_value){.kind = MT_VALUE_BOOL, .integer = argument});
}

static mt_status push_integer(struct machine *machine, int64_t integer)
{
    return push(machine, (struct mt_value){.kind = MT_VALUE_INTEGER, .integer = integer});
}

/* Numbers of one or two bytes are unsigned; numbers of four bytes are signed. */
static mt_status do_integer(struct machine *machine, unsigned bytes)
{
    uint64_t number = 0;
    MT_TRY(read_number(machine, bytes, &number));
    return push_integer(machine, bytes == 4 ? (int32_t)number : (int64_t)number);
}

/* Returns the double nearest to a number in two's complement of more than eight bytes, lowest first. Rounds the highest
 * eight bytes; their last bit is set if any lower byte is not 0. */
static double round_long(const unsigned char *bytes, uint32_t length)
{
    assert(length > sizeof(int64_t));
    enum { MOST_BYTES = 200 }; /* beyond all doubles */
    uint32_t rest = length - (uint32_t)sizeof(int64_t);
    uint64_t highest;
    memcpy(&highest, bytes + rest, sizeof highest);
    for (uint32_t i = 0; i < rest && (highest & 1) == 0; i++)
        highest |= bytes[i] != 0;
    return ldexp((double)(int64_t)highest, 8 * (int)(rest < MOST_BYTES ? rest : MOST_BYTES));
}

static mt_status do_long(struct machine *machine, unsigned length_bytes)
{
    const char *bytes = NULL;
    uint32_t length = 0;
    MT_TRY(read_counted(machine, length_bytes, &bytes, &length));
    if (length > sizeof(int64_t))
        return push(machine,
                    (struct mt_value){.kind = MT_VALUE_REAL, .real = round_long((const unsigned char *)bytes, length)});
    uint64_t number = length > 0 && (bytes[length - 1] & 0x80) != 0 ? UINT64_MAX : 0;
    memcpy(&number, bytes, length);
    return push_integer(machine, (int64_t)number);
}

/* Reads an IEEE double, highest byte first. */
static mt_status do_real(struct machine *machine, unsigned argument)
{
    (void)argument;
    uint64_t bits = 0;
    struct mt_value value = {.kind = MT_VALUE_REAL};
    MT_TRY(read_number(machine, 8, &bits));
    bits = __builtin_bswap64(bits);
    memcpy(&value.real, &bits, sizeof value.real);
    return push(machine, value);
}

/* Pushes the text or the bytes after a length of `length_bytes`, as `store` keeps them. */
static mt_status push_counted(struct machine *machine, unsigned length_bytes,
                              mt_status (*store)(struct mt_value_store *, const char *, uint32_t, struct mt_value *))
{
    const char *data = NULL;
    uint32_t length = 0;
    struct mt_value value;
    mt_status status = read_counted(machine, length_bytes, &data, &length);
    MT_THEN(status, store(machine->store, data, length, &value));
    return status == MT_OK ? push(machine, value) : status;
}

static mt_status do_text(struct machine *machine, unsigned length_bytes)
{
    return push_counted(machine, length_bytes, mt_value_store_text);
}

static mt_status do_bytes(struct machine *machine, unsigned length_bytes)
{
    return push_counted(machine, length_bytes, mt_value_store_blob);
}

static mt_status do_empty(struct machine *machine, unsigned kind)
{
    struct mt_value value;
    mt_status status = mt_value_store_open(machine->store, (mt_value_kind)kind, &value);
    return status == MT_OK ? push(machine, value) : status;
}

/* Replaces the `count` values on top by one list or dict of them. */
static mt_status gather(struct machine *machine, mt_value_kind kind, uint32_t count)
{
    assert(count <= machine->stack.count);
    struct mt_value made;
    if (kind == MT_VALUE_DICT && count % 2 != 0)
        return mt_fail(MT_BAD_TRACE, "a dict is made of %" PRIu32 " keys and values", count);
    mt_status status = mt_value_store_open(machine->store, kind, &made);
    MT_THEN(status,
            mt_value_store_add(machine->store, &made, machine->stack.values + machine->stack.count - count, count));
    if (status != MT_OK)
        return status;
    machine->stack.count -= count;
    return push(machine, made);
}

static mt_status do_gather(struct machine *machine, unsigned kind)
{
    uint32_t count;
    mt_status status = take_mark(machine, &count);
    return status == MT_OK ? gather(machine, (mt_value_kind)kind, count) : status;
}

static mt_status do_tuple(struct machine *machine, unsigned count)
{
    return has_values(machine, count) ? gather(machine, MT_VALUE_LIST, count) : fail_empty();
}

/* Adds the `count` values on top to the list or dict below them. */
static mt_status add_to(struct machine *machine, mt_value_kind kind, uint32_t count)
{
    if (!has_values(machine, (size_t)count + 1))
        return fail_empty();
    const struct mt_value *to = top(machine, count);
    if (to->kind != (uint32_t)kind)
        return mt_fail(MT_BAD_TRACE, "it adds to a %s as if it were a %s", mt_value_kind_name((mt_value_kind)to->kind),
                       mt_value_kind_name(kind));
    if (kind == MT_VALUE_DICT && count % 2 != 0)
        return mt_fail(MT_BAD_TRACE, "it adds %" PRIu32 " keys and values to a dict", count);
    mt_status status = mt_value_store_add(machine->store, to, to + 1, count);
    machine->stack.count -= status == MT_OK ? count : 0;
    return status;
}

static mt_status do_add_marked(struct machine *machine, unsigned kind)
{
    uint32_t count;
    mt_status status = take_mark(machine, &count);
    return status == MT_OK ? add_to(machine, (mt_value_kind)kind, count) : status;
}

static mt_status do_add_one(struct machine *machine, unsigned kind)
{
    return add_to(machine, (mt_value_kind)kind, kind == MT_VALUE_DICT ? 2 : 1);
}

/* Stores the value on top in the memo under a number. Picklers count from 0 or 1, so it must be near earlier
 * numbers. */
static mt_status keep(struct machine *machine, uint64_t number)
{
    struct value_list *memo = &machine->memo;
    mt_status status = has_values(machine, 1) ? MT_OK : fail_empty();
    if (status == MT_OK && number >= 2 * (uint64_t)memo->count + MEMO_SLACK)
        status = mt_fail(MT_BAD_TRACE, "it keeps a value as number %" PRIu64 ", where the highest so far is below %zu",
                         number, memo->count);
    while (status == MT_OK && memo->count <= number)
        status = list_add(machine->store, memo, (struct mt_value){.kind = UINT32_MAX});
    if (status == MT_OK)
        memo->values[number] = *top(machine, 0);
    return status;
}

/* If the instruction has no number, uses the next one. */
static mt_status do_put(struct machine *machine, unsigned number_bytes)
{
    uint64_t number = machine->memo.count;
    mt_status status = number_bytes > 0 ? read_number(machine, number_bytes, &number) : MT_OK;
    return status == MT_OK ? keep(machine, number) : status;
}

static mt_status do_get(struct machine *machine, unsigned number_bytes)
{
    uint64_t number = 0;
    MT_TRY(read_number(machine, number_bytes, &number));
    if (number >= machine->memo.count || machine->memo.values[number].kind == UINT32_MAX)
        return mt_fail(MT_BAD_TRACE, "it uses value number %" PRIu64 ", which it did not store", number);
    return push(machine, machine->memo.values[number]);
}

static const struct instruction instructions[256] = {
    [0x80] = {do_protocol, 0},
    [0x95] = {do_frame, 0},
    ['.'] = {do_stop, 0},
    ['('] = {do_mark, 0},
    ['0'] = {do_pop, 0},
    ['1'] = {do_pop_mark, 0},
    ['2'] = {do_duplicate, 0},
    ['N'] = {do_none, 0},
    [0x88] = {do_bool, 1},
    [0x89] = {do_bool, 0},
    ['K'] = {do_integer, 1},
    ['M'] = {do_integer, 2},
    ['J'] = {do_integer, 4},
    [0x8A] = {do_long, 1},
    [0x8B] = {do_long, 4},
    ['G'] = {do_real, 0},
    ['U'] = {do_text, 1}, /* texts of Python 2 */
    ['T'] = {do_text, 4},
    [0x8C] = {do_text, 1},
    ['X'] = {do_text, 4},
    [0x8D] = {do_text, 8},
    ['C'] = {do_bytes, 1},
    ['B'] = {do_bytes, 4},
    [0x8E] = {do_bytes, 8},
    [0x96] = {do_bytes, 8},
    [']'] = {do_empty, MT_VALUE_LIST},
    [')'] = {do_empty, MT_VALUE_LIST},
    ['}'] = {do_empty, MT_VALUE_DICT},
    ['l'] = {do_gather, MT_VALUE_LIST},
    ['t'] = {do_gather, MT_VALUE_LIST},
    ['d'] = {do_gather, MT_VALUE_DICT},
    [0x85] = {do_tuple, 1},
    [0x86] = {do_tuple, 2},
    [0x87] = {do_tuple, 3},
    ['a'] = {do_add_one, MT_VALUE_LIST},
    ['s'] = {do_add_one, MT_VALUE_DICT},
    ['e'] = {do_add_marked, MT_VALUE_LIST},
    ['u'] = {do_add_marked, MT_VALUE_DICT},
    [0x94] = {do_put, 0},
    ['q'] = {do_put, 1},
    ['r'] = {do_put, 4},
    ['h'] = {do_get, 1},
    ['j'] = {do_get, 4},
};

/* Valid instructions that this reader refuses: their opcodes, and their names in the same order. */
static const struct refusal {
    const char *because, *opcodes, *names;
} refusals[] = {
    {"could run any code", "c\x93Rbio\x81\x92\x82\x83\x84",
     "GLOBAL STACK_GLOBAL REDUCE BUILD INST OBJ NEWOBJ NEWOBJ_EX EXT1 EXT2 EXT4"},
    {"refers to data outside of the file", "PQ\x97\x98", "PERSID BINPERSID NEXT_BUFFER READONLY_BUFFER"},
    {"builds objects other than plain data", "\x8F\x90\x91", "EMPTY_SET ADDITEMS FROZENSET"},
    {"is of protocol 0 or 1; 2 to 5 are read", "ILFSVpg", "INT LONG FLOAT STRING UNICODE PUT GET"},
};

static mt_status refuse(unsigned char opcode)
{
    assert(instructions[opcode].carry_out == NULL);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0] && opcode != 0; i++) {
        const char *found = strchr(refusals[i].opcodes, (char)opcode), *name = refusals[i].names;
        for (const char *at = refusals[i].opcodes; found != NULL && at < found; at++)
            name = strchr(name, ' ') + 1;
        if (found != NULL)
            return mt_fail(MT_BAD_TRACE, "the instruction %.*s %s", (int)strcspn(name, " "), name, refusals[i].because);
    }
    return mt_fail(MT_BAD_TRACE, "there is no instruction 0x%02x", opcode);
}

static mt_status run(struct machine *machine)
{
    mt_status status = MT_OK;
    while (status == MT_OK && !machine->ended) {
        machine->opcode = machine->at;
        if (machine->at == machine->end)
            return mt_fail(MT_BAD_TRACE, "it ends before its last instruction");
        const struct instruction *found = &instructions[*machine->at++];
        status = found->carry_out != NULL ? found->carry_out(machine, found->argument) : refuse(*machine->opcode);
    }
    return status;
}

mt_status mt_pickle_read(const unsigned char *data, size_t length, struct mt_value_store *store, struct mt_value *out)
{
    struct machine machine = {.data = data, .at = data, .end = data + length, .opcode = data, .store = store};
    *out = (struct mt_value){0};
    machine.stack.capacity = FIRST_ENTRIES;
    machine.stack.values = mt_host_alloc(FIRST_ENTRIES * sizeof *machine.stack.values);
    mt_status status = run(&machine);
    if (status == MT_OK)
        *out = machine.stack.values[0];
    else
        mt_fail_context(status, "byte %td of the pickle", machine.opcode - data);
    free(machine.stack.values);
    free(machine.memo.values);
    free(machine.marks);
    return status;
}
