/* Exported stacks, folded and as profiles for pprof: they sum to the peak. */
#include "export_fixture.h"
#include "folded_reader.h"

#include "base/text.h"

static void folded_stacks_sum_to_the_peak_or_to_all_that_was_allocated(void **state)
{
    char *peak = export_to("stacks", "peak.folded"), *run = export_to("--at run", "run.folded.gz");
    char *merged = export_to("--merge-layers", "merged.folded");
    uint64_t bytes = peak_bytes(*state, "cast", MT_MEASURE_ALLOCATED);
    assert_int_equal(sum_of_column(peak, 1, 0), bytes);
    assert_int_equal(sum_of_column(merged, 1, 0), bytes);
    assert_int_equal(sum_of_column(run, 1, 0), all_bytes(*state));
    assert_non_null(strstr(peak, "model;layers;2;ffn;"));
    assert_non_null(strstr(merged, "model;layers;*;ffn;"));
    assert_null(strstr(merged, ";2;"));
    assert_true(count_of_lines(merged) < count_of_lines(peak));
    free(peak);
    free(run);
    free(merged);
}

static void a_stack_has_one_line(void **state)
{
    (void)state;
    static const char *const exports[] = {"stacks", "--at run --merge-layers", "--diff plain"};
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++) {
        char *text = export_to(exports[i], "lines.folded"), *rest = text;
        struct line before = {0}, line;
        for (; next_line(&rest, i == 2 ? 2 : 1, &line); before = line)
            assert_true(strcmp(before.stack, line.stack) < 0);
        free(text);
    }
}

static void the_columns_of_a_difference_sum_to_the_peaks(void **state)
{
    char *text = export_to("stacks --diff plain --run cast", "diff.folded");
    char *back = export_to("stacks --diff memtrace.db:cast --run plain", "back.folded");
    uint64_t plain = peak_bytes(*state, "plain", MT_MEASURE_ALLOCATED);
    uint64_t cast = peak_bytes(*state, "cast", MT_MEASURE_ALLOCATED);
    assert_int_not_equal(plain, cast);
    assert_int_equal(sum_of_column(text, 2, 0), plain);
    assert_int_equal(sum_of_column(text, 2, 1), cast);
    struct line line, flipped;
    for (char *a = text, *b = back; next_line(&a, 2, &line);) {
        assert_true(next_line(&b, 2, &flipped));
        assert_string_equal(line.stack, flipped.stack);
        assert_int_equal(line.bytes[0], flipped.bytes[1]);
        assert_int_equal(line.bytes[1], flipped.bytes[0]);
    }
    free(text);
    free(back);
}

static void expect_type(const struct profile *profile, size_t index, const char *type, const char *unit)
{
    assert_string_equal(profile_string(profile, profile->types[index]), type);
    assert_string_equal(profile_string(profile, profile->units[index]), unit);
}

static void a_profile_has_the_values_of_a_heap_profile(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile = export_profile("stacks");
    assert_true(profile.time_ns > 0);
    assert_int_equal(profile.time_ns, mt_run_start_us(fixture->run) * 1000);
    assert_int_equal(profile.type_count, PROFILE_VALUES);
    expect_type(&profile, 0, "alloc_objects", "count");
    expect_type(&profile, 1, "alloc_space", "bytes");
    expect_type(&profile, 2, "inuse_objects", "count");
    expect_type(&profile, 3, "inuse_space", "bytes");
    assert_string_equal(profile_string(&profile, 0), "");
    assert_string_equal(profile_string(&profile, profile.default_type), "inuse_space");
    uint64_t sums[PROFILE_VALUES] = {0};
    for (size_t i = 0; i < profile.sample_count; i++) {
        assert_int_equal(profile.samples[i].value_count, PROFILE_VALUES);
        for (int value = 0; value < PROFILE_VALUES; value++)
            sums[value] += profile.samples[i].values[value];
    }
    struct mt_block_row *blocks;
    size_t count;
    assert_int_equal(mt_trace_blocks(fixture->trace, fixture->run, 0, INT64_MAX, &blocks, &count), MT_OK);
    free(blocks);
    assert_int_equal(sums[0], count);
    assert_int_equal(sums[1], all_bytes(fixture));
    assert_int_equal(sums[3], peak_bytes(fixture, "cast", MT_MEASURE_ALLOCATED));
    profile_release(&profile);
}

/* Returns the bytes in use of the samples with the frames of a folded stack. */
static uint64_t profile_bytes(const struct profile *profile, const char *stack)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < profile->sample_count; i++) {
        struct mt_text line = {0};
        const struct profile_sample *sample = &profile->samples[i];
        for (size_t frame = sample->depth; frame-- > 0;)
            mt_text_add(&line, "%s%s", line.length > 0 ? ";" : "", profile_frame(profile, sample, frame));
        if (strcmp(mt_text_get(&line), stack) == 0)
            sum += sample->values[3];
        mt_text_release(&line);
    }
    return sum;
}

static void stacks_of_a_profile_are_the_folded_ones(void **state)
{
    (void)state;
    struct profile profile = export_profile("--merge-layers");
    char *folded = export_to("--merge-layers", "same.folded"), *rest = folded;
    struct line line;
    while (next_line(&rest, 1, &line))
        assert_int_equal(profile_bytes(&profile, line.stack), line.bytes[0]);
    free(folded);
    profile_release(&profile);
}

static void labels_of_a_profile_split_the_peak_by_category(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile = export_profile("");
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_peak(fixture->trace, fixture->run, MT_MEASURE_ALLOCATED, &peak), MT_OK);
    assert_true(peak.share_count > 3);
    for (size_t share = 0; share < peak.share_count; share++) {
        uint64_t bytes = 0, blocks = 0;
        for (size_t i = 0; i < profile.sample_count; i++) {
            const struct profile_sample *sample = &profile.samples[i];
            assert_non_null(profile_label(&profile, sample, "phase"));
            if (strcmp(profile_label(&profile, sample, "category"), peak.shares[share].name) != 0)
                continue;
            blocks += sample->values[2];
            bytes += sample->values[3];
        }
        assert_int_equal(bytes, peak.shares[share].allocated_bytes);
        assert_int_equal(blocks, peak.shares[share].blocks);
    }
    mt_peak_row_release(&peak);
    profile_release(&profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_stacks_sum_to_the_peak_or_to_all_that_was_allocated),
        cmocka_unit_test(a_stack_has_one_line),
        cmocka_unit_test(the_columns_of_a_difference_sum_to_the_peaks),
        cmocka_unit_test(a_profile_has_the_values_of_a_heap_profile),
        cmocka_unit_test(stacks_of_a_profile_are_the_folded_ones),
        cmocka_unit_test(labels_of_a_profile_split_the_peak_by_category),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
