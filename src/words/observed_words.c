#include "words/observed_words.h"

#include "answer/answer.h"
#include "answer/escape.h"
#include "base/memory.h"
#include "base/order.h"
#include "trace/query/walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HOLDERS = 5 };

/* ---- rows ---- */

#define ROW struct mt_program_phase_row
static const struct mt_field phase_fields[] = {
    MT_TEXT(ROW, name, "program_phase", "program phase", "load, train, validate, generate, inference or save"),
    MT_BYTES(ROW, bytes, "allocated_bytes", "highest", "the most that was allocated in it"),
    MT_COUNT(ROW, count, "count", "times", "that the program entered it"),
    MT_STEP(ROW, step, "step", "step", "of that moment"),
    MT_NANOSECONDS(ROW, time_ns, "time_ns", "time", NULL),
    MT_FIELDS_END,
};
const struct mt_row_type mt_program_phase_type = MT_ROW_TYPE(ROW, phase_fields);
#undef ROW

#define ROW struct mt_holder_row
static const struct mt_field holder_fields[] = {
    MT_TEXT(ROW, kind, "kind", "kind",
            "variable, attribute, closure, traceback, exception, cycle, gradient cycle, graph, chain, gradient chain, "
            "view or copy"),
    MT_TEXT(ROW, name, "name", "holder", "of the variable or attribute"),
    MT_NAME(ROW, owner, "owner", "of", "the function, module or class that has it; null: not known"),
    MT_NAME(ROW, file, "file", NULL, "of the line that adds to it or sets it; null: not known"),
    MT_POSITIVE(ROW, line, "line", NULL, NULL),
    MT_BYTES(ROW, held_bytes, "held_bytes", "keeps", "that would be free without it"),
    MT_NAME(ROW, phase, "program_phase", "phase", "in which the program allocated them; null: not known"),
    MT_NAME(ROW, taken_at, "allocated_at", "allocated at", "the line that allocated the first; null: not recorded"),
    MT_NAME(ROW, op, "op", NULL, "that allocated it"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_holder_type = MT_ROW_TYPE(ROW, holder_fields);
#undef ROW

/* ---- observations ---- */

#define ROW struct mt_observed
static const char *const kinds[] = {
#define X(kind, name) name,
    MT_OBSERVED_KINDS(X)
#undef X
};
static const char *const changes[] = {
#define X(change, name) name,
    MT_OBSERVED_CHANGES(X)
#undef X
};
static const struct mt_field observed_fields[] = {
    MT_CHOICE(ROW, kind, "detector", NULL, "what was observed", kinds),
    MT_CHOICE(ROW, change, "change", NULL, "that helps", changes),
    MT_NAME(ROW, phase, "program_phase", NULL, "null: none, as of another card"),
    MT_NAME(ROW, name, "name", NULL,
            "of another card; of a module, tensor or optimizer with needless gradients; of a function; null: none"),
    MT_BYTES(ROW, bytes, "bytes", NULL, "of a loop, an iteration; otherwise at the peak of the phase"),
    MT_KNOWN(ROW, full_at, "full_at", NULL, "the iteration that fills the card, an estimate; null: not known"),
    MT_POSITIVE(ROW, iterations, "iterations", NULL, "of the loop; null: not known"),
    MT_NAME(ROW, file, "file", NULL,
            "of the loop, or that sets the module or the memory on another card; null: not known"),
    MT_POSITIVE(ROW, line, "line", NULL, NULL),
    MT_NAME(ROW, taken_at, "allocated_at", NULL, "the line that allocated; null: not recorded"),
    MT_NAME(ROW, op, "op", NULL, "of the largest tensor that it is about; this and the next two: null for several"),
    MT_NAME(ROW, dtype, "dtype", NULL, NULL),
    MT_NAME(ROW, shape, "shape", NULL, NULL),
    MT_ROW_OR_NULL(ROW, holder, "holder", &mt_holder_type, "who keeps it; null: not known"),
    MT_FIELDS_END,
};
static const struct mt_row_type observed_type = MT_ROW_TYPE(ROW, observed_fields);
#undef ROW

#define ROW struct mt_observations
static const struct mt_field observations_fields[] = {
    MT_ROWS(ROW, items, count, "observations", &observed_type,
            "loops that keep memory, checkpoints on the card, ways to train that keep copies"),
    MT_ROWS(ROW, holders, holder_count, "holders", &mt_holder_type, "of allocations; those that keep most first"),
    MT_ROWS(ROW, phases, phase_count, "program_phases", &mt_program_phase_type,
            "the highest moment of each; none if the program was not followed"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_observations_type = MT_ROW_TYPE(ROW, observations_fields);
#undef ROW

/* ---- words ---- */

/* Adds " (val.py:14)". */
static void add_line(const char *file, int64_t line, struct mt_text *out)
{
    const char *slash = strrchr(file, '/');
    if (line == 0)
        return;
    mt_text_add(out, " (");
    mt_text_add_visible(out, slash != NULL ? slash + 1 : file);
    mt_text_add(out, ":%" PRId64 ")", line);
}

void mt_holder_add_name(const struct mt_holder_row *holder, struct mt_text *out)
{
    mt_text_add_visible(out, holder->name);
    if (holder->owner[0] != '\0' && strcmp(holder->owner, "__main__") != 0) {
        const bool is_of_object =
            strncmp(holder->name, "self.", strlen("self.")) == 0 || strncmp(holder->name, "ctx.", strlen("ctx.")) == 0;
        mt_text_add(out, is_of_object ? " of " : " in ");
        mt_text_add_visible(out, holder->owner);
    }
    add_line(holder->file, holder->line, out);
}

/* Returns how a holder of that kind keeps its memory. */
static const char *words_of_kind(const char *name)
{
    static const char *const words[MT_HOLDER_KIND_COUNT] = {
        [MT_HOLDER_EXCEPTION] = ", since the tracebacks of its exceptions refer to it",
        [MT_HOLDER_TRACEBACK] = ", since the traceback of an exception refers to it",
        [MT_HOLDER_CYCLE] = " until Python's garbage collector runs",
        [MT_HOLDER_GRADIENT_CYCLE] = " until they are set to None: they and their parameters refer to each other",
        [MT_HOLDER_GRAPH] = ", most of it by the autograd graphs of its tensors",
        [MT_HOLDER_CHAIN] = ", since its graph goes back to the first iteration",
        [MT_HOLDER_GRADIENT_CHAIN] =
            ", since its graph goes back to the first iteration, through gradients of create_graph=True",
        [MT_HOLDER_VIEW] = ", since its tensors are views of larger allocations",
    };
    mt_holder_kind kind;
    return mt_holder_kind_find(name, &kind) && words[kind] != NULL ? words[kind] : "";
}

void mt_holder_add(const struct mt_holder_row *holder, struct mt_text *out)
{
    const bool is_plural =
        mt_holder_is_kind(holder, MT_HOLDER_CYCLE) || mt_holder_is_kind(holder, MT_HOLDER_GRADIENT_CYCLE);
    const bool is_measured_in_loop = !is_plural && holder->loop_file[0] != '\0'; /* it keeps more later */
    mt_holder_add_name(holder, out);
    mt_text_add(out, " %s %s%s%s", is_plural ? "keep" : "keeps", MT_SIZE(holder->held_bytes),
                is_measured_in_loop ? " after the first iterations" : "", words_of_kind(holder->kind));
    if (holder->taken_at[0] != '\0') {
        mt_text_add(out, "; allocated at ");
        mt_text_add_visible(out, holder->taken_at);
    }
}

/* Adds where something was allocated, if that is recorded: ", loaded at train.py:7". */
static void add_place(const char *words, const char *taken_at, struct mt_text *out)
{
    if (taken_at[0] == '\0')
        return;
    mt_text_add(out, "%s", words);
    mt_text_add_visible(out, taken_at);
}

/* Adds what blocks at the peak are. */
static void add_part_of_peak(const struct mt_observed *observed, struct mt_text *out)
{
    static const char *const words[MT_OBSERVED_KIND_COUNT] = {
        [MT_OBSERVED_GATHERED] = "are weights that FSDP gathers for the whole model at once",
        [MT_OBSERVED_NOT_YET_SHARDED] = "are weights of the whole model, which FSDP shards only afterwards",
        [MT_OBSERVED_UNSHARDED] = "are weights of blocks that FSDP gathers and keeps until backward",
        [MT_OBSERVED_EARLY_DATA] = "are data that the program moved to the card before the first call of its model",
        [MT_OBSERVED_CACHE] = "are key-value caches",
        [MT_OBSERVED_BUCKETS] = "are gradient buckets of DDP's reducer (DistributedDataParallel.reducer), next to "
                                "gradients that have memory of their own",
        [MT_OBSERVED_ONE_SEGMENT] = "are activations of several layers that one checkpointed segment computes again "
                                    "together",
        [MT_OBSERVED_SCORES] = "are attention scores and tensors computed from them, kept for backward",
        [MT_OBSERVED_ONE_HOT] = "are one-hot labels in int64, with a value for each class",
        [MT_OBSERVED_DOUBLES] = "are float64, twice as large as float32",
        [MT_OBSERVED_TABLES] = "are dense gradients of embedding tables, although a batch uses few of the rows",
        [MT_OBSERVED_JACOBIAN] = "are a Jacobian or Hessian, and what computes it",
        [MT_OBSERVED_LORA_DROPOUT] = "are inputs of adapted layers that the dropout of LoRA copies",
        [MT_OBSERVED_FOREACH] = "are lists of tensors that the optimizer's foreach functions allocate",
    };
    mt_text_add(out, "At the peak, %s %s", MT_SIZE(observed->bytes), words[observed->kind]);
    add_place(", allocated at ", observed->taken_at, out);
}

static void add_growth(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "Each iteration of the loop in phase %s leaves %s more on the card", observed->phase,
                MT_SIZE(observed->bytes));
    add_line(observed->file, observed->line, out);
    if (observed->iterations > 1)
        mt_text_add(out, ", %s after all %" PRId64 " iterations",
                    MT_SIZE(observed->bytes * (uint64_t)observed->iterations), observed->iterations);
}

static void add_one_graph(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "The iterations of one loop");
    add_line(observed->file, observed->line, out);
    mt_text_add(out, " add to the same graph, which keeps the activations of all of them");
}

static void add_traceback(const struct mt_observed *observed, struct mt_text *out)
{
    (void)observed;
    mt_text_add(out, "The program goes on inside an except block while memory of the failed attempt is live");
}

static void add_exceptions(const struct mt_observed *observed, struct mt_text *out)
{
    (void)observed;
    mt_text_add(out, "The program keeps exceptions, and with their tracebacks the memory of failed attempts");
}

static void add_checkpoint(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "While the program loads, a checkpoint holds %s on the card", MT_SIZE(observed->bytes));
    add_place(", loaded at ", observed->taken_at, out);
}

static void add_other_card(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "This rank allocates %s on %s, which is not its own card", MT_SIZE(observed->bytes),
                observed->name);
    add_line(observed->file, observed->line, out);
}

