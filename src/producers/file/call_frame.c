#include "producers/file/call_frame.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "base/text.h"
#include "producers/file/glob.h"
#include "producers/file/profile_frames.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char operator_prefix[] = "at::_ops::";
static const char recorded_prefix[] = "torch::autograd::VariableType::";
static const char engine_prefix[] = "torch::autograd::Engine::";
static const char sum_prefix[] = "torch::autograd::InputBuffer::";
static const char apply_word[] = "::apply(";

/* Files whose functions do not belong to the program's modules: PyTorch's own, and Python's. */
static const char packages[] = "*site-packages/*|*dist-packages/*";
static const char torch_files[] = "torch/*|*-packages/torch/*";
static const char python_files[] = "<frozen*|*lib/python3*|*/Python3*/Lib/*|*conda*/Lib/*";

/* Library functions that only call other functions. */
static const char wrappers[] = "__call__|*wrapper*|wrapped*|inner|decorate_*|<lambda>";

static const char module_call[] = "_call_impl|_wrapped_call_impl";

/* Invariants: known[i]->number is i. `places` maps the address of a dict's items to the dict's place in known[0 ..
 * count); `hashes` maps a frame's hash to its place. A frame whose hash is in use has the next free key. */
struct mt_call_frames {
    struct mt_name_set *names;
    struct mt_number_map places, hashes;
    struct mt_call_frame **known;
    size_t count;
    struct mt_value_key name, file, line;
};

struct mt_call_frames *mt_call_frames_create(void)
{
    struct mt_call_frames *frames = mt_host_alloc(sizeof *frames);
    *frames = (struct mt_call_frames){.names = mt_name_set_create(),
                                      .name = MT_VALUE_KEY("name"),
                                      .file = MT_VALUE_KEY("filename"),
                                      .line = MT_VALUE_KEY("line")};
    mt_number_map_create(&frames->places);
    mt_number_map_create(&frames->hashes);
    return frames;
}

void mt_call_frames_destroy(struct mt_call_frames *frames)
{
    if (frames == NULL)
        return;
    for (size_t i = 0; i < frames->count; i++)
        free(frames->known[i]);
    free(frames->known);
    mt_number_map_release(&frames->places);
    mt_number_map_release(&frames->hashes);
    mt_name_set_destroy(frames->names);
    free(frames);
}

struct mt_name_set *mt_call_frames_names(struct mt_call_frames *frames)
{
    return frames->names;
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* True for names that end as Python files do, and for code without a file, such as "<stdin>". */
static bool is_python_file(const char *file)
{
    size_t length = strlen(file);
    return file[0] == '<' || (length > 3 && strcmp(file + length - 3, ".py") == 0);
}

uint32_t mt_call_frame_keep(struct mt_name_set *names, const char *name, size_t length, const char **out)
{
    assert(length <= INT32_MAX);
    struct mt_text text = {0};
    mt_text_add(&text, "%.*s", (int)length, name);
    uint32_t number = mt_name_set_number(names, mt_text_get(&text), NULL);
    mt_text_release(&text);
    *out = mt_name_set_name(names, number);
    return number;
}

/* Returns the path with "/" between its parts, as rules and spans use it, even if Windows wrote it. */
static const char *read_path(const char *file, struct mt_name_set *names)
{
    const char *kept;
    if (strchr(file, '\\') == NULL)
        return file;
    char *path = mt_host_strdup(file);
    for (char *at = path; *at != '\0'; at++)
        *at = *at == '\\' ? '/' : *at;
    mt_call_frame_keep(names, path, strlen(path), &kept);
    free(path);
    return kept;
}

static size_t word_length(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return length;
}

/* Reads the operator of at::_ops::NAME:: */
static void read_operator(struct mt_name_set *names, struct mt_call_frame *out)
{
    const char *word = out->name + strlen(operator_prefix);
    if (begins(out->name, operator_prefix))
        mt_call_frame_keep(names, word, word_length(word), &out->operation);
}

/* Reads the operator of …::VariableType::(anonymous namespace)::NAME( */
static void read_recorded(struct mt_name_set *names, struct mt_call_frame *out)
{
    if (!begins(out->name, recorded_prefix))
        return;
    const char *word = strstr(out->name, ")::");
    word = word != NULL ? word + strlen(")::") : out->name + strlen(recorded_prefix);
    size_t length = word_length(word);
    if (length > 0)
        out->recorded_number = mt_call_frame_keep(names, word, length, &out->recorded);
}

/* Reads the node of …::NODE::apply( */
static void read_node(struct mt_name_set *names, struct mt_call_frame *out)
{
    const char *end = begins(out->name, "torch::autograd::") ? strstr(out->name, apply_word) : NULL;
    if (end == NULL)
        return;
    const char *word = end;
    while (word > out->name && (isalnum((unsigned char)word[-1]) || word[-1] == '_'))
        word--;
    mt_call_frame_keep(names, word, (size_t)(end - word), &out->node);
}

static mt_frame_owner owner_of(const struct mt_call_frame *frame)
{
    if (mt_glob_fits(MT_MODULE_FILE "|" MT_PROGRAM_FILE, frame->file))
        return MT_FRAME_OF_PROFILE;
    if (!frame->is_python || mt_glob_fits(torch_files, frame->file))
        return MT_FRAME_OF_OTHERS;
    if (mt_glob_fits(packages, frame->file))
        return mt_glob_fits(wrappers, frame->name) ? MT_FRAME_OF_OTHERS : MT_FRAME_OF_LIBRARY;
    return mt_glob_fits(python_files, frame->file) ? MT_FRAME_OF_OTHERS : MT_FRAME_OF_PROGRAM;
}

static void read_words(struct mt_name_set *names, struct mt_call_frame *out)
{
    out->owner = owner_of(out);
    if (out->is_python) {
        out->is_module_call = mt_glob_fits(module_call, out->name);
        out->is_checkpoint = mt_glob_fits_file("torch/utils/checkpoint.py", out->file);
        return;
    }
    read_operator(names, out);
    read_recorded(names, out);
    read_node(names, out);
    out->is_input_sum = begins(out->name, sum_prefix);
    out->is_engine = begins(out->name, engine_prefix);
}

static bool is_same(const struct mt_call_frame *a, const struct mt_call_frame *b)
{
    return a->name == b->name && a->file == b->file && a->line == b->line;
}

/* Compares texts by address, since equal texts of a store, and of the names, have one address. */
static uint64_t hash_frame(const struct mt_call_frame *frame)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t hash = (uint64_t)(uintptr_t)frame->name * factor;
    hash = ((hash ^ hash >> 29) + (uint64_t)(uintptr_t)frame->file) * factor;
    return ((hash ^ hash >> 29) + (uint64_t)frame->line) * factor >> 1;
}

