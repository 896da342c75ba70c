#include "producers/torch/torch_frames.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Offsets of fields in bytes. */
struct layout {
    uint64_t thread_holder; /* in a thread's state: the struct that holds the current frame; 0: the state itself does */
    uint64_t holder_frame;
    uint64_t frame_previous, frame_code, frame_instruction, frame_owner; /* frame_owner 0: there is none */
    uint64_t index_bytes; /* the frame has an index into units of this size; 0: it has the instruction's address */
    uint64_t code_file, code_function, code_line, code_begin;
    uint64_t text_bytes; /* of the header of an ASCII string; its characters follow */
};

/* Frames with this owner, or a higher one, stand for C code that calls Python. */
enum { OWNED_BY_C = 3 };

/* A string, in every version: its length in characters, and bits for its kind. A string that is not ASCII has
 * MORE_BYTES more before its characters, which have 1, 2 or 4 bytes each. */
enum { TEXT_LENGTH = 16, TEXT_STATE = 32, KIND_SHIFT = 2, KIND_BITS = 7, IS_COMPACT = 1 << 5, IS_ASCII = 1 << 6 };

static const struct layout layouts[] = {
    [9] = {.holder_frame = 24,
           .frame_previous = 24,
           .frame_code = 32,
           .frame_instruction = 104,
           .index_bytes = 1,
           .code_file = 104,
           .code_function = 112,
           .code_line = 40,
           .text_bytes = 48},
    [10] = {.holder_frame = 24,
            .frame_previous = 24,
            .frame_code = 32,
            .frame_instruction = 96,
            .index_bytes = 2,
            .code_file = 104,
            .code_function = 112,
            .code_line = 40,
            .text_bytes = 48},
    [11] = {.thread_holder = 56,
            .holder_frame = 8,
            .frame_previous = 48,
            .frame_code = 32,
            .frame_instruction = 56,
            .frame_owner = 69,
            .code_file = 112,
            .code_function = 128,
            .code_line = 72,
            .code_begin = 184,
            .text_bytes = 48},
    [12] = {.thread_holder = 56,
            .holder_frame = 0,
            .frame_previous = 8,
            .frame_code = 0,
            .frame_instruction = 56,
            .frame_owner = 70,
            .code_file = 112,
            .code_function = 128,
            .code_line = 68,
            .code_begin = 192,
            .text_bytes = 40},
};

/* The places of groups of offsets in _Py_DebugOffsets, in words. */
struct groups {
    int minor;
    uint32_t thread, frame, code;
};
static const struct groups known_groups[] = {{13, 19, 28, 34}, {14, 22, 31, 39}};
enum { VERSION_WORD = 1, MINOR_SHIFT = 16, BYTE = 0xff };

/* Python's functions, and where its fields are. Set before the first walk. */
static struct python {
    void *(*thread_state)(void); /* of the calling thread; needs no lock */
    int (*line_at)(void *code, int instruction);
    struct layout layout;
} python;

static const char *pointer_at(const char *object, uint64_t offset)
{
    const char *pointer;
    memcpy(&pointer, object + offset, sizeof pointer);
    return pointer;
}

static uint32_t number_at(const char *object, uint64_t offset)
{
    uint32_t number;
    memcpy(&number, object + offset, sizeof number);
    return number;
}

/* ---- finding ---- */

/* Reads the offsets that Python exports. Those that are the same in every version confirm the positions of the
 * groups. */
static bool read_offsets(const uint64_t *words, const struct groups *groups, struct layout *out)
{
    const uint64_t *thread = words + groups->thread, *frame = words + groups->frame, *code = words + groups->code;
    if (memcmp(words, "xdebugpy", sizeof *words) != 0 ||
        (words[VERSION_WORD] >> MINOR_SHIFT & BYTE) != (uint64_t)groups->minor || thread[1] != 0 || thread[2] != 8 ||
        thread[3] != 16 || frame[1] != 8 || frame[2] != 0 || code[2] != code[1] + 8 || code[3] != code[1] + 16)
        return false;
    *out = (struct layout){.holder_frame = thread[4],
                           .frame_previous = frame[1],
                           .frame_code = frame[2],
                           .frame_instruction = frame[3],
                           .frame_owner = frame[5],
                           .code_file = code[1],
                           .code_function = code[3],
                           .code_line = code[5],
                           .code_begin = code[9],
                           .text_bytes = 40};
    return true;
}

static bool find_layout(int minor, struct layout *out)
{
    const uint64_t *words = dlsym(RTLD_DEFAULT, "_PyRuntime");
    if (minor >= 0 && (size_t)minor < sizeof layouts / sizeof layouts[0]) {
        *out = layouts[minor];
        return out->text_bytes > 0;
    }
    for (size_t i = 0; words != NULL && i < sizeof known_groups / sizeof known_groups[0]; i++)
        if (known_groups[i].minor == minor)
            return read_offsets(words, &known_groups[i], out);
    return false;
}

mt_status mt_torch_frames_find(int minor)
{
    struct python found = {0};
    *(void **)&found.thread_state = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    *(void **)&found.line_at = dlsym(RTLD_DEFAULT, "PyCode_Addr2Line");
    if (found.thread_state == NULL || found.line_at == NULL || !find_layout(minor, &found.layout))
        return mt_fail(MT_NO_DEVICE, "the call stacks of Python 3.%d are not known", minor);
    python = found;
    return MT_OK;
}