static void add_not_updated(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add_visible(out, observed->name);
    add_line(observed->file, observed->line, out);
    mt_text_add(out, " gets %s of gradients that no optimizer uses, and keeps activations for them",
                MT_SIZE(observed->bytes));
}

static void add_not_detached(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add_visible(out, observed->name);
    add_line(observed->file, observed->line, out);
    mt_text_add(out,
                " is not detached in the step of another optimizer: its backward also runs through the model that "
                "computed it, for %s of gradients that are cleared before they are used",
                MT_SIZE(observed->bytes));
}

static void add_zeroed(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "%s of gradients of ", MT_SIZE(observed->bytes));
    mt_text_add_visible(out, observed->name);
    mt_text_add(out, " are set to zero, not freed, so they stay allocated during the forward pass");
}

static void add_casts(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out,
                "Autocast costs memory here: in the forward pass, its copies of weights and inputs in half precision "
                "take %s next to the fp32 originals, more than half precision saves in activations",
                MT_SIZE(observed->bytes));
}

static void add_cached_casts(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out,
                "backward() runs inside autocast's region, whose cache keeps %s of weights in half precision next to "
                "the fp32 originals until the region ends",
                MT_SIZE(observed->bytes));
}

static void add_unread_graph(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "At the peak, %s are activations that autograd keeps for a backward that does not run",
                MT_SIZE(observed->bytes));
    add_place(", of the model that is called in ", observed->name != NULL ? observed->name : "", out);
    add_line(observed->file, observed->line, out);
}

