/* Requests for GPUs in the forms of schedulers. */
#include "words/gpu_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static void assert_request(const struct mt_gpu_request *request, const char *scheduler, const char *lines)
{
    struct mt_text out = {0};
    int found = 0;
    while (strcmp(mt_scheduler_names[found], scheduler) != 0)
        found++;
    mt_gpu_request_add(request, (mt_scheduler)found, &out);
    assert_string_equal(out.data, lines);
    mt_text_release(&out);
}

static void each_scheduler_gets_its_form(void **state)
{
    (void)state;
    const struct mt_gpu_request one = {"a100-80gb", 1000 * MIB - 1, 1, 1}, many = {"rtx-pro-6000", 2000 * MIB, 4, 8};
    assert_request(&one, "slurm", "--gres=gpu:a100:1\n");
    assert_request(&many, "slurm", "--nodes=4 --gres=gpu:rtx-pro-6000:8\n");
    assert_request(&one, "kai", "gpu-memory: \"1000\"\n");
    assert_request(&many, "kai", "gpu-memory: \"2000\"\ngpu-fraction-num-devices: \"8\"\n");
    assert_request(&one, "hami", "nvidia.com/gpu: 1\nnvidia.com/gpumem: 1000\n");
    assert_request(&many, "k8s", "nvidia.com/gpu: 8\n{key: nvidia.com/gpu.memory, operator: Gt, values: [\"1999\"]}\n");
    assert_request(&one, "dra",
                   "exactly: {deviceClassName: gpu.nvidia.com, count: 1, selectors: [{cel: {expression: "
                   "\"device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('1000Mi')) >= 0\"}}]}\n");
    assert_request(&one, "skypilot", "accelerators: A100-80GB:1\n");
    assert_request(&many, "skypilot", "num_nodes: 4\naccelerators: RTXPRO6000:8\n");
}

static void cards_have_the_names_of_the_scheduler(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"h100", "H100"},
                                           {"a100-40gb", "A100"},
                                           {"v100-16gb", "V100"},
                                           {"v100-32gb", "V100-32GB"},
                                           {"rtx4090", "RTX4090"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct mt_text line = {0};
        mt_text_add(&line, "accelerators: %s:1\n", names[i][1]);
        assert_request(&(struct mt_gpu_request){names[i][0], MIB, 1, 1}, "skypilot", line.data);
        mt_text_release(&line);
    }
    assert_request(&(struct mt_gpu_request){NULL, MIB, 1, 2}, "slurm", "--gres=gpu:2\n");
}

static void what_the_driver_keeps_is_added_up_to_the_whole_card(void **state)
{
    (void)state;
    assert_int_equal(mt_gpu_request_bytes(1000 * MIB, 80000 * MIB), 1768 * MIB);
    assert_int_equal(mt_gpu_request_bytes(79500 * MIB, 80000 * MIB), 80000 * MIB);
    assert_int_equal(mt_gpu_request_bytes(80000 * MIB, 80000 * MIB), 80000 * MIB);
    assert_int_equal(mt_gpu_request_bytes(90000 * MIB, 80000 * MIB), 80000 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_scheduler_gets_its_form),
        cmocka_unit_test(cards_have_the_names_of_the_scheduler),
        cmocka_unit_test(what_the_driver_keeps_is_added_up_to_the_whole_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
