/* Memory that a program's own code causes, found without a replay: loops that leave more behind in each iteration,
 * checkpoints on the card, training methods that keep copies. Found from holders, growths, program phases and the
 * labels at the peak.
 *
 * Each kind of observation and each change is one row of a table here; src/words/observed_words.c has the English. */
#pragma once

#include "analysis/run_question.h"
#include "trace/query/holders.h"

/* X(kind, name): `name` is its name in JSON. */
#define MT_OBSERVED_KINDS(X)                                                                                           \
    X(KEPT_GRAPHS, "kept graphs")           /* a loop keeps tensors, and these the autograd graphs that made them */   \
    X(KEPT_TENSORS, "kept tensors")         /* a loop keeps tensors */                                                 \
    X(KEPT_VIEWS, "kept views")             /* views of a part of an allocation keep the whole */                      \
    X(ONE_GRAPH, "one graph")               /* the iterations of a loop add to one graph, which the last step frees */ \
    X(CYCLES, "reference cycles")           /* a loop leaves objects that only the garbage collector frees */          \
    X(TRACEBACK, "kept by a traceback")     /* an exception that is handled keeps the frames that it left */           \
    X(EXCEPTIONS, "kept by exceptions")     /* the program keeps exceptions, and these the frames that they left */    \
    X(GROWTH, "growth")                     /* a loop keeps memory; who holds it is not known */                       \
    X(CHECKPOINT, "checkpoint on the card") /* next to the weights that were copied from it */                         \
    X(OTHER_CARD, "other card")             /* memory of a rank on a card that is not its own */                       \
    X(NOT_UPDATED, "gradients not used")    /* of a module that no optimizer updates, such as a teacher */             \
    X(NOT_DETACHED, "not detached")         /* the output of a model that another optimizer updates */                 \
    X(ZEROED, "gradients set to zero")      /* not freed, so they stay during the forward pass */                      \
    X(CASTS, "casts of autocast")           /* take more than activations in half precision save */                    \
    X(CACHED_CASTS, "casts in autocast's cache") /* through backward, which is inside its region */                    \
    X(UNREAD_GRAPH, "graph without backward")    /* a model is called with gradients, and no backward follows */       \
    X(WEIGHT_COPY, "copy of the weights")        /* an average or a stored state, on the card between steps */         \
    X(EVALUATION, "peak outside training") /* validation or generation takes more than training, without growth */     \
    X(GATHERED, "gathered at once")        /* FSDP shards the model as a whole, not its blocks */                      \
    X(NOT_YET_SHARDED, "not yet sharded")  /* the whole model is on the card before FSDP shards it */                  \
    X(UNSHARDED, "gathered and kept")      /* FSDP keeps gathered blocks from forward to backward */                   \
    X(EARLY_DATA, "data on the card")      /* moved there before the first step, and kept */                           \
    X(CACHE, "key-value cache")            /* that does not grow, such as one with its whole length from the start */  \
    X(BUCKETS, "gradient buckets")         /* of DDP, next to the gradients */                                         \
    X(ONE_SEGMENT, "one segment")          /* a checkpointed segment over many layers, computed again at once */       \
    X(SCORES, "attention scores")          /* a value for each pair of positions, kept for backward */                 \
    X(ONE_HOT, "one-hot labels")           /* a value for each class, in int64 */                                      \
    X(BROADCAST, "broadcasting")           /* an elementwise operator's result is much larger than its inputs */       \
    X(REPEATED, "repeated tensor")         /* copies of a tensor that broadcasting would only read */                  \
    X(PAIRS, "all pairs")                  /* a value for each pair of rows of two tensors */                          \
    X(LOGITS, "logits")                    /* of many classes, and what a cross entropy computes from them */          \
    X(DOUBLES, "float64")                  /* tensors in double precision */                                           \
    X(ONE_FORWARD, "one forward pass")     /* without gradients, over a batch that can be sliced */                    \
    X(TABLES, "gradients of tables")       /* dense gradients of huge embedding tables */                              \
    X(JACOBIAN, "jacobian")                /* a whole one, or a Hessian, and what computes it */                       \
    X(LORA_DROPOUT, "dropout of LoRA")     /* keeps a copy of the input of each adapted layer */                       \
    X(FOREACH, "foreach temporaries")      /* an optimizer computes lists of tensors, each as large as the weights */