static void add_copy(const struct mt_observed *observed, struct mt_text *out)
{
    (void)observed;
    mt_text_add(out, "A copy of the weights stays on the card between steps");
}

static void add_evaluation(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "Phase %s peaks at %s, higher than training", observed->phase, MT_SIZE(observed->bytes));
    add_place(", at ", observed->taken_at, out);
}

/* Adds "aten::sub, fp32 (2048,1024,128)". */
static void add_tensor(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "%s, %s (%s)", observed->op, observed->dtype, observed->shape);
}

/* Adds "(aten::repeat, fp32 (1024,2048,256)), allocated at train.py:6". */
static void add_tensor_at(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "(");
    add_tensor(observed, out);
    mt_text_add(out, ")");
    add_place(", allocated at ", observed->taken_at, out);
}

static void add_broadcast(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "At the peak, %s are the result of broadcasting much smaller tensors (", MT_SIZE(observed->bytes));
    add_tensor(observed, out);
    mt_text_add(out, ") and tensors of this size that are computed from it");
    add_place(", allocated at ", observed->taken_at, out);
}

static void add_repeated(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "At the peak, %s are copies of a repeated or expanded tensor ", MT_SIZE(observed->bytes));
    add_tensor_at(observed, out);
}

static void add_pairs(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "At the peak, %s are values for all pairs of rows of two tensors ", MT_SIZE(observed->bytes));
    add_tensor_at(observed, out);
}

