/* Our figures beside a peer's. */
#include "study/attention_parts.h"
#include "study/attention_peer.h"

#include "answer/table.h"
#include "model/settings.h"

#include <stdio.h>

enum { COLUMNS = 11 };

static void add_ms(struct mt_table *table, double ms)
{
    struct mt_text text = {0};
    mt_study_add_ms(&text, ms);
    mt_table_add(table, mt_text_get(&text));
    mt_text_release(&text);
}

static void add_row(struct mt_table *table, const struct mt_attention_case *cell,
                    const struct mt_attention_result *result, const struct mt_attention_peer *peer)
{
    mt_table_add_number(table, cell->d_model);
    mt_table_add_number(table, cell->seq);
    mt_table_add(table, mt_attention_names[cell->attention]);
    mt_table_add_bytes(table, result->kept.requested_bytes);
    mt_table_add_bytes(table, mt_attention_peer_bytes(peer->kept_mib));
    mt_table_add_bytes(table, result->peak_requested_bytes);
    mt_table_add_bytes(table, mt_attention_peer_bytes(peer->peak_mib));
    add_ms(table, result->forward_ms);
    add_ms(table, peer->forward_ms);
    add_ms(table, result->backward_ms);
    add_ms(table, peer->backward_ms);
}

static size_t add_rows(struct mt_table *table, const struct mt_attention_answer *answer, size_t precision)
{
    size_t part = mt_attention_grid_part(answer->grid), count = 0;
    for (size_t i = precision * part; i < (precision + 1) * part; i++) {
        const struct mt_attention_case cell = mt_attention_grid_cell(answer->grid, i);
        const struct mt_attention_peer *peer = mt_attention_peer_find(&cell);
        if (peer == NULL || !answer->results[i].is_done)
            continue;
        add_row(table, &cell, &answer->results[i], peer);
        count++;
    }
    return count;
}

static void print_precision(const struct mt_attention_answer *answer, size_t precision)
{
    static const struct mt_column columns[COLUMNS] = {
        {"d", MT_ALIGN_RIGHT},        {"seq", MT_ALIGN_RIGHT},     {"variant", MT_ALIGN_LEFT},
        {"live", MT_ALIGN_RIGHT},     {"PyTorch", MT_ALIGN_RIGHT}, {"peak", MT_ALIGN_RIGHT},
        {"PyTorch", MT_ALIGN_RIGHT},  {"forward", MT_ALIGN_RIGHT}, {"PyTorch", MT_ALIGN_RIGHT},
        {"backward", MT_ALIGN_RIGHT}, {"PyTorch", MT_ALIGN_RIGHT}};
    struct mt_table *table = mt_table_of_cells(answer->screen, columns, COLUMNS);
    size_t count = add_rows(table, answer, precision);
    if (count > 0) {
        fprintf(answer->screen.file, "%s beside PyTorch\n",
                mt_study_precision_names[answer->grid->precisions.values[precision]]);
        mt_table_print(table);
        putc('\n', answer->screen.file);
    }
    mt_table_destroy(table);
}

void mt_study_print_peer(const struct mt_attention_answer *answer)
{
    struct mt_text text = {0};
    mt_text_add(
        &text,
        "Beside what PyTorch 2.11 took on an H200 (batch 8, one head; its fp32 with products in TF32), memory "
        "without workspaces, times in ms%s. softmax stands beside torch.softmax, whose backward needs its result "
        "alone: so it has no masked scores live. flash stands beside scaled_dot_product_attention.",
        mt_device_executes(answer->device) ? "" : ", ours rooflines");
    mt_screen_say(&answer->screen, mt_text_get(&text));
    mt_text_release(&text);
    putc('\n', answer->screen.file);
    for (size_t p = 0; p < answer->grid->precisions.count; p++)
        print_precision(answer, p);
}
