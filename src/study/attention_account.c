/* What an attention layer keeps for backward, by formula. The terms are those of docs/attention.md; that they are what is
 * really kept is tested against the allocator's counters. */
#include "study/attention_study.h"

/* The factors that terms are made of, as sizes of tensors. */
struct sizes {
    uint64_t activation; /* B·T·C·w */
    uint64_t square;     /* B·H·T²·w */
    uint64_t rows;       /* B·H·T */
    uint64_t width;      /* w */
};

struct account {
    struct mt_attention_term *terms;
    size_t count;
};

static void add(struct account *account, const char *what, const char *formula, uint64_t bytes)
{
    account->terms[account->count++] = (struct mt_attention_term){.what = what, .formula = formula, .bytes = bytes};
}

static void add_square(struct account *account, const char *what, const char *formula, uint64_t bytes)
{
    add(account, what, formula, bytes);
    account->terms[account->count - 1].is_square = true;
}

/* Where the mask is a tensor, so is the root that the scores are divided by. */
static void add_masked(struct account *account, const struct sizes *sizes, uint64_t length)
{
    add_square(account, "causal mask", "T²", length * length);
    add(account, "root of the head size", "w", sizes->width);
    add_square(account, "masked scores", "B·H·T²·w", sizes->square);
}

static void add_kind(struct account *account, const struct mt_attention_case *study, const struct sizes *sizes)
{
    mt_attention_kind kind = study->attention;
    if (kind == MT_ATTENTION_CUSTOM || kind == MT_ATTENTION_SOFTMAX)
        add_masked(account, sizes, (uint64_t)study->seq);
    if (kind == MT_ATTENTION_CUSTOM) {
        add(account, "row maxima", "B·H·T·w", sizes->rows * sizes->width);
        add_square(account, "exponentials", "B·H·T²·w", sizes->square);
        add(account, "row sums", "B·H·T·w", sizes->rows * sizes->width);
    }
    if (kind == MT_ATTENTION_SOFTMAX || kind == MT_ATTENTION_FLASH)
        add(account, "log-sum-exp", "B·H·T·4", sizes->rows * sizeof(float));
    if (kind != MT_ATTENTION_FLASH)
        add_square(account, "weights of attention", "B·H·T²·w", sizes->square);
}

size_t mt_attention_account(const struct mt_attention_case *study, struct mt_attention_term *out)
{
    const uint64_t B = (uint64_t)study->batch, H = (uint64_t)study->heads, T = (uint64_t)study->seq,
                   C = (uint64_t)study->d_model, w = mt_dtype_bytes(study->dtype);
    const struct sizes sizes = {B * T * C * w, B * H * T * T * w, B * H * T, w};
    struct account account = {.terms = out};
    add(&account, "projection weights", "4·C²·w", 4 * C * C * w);
    add(&account, "input", "B·T·C·w", sizes.activation);
    add(&account, "q, k and v", "3·B·T·C·w", 3 * sizes.activation);
    add(&account, "weighted values", "B·T·C·w", sizes.activation);
    add(&account, "output", "B·T·C·w", sizes.activation);
    add_kind(&account, study, &sizes);
    return account.count;
}

uint64_t mt_attention_account_bytes(const struct mt_attention_case *study, uint64_t *out_square_bytes)
{
    struct mt_attention_term terms[MT_ATTENTION_MOST_TERMS];
    size_t count = mt_attention_account(study, terms);
    uint64_t bytes = 0;
    *out_square_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += terms[i].bytes;
        *out_square_bytes += terms[i].is_square ? terms[i].bytes : 0;
    }
    return bytes;
}