static void add_logits(const struct mt_observed *observed, struct mt_text *out)
{
    const char *comma = strrchr(observed->shape, ',');
    mt_text_add(out, "At the peak, %s are logits of %s classes, and what the loss computes from them ",
                MT_SIZE(observed->bytes), comma != NULL ? comma + 1 : observed->shape);
    add_tensor_at(observed, out);
}

static void add_one_forward(const struct mt_observed *observed, struct mt_text *out)
{
    mt_text_add(out, "At the peak, %s are results of one forward pass, the largest of ", MT_SIZE(observed->bytes));
    add_tensor(observed, out);
    add_place(", allocated at ", observed->taken_at, out);
}

void mt_observed_add(const struct mt_observed *observed, struct mt_text *out)
{
    static void (*const words[MT_OBSERVED_KIND_COUNT])(const struct mt_observed *, struct mt_text *) = {
        [MT_OBSERVED_KEPT_GRAPHS] = add_growth,
        [MT_OBSERVED_KEPT_TENSORS] = add_growth,
        [MT_OBSERVED_KEPT_VIEWS] = add_growth,
        [MT_OBSERVED_ONE_GRAPH] = add_one_graph,
        [MT_OBSERVED_CYCLES] = add_growth,
        [MT_OBSERVED_TRACEBACK] = add_traceback,
        [MT_OBSERVED_EXCEPTIONS] = add_exceptions,
        [MT_OBSERVED_GROWTH] = add_growth,
        [MT_OBSERVED_CHECKPOINT] = add_checkpoint,
        [MT_OBSERVED_OTHER_CARD] = add_other_card,
        [MT_OBSERVED_NOT_UPDATED] = add_not_updated,
        [MT_OBSERVED_NOT_DETACHED] = add_not_detached,
        [MT_OBSERVED_ZEROED] = add_zeroed,
        [MT_OBSERVED_CASTS] = add_casts,
        [MT_OBSERVED_CACHED_CASTS] = add_cached_casts,
        [MT_OBSERVED_UNREAD_GRAPH] = add_unread_graph,
        [MT_OBSERVED_WEIGHT_COPY] = add_copy,
        [MT_OBSERVED_EVALUATION] = add_evaluation,
        [MT_OBSERVED_BROADCAST] = add_broadcast,
        [MT_OBSERVED_REPEATED] = add_repeated,
        [MT_OBSERVED_PAIRS] = add_pairs,
        [MT_OBSERVED_LOGITS] = add_logits,
        [MT_OBSERVED_ONE_FORWARD] = add_one_forward,
    };
    (words[observed->kind] != NULL ? words[observed->kind] : add_part_of_peak)(observed, out);
    if (observed->holder != NULL) {
        mt_text_add(out, ": ");
        mt_holder_add(observed->holder, out);
    }
    mt_text_add(out, ".");
}