/* X(change, name). */
#define MT_OBSERVED_CHANGES(X)                                                                                         \
    X(NO_GRAD, "no_grad")                            /* run the loop without gradients */                              \
    X(DETACH, "detach")                              /* keep values, not tensors with graphs */                        \
    X(DETACH_STATE, "detach the state")              /* that each iteration passes to the next */                      \
    X(FIRST_ORDER, "first order")                    /* gradients without a graph, or backward for each task */        \
    X(BACKWARD_EACH, "backward in each iteration")   /* gradients of parts of a batch add up */                        \
    X(MOVE_TO_HOST, "move to host")                  /* move what the loop collects to the host, now and then */       \
    X(EVAL_STEPS, "eval_accumulation_steps")         /* the same by a setting of transformers' Trainer */              \
    X(HISTORY_SIZE, "history_size")                  /* of LBFGS */                                                    \
    X(SAVE_FOR_BACKWARD, "save_for_backward")        /* in place of an attribute of ctx */                             \
    X(BOUND_CACHE, "bound the cache")                /* bound what the loop collects, such as a key-value cache */     \
    X(SHORTER_CACHE, "shorter cache")                /* or for fewer sequences */                                      \
    X(LIMIT_RESULTS, "lru_cache maxsize")            /* of a function whose results are kept */                        \
    X(CLONE_VIEWS, "clone views")                    /* copy the part that is needed */                                \
    X(BREAK_CYCLE, "break the cycle")                /* or collect garbage in each iteration */                        \
    X(AUTOGRAD_GRAD, "torch.autograd.grad")          /* in place of backward(create_graph=True) */                     \
    X(LEAVE_EXCEPT, "leave the except block")        /* before another attempt */                                      \
    X(CLEAR_FRAMES, "clear frames")                  /* of exceptions, or keep their texts */                          \
    X(FIND_HOLDER, "find the holder")                /* record with holders */                                         \
    X(MAP_LOCATION, "map_location")                  /* load to the host */                                            \
    X(OWN_CARD, "own card")                          /* set the card of the rank, and load to it or to the host */     \
    X(BATCH_AT_USE, "move each batch")               /* to the card in the step that reads it */                       \
    X(FREEZE, "freeze")                              /* no gradients for the module */                                 \
    X(DETACH_OUTPUT, "detach the output")            /* of the other model, in the step of this one */                 \
    X(SET_TO_NONE, "set_to_none=True")               /* free gradients */                                              \
    X(END_AUTOCAST, "backward outside autocast")     /* so that its cache is empty */                                  \
    X(AUTOCAST_BATCH, "larger batch under autocast") /* or no autocast */                                              \
    X(COPY_ON_HOST, "copy on the host")              /* keep an average or a stored state there */                     \
    X(EVAL_BATCH, "smaller evaluation batch")        /* or one without gradients */                                    \
    X(SHARD_BLOCKS, "fully_shard of blocks")         /* so that one block is gathered at a time */                     \
    X(META, "meta device")                           /* make the model there, and allocate only the shards */          \
    X(RESHARD, "reshard_after_forward")              /* so that backward gathers a block again */                      \
    X(BUCKET_VIEW, "gradient_as_bucket_view")        /* gradients are views of the buckets */                          \
    X(CHECKPOINT_EACH, "checkpoint each block")                                                                        \
    X(SDPA, "scaled_dot_product_attention") /* computes attention without scores */                                    \
    X(CLASS_INDICES, "class indices")       /* as labels */                                                            \
    X(NO_BROADCAST, "smaller intermediate") /* an operator that reduces as it computes, or chunks */                   \
    X(PARTS, "parts of the rows")           /* of all pairs, one part after another */                                 \
    X(EXPAND, "expand")                     /* in place of a copy */                                                   \
    X(SLICED_LOSS, "sliced loss")           /* logits of a few positions at a time */                                  \
    X(FLOAT32, "float32")                   /* weights and data in single precision */                                 \
    X(SLICE_BATCH, "slice the batch")       /* in inference, where slices are independent */                           \
    X(SPARSE, "sparse=True")                /* gradients that have only the rows that were used */                     \
    X(JVP, "torch.func.jvp")                /* products with the Jacobian, without it */                               \
    X(NO_LORA_DROPOUT, "lora_dropout=0")    /* or checkpointing of the layers */                                       \
    X(FUSED, "fused or foreach=False")