/* ---- walking ---- */

static const char *innermost_frame(void)
{
    const struct layout *at = &python.layout;
    const char *holder = python.thread_state != NULL ? python.thread_state() : NULL;
    if (holder != NULL && at->thread_holder > 0)
        holder = pointer_at(holder, at->thread_holder);
    return holder != NULL ? pointer_at(holder, at->holder_frame) : NULL;
}

/* Returns a hash of a frame. Another code object may reuse a freed one's address, so its strings and line are hashed,
 * too. */
static uint64_t hash_of(const struct mt_torch_frame *frame)
{
    const struct layout *at = &python.layout;
    return (uint64_t)(uintptr_t)frame->code * 0x9e3779b97f4a7c15u ^
           (uint64_t)(uintptr_t)pointer_at(frame->code, at->code_file) * 0xc2b2ae3d27d4eb4fu ^
           (uint64_t)(uintptr_t)pointer_at(frame->code, at->code_function) * 0xff51afd7ed558ccdu ^
           ((uint64_t)number_at(frame->code, at->code_line) << 32 | (uint32_t)frame->instruction) * 0xc4ceb9fe1a85ec53u;
}

/* Returns the offset of the instruction in the code, in bytes. */
static int32_t instruction_of(const char *frame, const char *code)
{
    const struct layout *at = &python.layout;
    if (at->index_bytes > 0)
        return (int32_t)(number_at(frame, at->frame_instruction) * (uint32_t)at->index_bytes);
    return (int32_t)(pointer_at(frame, at->frame_instruction) - code - (ptrdiff_t)at->code_begin);
}

uint32_t mt_torch_frames_top(struct mt_torch_frame *out, uint32_t most)
{
    enum { TAGS = 7 }; /* low bits of a reference: how it is counted */
    const struct layout *at = &python.layout;
    uint32_t depth = 0;
    for (const char *frame = innermost_frame(); frame != NULL && depth < most;
         frame = pointer_at(frame, at->frame_previous)) {
        if (at->frame_owner > 0 && frame[at->frame_owner] >= OWNED_BY_C)
            continue;
        struct mt_torch_frame *found = &out[depth++];
        found->code = pointer_at(frame, at->frame_code);
        found->code -= (uintptr_t)found->code & TAGS;
        found->instruction = instruction_of(frame, found->code);
    }
    return depth;
}

void mt_torch_frames_walk(struct mt_torch_stack *out)
{
    out->hash = 0;
    out->depth = mt_torch_frames_top(out->frames, MT_TORCH_MOST_CALLS);
    for (uint32_t i = 0; i < out->depth; i++)
        out->hash = (out->hash << 31 | out->hash >> 33) * 0x94d049bb133111ebu ^ hash_of(&out->frames[i]);
}

int mt_torch_frame_line(const struct mt_torch_frame *frame)
{
    return python.line_at((void *)(uintptr_t)frame->code, frame->instruction);
}

/* ---- texts ---- */

/* Adds a character in UTF-8. A lone surrogate, which Python uses for an invalid byte of a path, becomes U+FFFD. */
static void add_character(struct mt_text *out, uint32_t c)
{
    if (c >= 0xd800 && c < 0xe000)
        c = 0xfffd;
    if (c < 0x80)
        mt_text_add(out, "%c", (int)c);
    else if (c < 0x800)
        mt_text_add(out, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 0x3f)));
    else if (c < 0x10000)
        mt_text_add(out, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3f)), (int)(0x80 | (c & 0x3f)));
    else
        mt_text_add(out, "%c%c%c%c", (int)(0xf0 | c >> 18), (int)(0x80 | (c >> 12 & 0x3f)),
                    (int)(0x80 | (c >> 6 & 0x3f)), (int)(0x80 | (c & 0x3f)));
}

static uint32_t character_at(const char *characters, uint64_t index, uint32_t bytes)
{
    uint32_t character = 0;
    assert(bytes == 1 || bytes == 2 || bytes == 4); /* little-endian */
    memcpy(&character, characters + index * bytes, bytes);
    return character;
}

/* Adds a Python string. */
static void add_text(struct mt_text *out, const char *text)
{
    enum { MORE_BYTES = 16, OLD_BYTES = 48, OLD_MORE_BYTES = 24 };
    const uint32_t state = number_at(text, TEXT_STATE), kind = state >> KIND_SHIFT & KIND_BITS;
    const uint64_t length = (uint64_t)(uintptr_t)pointer_at(text, TEXT_LENGTH), fields = python.layout.text_bytes;
    if ((state & IS_COMPACT) == 0) {
        mt_text_add(out, "?");
        return;
    }
    if ((state & IS_ASCII) != 0) {
        mt_text_add(out, "%.*s", (int)length, text + fields);
        return;
    }
    const char *characters = text + fields + (fields == OLD_BYTES ? OLD_MORE_BYTES : MORE_BYTES);
    for (uint64_t i = 0; i < length; i++)
        add_character(out, character_at(characters, i, kind));
}

int mt_torch_frame_describe(const struct mt_torch_frame *frame, struct mt_text *function, struct mt_text *file)
{
    assert(python.line_at != NULL && frame->code != NULL);
    add_text(function, pointer_at(frame->code, python.layout.code_function));
    add_text(file, pointer_at(frame->code, python.layout.code_file));
    return mt_torch_frame_line(frame);
}