const char *mt_observed_change_words(mt_observed_change change)
{
    static const char *const words[MT_OBSERVED_CHANGE_COUNT] = {
        [MT_OBSERVED_CHANGE_NO_GRAD] =
            "call the model there under torch.no_grad() or torch.inference_mode(); of a loss, "
            "keep loss.item() instead of the tensor",
        [MT_OBSERVED_CHANGE_DETACH] = "keep loss.item() or tensor.detach(), so that the graph is freed",
        [MT_OBSERVED_CHANGE_DETACH_STATE] = "detach the state before the next iteration, as in state = state.detach(); "
                                            "for a sum of losses, add loss.item()",
        [MT_OBSERVED_CHANGE_FIRST_ORDER] =
            "leave out create_graph=True, or detach the result, where no gradient of these gradients is needed; "
            "otherwise "
            "call backward() for each task instead of once on the sum of their losses, or do fewer steps in each",
        [MT_OBSERVED_CHANGE_BACKWARD_EACH] = "call backward() on the loss of each iteration, divided by their number, "
                                             "instead of once on the sum: gradients add up",
        [MT_OBSERVED_CHANGE_MOVE_TO_HOST] = "move what the loop collects to the host, with .cpu(), reduce it in "
                                            "each iteration, or limit how much is kept",
        [MT_OBSERVED_CHANGE_EVAL_STEPS] = "TrainingArguments(eval_accumulation_steps=N) moves predictions to the host; "
                                          "preprocess_logits_for_metrics makes them smaller, and "
                                          "per_device_eval_batch_size the batch",
        [MT_OBSERVED_CHANGE_HISTORY_SIZE] = "torch.optim.LBFGS(history_size=N): it keeps two vectors of the size of "
                                            "all parameters for each of N iterations, 100 by default",
        [MT_OBSERVED_CHANGE_SAVE_FOR_BACKWARD] = "ctx.save_for_backward(tensor): an output that is an attribute of ctx "
                                                 "is in a reference cycle with its graph",
        [MT_OBSERVED_CHANGE_BOUND_CACHE] = "bound what the loop collects: keep a window of the key-value cache, or "
                                           "allocate it once for the longest sequence, as a static cache",
        [MT_OBSERVED_CHANGE_LIMIT_RESULTS] = "lru_cache(maxsize=…), or return results on the host",
        [MT_OBSERVED_CHANGE_CLONE_VIEWS] =
            "keep copies of the views, with .clone(), so that the rest of the allocation "
            "is freed",
        [MT_OBSERVED_CHANGE_BREAK_CYCLE] = "break the cycle, such as by use_reentrant=False, or call gc.collect()",
        [MT_OBSERVED_CHANGE_AUTOGRAD_GRAD] = "torch.autograd.grad(loss, parameters, create_graph=True) in place of "
                                             "backward(create_graph=True), or parameter.grad = None at the end",
        [MT_OBSERVED_CHANGE_LEAVE_EXCEPT] = "try again after the except block, or call "
                                            "traceback.clear_frames(error.__traceback__) first",
        [MT_OBSERVED_CHANGE_CLEAR_FRAMES] =
            "keep str(error), or call traceback.clear_frames(error.__traceback__) before "
            "the exception is kept",
        [MT_OBSERVED_CHANGE_FIND_HOLDER] = "memtrace dry-run, or memtrace record --holders, names the variable that "
                                           "keeps it",
        [MT_OBSERVED_CHANGE_MAP_LOCATION] = "torch.load(..., map_location=\"cpu\", mmap=True), or "
                                            "load_state_dict(..., assign=True), and delete the checkpoint",
        [MT_OBSERVED_CHANGE_OWN_CARD] = "call torch.cuda.set_device(local_rank) first, and torch.load with "
                                        "map_location=\"cpu\" or the rank's own card",
        [MT_OBSERVED_CHANGE_SHORTER_CACHE] =
            "fewer positions (such as StaticCache's max_cache_len), fewer sequences at a "
            "time, or a quantized cache",
        [MT_OBSERVED_CHANGE_BATCH_AT_USE] =
            "keep the data on the host, in pinned memory, and copy each batch in the step "
            "that reads it: batch.to(device, non_blocking=True)",
        [MT_OBSERVED_CHANGE_FREEZE] = "module.requires_grad_(False), and torch.no_grad() around its forward if nothing "
                                      "before it is trained",
        [MT_OBSERVED_CHANGE_DETACH_OUTPUT] = "pass its detached value there, as in discriminator(fake.detach()), and "
                                             "call backward() without retain_graph=True",
        [MT_OBSERVED_CHANGE_SET_TO_NONE] = "optimizer.zero_grad(set_to_none=True), the default, right after "
                                           "optimizer.step()",
        [MT_OBSERVED_CHANGE_END_AUTOCAST] = "call backward() after the region, or use torch.autocast(..., "
                                            "cache_enabled=False)",
        [MT_OBSERVED_CHANGE_AUTOCAST_BATCH] =
            "autocast saves memory with larger batches; with this one, leave it out, or "
            "keep the weights themselves in half precision, as in model.bfloat16()",
        [MT_OBSERVED_CHANGE_COPY_ON_HOST] =
            "keep it on the host: an average with AveragedModel(model, device=\"cpu\") or updated from "
            "parameter.cpu(), a stored state with value.cpu(); on the card, bf16 is half as large as fp32",
        [MT_OBSERVED_CHANGE_EVAL_BATCH] = "run it under torch.no_grad() and with a smaller batch (of transformers' "
                                          "Trainer, per_device_eval_batch_size)",
        [MT_OBSERVED_CHANGE_SHARD_BLOCKS] = "call fully_shard on each block of the model before the model itself (of "
                                            "FSDP's first version, set auto_wrap_policy)",
        [MT_OBSERVED_CHANGE_META] =
            "make the model under torch.device(\"meta\"), shard it, then call "
            "model.to_empty(device=\"cuda\") and initialize or load the shards (of FSDP's first "
            "version, make it on the host, with device_id)",
        [MT_OBSERVED_CHANGE_RESHARD] = "fully_shard(block, reshard_after_forward=True) (of FSDP's first version, "
                                       "ShardingStrategy.FULL_SHARD), which gathers each block again in backward",
        [MT_OBSERVED_CHANGE_BUCKET_VIEW] = "DistributedDataParallel(..., gradient_as_bucket_view=True)",
        [MT_OBSERVED_CHANGE_CHECKPOINT_EACH] = "call torch.utils.checkpoint.checkpoint(block, input, "
                                               "use_reentrant=False) for each block, not once for all",
        [MT_OBSERVED_CHANGE_SDPA] = "torch.nn.functional.scaled_dot_product_attention, which keeps no scores (of "
                                    "transformers, attn_implementation=\"sdpa\")",
        [MT_OBSERVED_CHANGE_CLASS_INDICES] =
            "pass class indices to torch.nn.functional.cross_entropy, which also takes label_smoothing=; elsewhere, "
            "pick values with gather(), or scatter_() ones into zeros of a smaller dtype",
        [MT_OBSERVED_CHANGE_NO_BROADCAST] = "an operator that does not store the intermediate, such as torch.cdist for "
                                            "distances or a matmul for sums of products; or compute it for a part of "
                                            "one dimension at a time",
        [MT_OBSERVED_CHANGE_PARTS] = "compute them for a part of the rows at a time, as in for part in x.split(n), and "
                                     "keep what is needed of each part, such as its topk()",
        [MT_OBSERVED_CHANGE_EXPAND] =
            "expand() without contiguous(), which copies nothing, or operators that broadcast, such as "
            "torch.matmul with the tensor that is not repeated",
        [MT_OBSERVED_CHANGE_SLICED_LOSS] = "a loss that computes logits in slices, such as "
                                           "LigerFusedLinearCrossEntropyLoss, or fewer tokens in each forward",
        [MT_OBSERVED_CHANGE_FLOAT32] = "float32, if its precision is enough: model.float(), and data.float(), since "
                                       "tensors from NumPy are float64",
        [MT_OBSERVED_CHANGE_SLICE_BATCH] = "smaller batches: torch.cat([model(part) for part in batch.split(n)]) (of "
                                           "diffusers, enable_vae_slicing() or enable_vae_tiling())",
        [MT_OBSERVED_CHANGE_SPARSE] = "nn.Embedding(..., sparse=True) with torch.optim.SparseAdam, whose states stay "
                                      "dense, for the tables; or smaller tables",
        [MT_OBSERVED_CHANGE_JVP] = "torch.func.jvp or vjp, if products with it are enough; otherwise compute it for a "
                                   "part of the samples or outputs at a time, and reduce each part or move it to the "
                                   "host. chunk_size= alone does not shrink the result",
        [MT_OBSERVED_CHANGE_NO_LORA_DROPOUT] = "model.gradient_checkpointing_enable(), or lora_dropout=0",
        [MT_OBSERVED_CHANGE_FUSED] = "the optimizer's fused=True, or foreach=False",
    };
    return words[change];
}