static void add_frame(struct mt_call_frames *frames, const struct mt_call_frame *said)
{
    struct mt_call_frame *frame = mt_host_alloc(sizeof *frame);
    *frame = *said;
    frame->number = (uint32_t)frames->count;
    read_words(frames->names, frame);
    assert((frame->recorded_number == 0) == (frame->recorded[0] == '\0'));
    *MT_HOST_ADD(frames->known, frames->count) = frame;
}

/* Returns the place of an equal frame. Adds the frame if it is new. */
static uint64_t find_frame(struct mt_call_frames *frames, const struct mt_call_frame *said)
{
    uint64_t key = hash_frame(said), place;
    for (; mt_number_map_get(&frames->hashes, key, &place); key = (key + 1) & INT64_MAX)
        if (is_same(frames->known[place], said))
            return place;
    mt_number_map_put(&frames->hashes, key, frames->count);
    add_frame(frames, said);
    return frames->count - 1;
}

/* Reads a frame that is a dict. */
static void read_dict(struct mt_call_frames *frames, const struct mt_value *dict, struct mt_call_frame *out)
{
    out->name = mt_value_text(mt_value_get(dict, &frames->name));
    out->file = read_path(mt_value_text(mt_value_get(dict, &frames->file)), frames->names);
    mt_value_integer(mt_value_get(dict, &frames->line), &out->line);
}

/* Reads File "FILE", line LINE, in NAME. Other texts leave *out unchanged. */
static void read_printed(struct mt_call_frames *frames, const char *text, struct mt_call_frame *out)
{
    static const char file_word[] = "File \"", line_word[] = "\", line ", name_word[] = ", in ";
    const char *file = strstr(text, file_word), *line = file != NULL ? strstr(file, line_word) : NULL;
    const char *name = line != NULL ? strstr(line, name_word) : NULL;
    if (name == NULL)
        return;
    file += strlen(file_word);
    name += strlen(name_word);
    mt_call_frame_keep(frames->names, file, (size_t)(line - file), &out->file);
    mt_call_frame_keep(frames->names, name, strcspn(name, "\n"), &out->name);
    out->file = read_path(out->file, frames->names);
    out->line = strtoll(line + strlen(line_word), NULL, 10);
}

const struct mt_call_frame *mt_call_frames_read(struct mt_call_frames *frames, const struct mt_value *value)
{
    bool is_text = value->kind == MT_VALUE_TEXT, is_frame = is_text || value->kind == MT_VALUE_DICT;
    uint64_t key = is_frame ? (uint64_t)(uintptr_t)value->items : 0, place;
    if (mt_number_map_get(&frames->places, key, &place))
        return frames->known[place];
    struct mt_call_frame said = {.name = "", .file = "", .operation = "", .node = "", .recorded = ""};
    if (is_text)
        read_printed(frames, mt_value_text(value), &said);
    else if (is_frame)
        read_dict(frames, value, &said);
    said.is_python = is_python_file(said.file);
    place = find_frame(frames, &said);
    mt_number_map_put(&frames->places, key, place);
    return frames->known[place];
}