#define X(kind, ...) MT_OBSERVED_##kind,
typedef enum mt_observed_kind { MT_OBSERVED_KINDS(X) MT_OBSERVED_KIND_COUNT } mt_observed_kind;
#undef X
#define X(change, ...) MT_OBSERVED_CHANGE_##change,
typedef enum mt_observed_change { MT_OBSERVED_CHANGES(X) MT_OBSERVED_CHANGE_COUNT } mt_observed_change;
#undef X

/* An observation. Borrows the trace's texts. */
struct mt_observed {
    mt_observed_kind kind;
    mt_observed_change change;
    const char *phase;    /* of the program: "validate"; "": none, such as for another card and gradients */
    const char *name;     /* of another card, a module, a tensor or an optimizer: "cuda:0", "teacher"; otherwise NULL */
    uint64_t bytes;       /* for a loop, per iteration; for gradients, in total; otherwise at the peak of the phase */
    int64_t full_at;      /* for a loop, the estimated iteration that fills the card; -1: unknown */
    int64_t iterations;   /* for a loop, all that the program has; 0: unknown */
    const char *file;     /* of the loop, or where the module or the memory on another card is set; "": unknown */
    int64_t line;         /* 0: unknown */
    const char *taken_at; /* the line that allocated: "val.py:13"; "": not recorded */
    const char *op, *dtype, *shape;     /* of the tensors that it is about; NULL: of several */
    const struct mt_holder_row *holder; /* NULL: unknown */
};

/* The observations about a run, largest first, and their sources. */
struct mt_observations {
    struct mt_observed *items;
    size_t count;
    struct mt_holder_row *holders; /* all, also those without an observation; largest first */
    size_t holder_count;
    bool ran_out; /* the run ended out of memory, so holders of blocks that were live then are known */
    struct mt_program_phase_row *phases;
    size_t phase_count;
};

/* Returns the change for a loop that collects tensors in the holder. */
mt_observed_change mt_holder_change(const struct mt_holder_row *holder, const char *phase);

/* True if a holder, which may be NULL, is of that kind. */
bool mt_holder_is_kind(const struct mt_holder_row *holder, mt_holder_kind kind);

/* True if each value of a holder is computed from the value before, with its graph. */
bool mt_holder_is_chain(const struct mt_holder_row *holder);

/* True if a phase of the program has that name. */
bool mt_program_phase_is(const char *name, mt_program_phase phase);

/* True if two rows are the same variable or attribute. Each loop in which it grows has a row. */
bool mt_holder_is_same(const struct mt_holder_row *a, const struct mt_holder_row *b);

/* True if an observation is about a loop that keeps memory. */
bool mt_observed_is_growth(const struct mt_observed *observed);

/* True if one of them is. */
bool mt_observations_have_growth(const struct mt_observations *observations);

void mt_observations_release(struct mt_observations *observations);

/* Return the names in JSON. */
const char *mt_observed_kind_name(mt_observed_kind kind);
const char *mt_observed_change_name(mt_observed_change change);