/* True if an observation, or a row before it, names the holder. */
static bool is_named(const struct mt_observations *observations, size_t index)
{
    const struct mt_holder_row *holder = &observations->holders[index];
    for (size_t i = 0; i < observations->count; i++)
        if (observations->items[i].holder != NULL && mt_holder_is_same(observations->items[i].holder, holder))
            return true;
    for (size_t i = 0; i < index; i++)
        if (mt_holder_is_same(&observations->holders[i], holder))
            return true;
    return false;
}

/* True if a holder keeps a visible part of the highest moment, or memory grows: it keeps more later. */
static bool is_large(const struct mt_observations *observations, const struct mt_holder_row *holder)
{
    enum { LEAST_PART = 20 };
    uint64_t most = 0;
    for (size_t i = 0; i < observations->phase_count; i++)
        most = mt_larger(most, observations->phases[i].bytes);
    return holder->held_bytes >= most / LEAST_PART || mt_observations_have_growth(observations);
}

/* True if a holder is worth a line of its own: it grows in the program's own code, or memory ended, or is on another
 * card. Others are named with what they are the holders of. */
static bool counts_alone(const struct mt_observations *observations, const struct mt_holder_row *holder)
{
    for (size_t i = 0; i < observations->count; i++)
        if (observations->items[i].kind == MT_OBSERVED_OTHER_CARD)
            return true;
    const bool is_of_library = holder->file[0] != '\0' && !mt_stack_file_is_own(holder->file);
    return (holder->loop_file[0] != '\0' && !is_of_library && is_large(observations, holder)) || observations->ran_out;
}

/* Returns how the sentence about a holder begins that no observation is about. */
static const char *begin_of_other(const struct mt_observations *observations)
{
    if (observations->count > 0)
        return "Also: ";
    return observations->ran_out ? "When memory ran out: " : "";
}

/* Adds the holders that no observation is about. */
static void add_others(struct mt_remedy_list *remedies, const struct mt_observations *observations)
{
    size_t added = 0;
    for (size_t i = 0; i < observations->holder_count && added < MOST_HOLDERS; i++) {
        if (is_named(observations, i) || !counts_alone(observations, &observations->holders[i]))
            continue;
        struct mt_text *what = &mt_remedy_list_add(remedies)->what;
        mt_text_add(what, "%s", begin_of_other(observations));
        mt_holder_add(&observations->holders[i], what);
        added++;
    }
}

bool mt_observations_have_words(const struct mt_observations *observations)
{
    for (size_t i = 0; i < observations->holder_count; i++)
        if (counts_alone(observations, &observations->holders[i]))
            return true;
    return observations->count > 0;
}

void mt_remedy_list_add_observations(struct mt_remedy_list *remedies, const struct mt_observations *observations)
{
    for (size_t i = 0; i < observations->count; i++) {
        const struct mt_observed *observed = &observations->items[i];
        struct mt_remedy *remedy = mt_remedy_list_add(remedies);
        mt_observed_add(observed, &remedy->what);
        mt_text_add(&remedy->how, "%s", mt_observed_change_words(observed->change));
    }
    add_others(remedies, observations);
}

void mt_observations_print(const struct mt_observations *observations, const struct mt_screen *screen)
{
    struct mt_remedy_list remedies = {0};
    mt_remedy_list_add_observations(&remedies, observations);
    for (size_t i = 0; i < remedies.count; i++) {
        const bool is_repeated =
            i > 0 && strcmp(mt_text_get(&remedies.items[i].what), mt_text_get(&remedies.items[i - 1].what)) == 0;
        if (i > 0 && i <= observations->count && !is_repeated)
            mt_screen_gap(screen);
        if (is_repeated)
            mt_screen_say(screen, "→ or %s", mt_text_get(&remedies.items[i].how));
        else
            mt_remedy_print(&remedies.items[i], screen);
    }
    mt_remedy_list_release(&remedies);
}

void mt_program_phases_print(const struct mt_observations *observations, const struct mt_screen *screen)
{
    if (observations->phase_count < 2)
        return;
    mt_screen_gap(screen);
    mt_screen_rows(screen, &mt_program_phase_type, "program_phase allocated_bytes count step", NULL,
                   observations->phases, observations->phase_count);
}
