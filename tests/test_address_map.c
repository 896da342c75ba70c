/* The map of addresses against a table with a place for each. */
#include "seed.h"
#include "trace/store/address_map.h"

#include <string.h>

enum { PLACES = 8192 };

/* An entry of a map, and where its naive twin keeps the same: by address, the begin of the entry there, plus 1. */
struct entry {
    struct mt_address_range range;
    uint64_t check;
};

static void put_entry(struct mt_address_map *map, uint16_t *twin, uint64_t begin, uint64_t end)
{
    const struct entry entry = {{begin, end}, ~begin};
    mt_address_map_add(map, &entry);
    for (uint64_t at = begin; at < end; at++)
        twin[at] = (uint16_t)(begin + 1);
}

static void remove_entry(struct mt_address_map *map, uint16_t *twin, uint64_t address)
{
    uint16_t known = twin[address];
    mt_address_map_remove(map, address);
    for (uint64_t at = (uint64_t)known - 1; at < PLACES && twin[at] == known; at++)
        twin[at] = 0;
}

static uint64_t draw(uint64_t *random, uint64_t below)
{
    return mt_splitmix64((*random)++) % below;
}

static void a_map_of_addresses_finds_what_a_table_holds(void **state)
{
    (void)state;
    struct mt_address_map map;
    static uint16_t twin[PLACES];
    memset(twin, 0, sizeof twin);
    uint64_t random = take_seed();
    mt_address_map_create(&map, sizeof(struct entry));
    for (int i = 0; i < 200000; i++) {
        uint64_t begin = draw(&random, PLACES - 8), end = begin + 1 + draw(&random, 6), first = begin;
        while (first < end && twin[first] == 0)
            first++;
        const struct entry *found = mt_address_map_find(&map, begin, end);
        assert_int_equal(found != NULL, first < end);
        if (found != NULL)
            assert_true(found->range.begin + 1 == twin[first] && found->check == ~found->range.begin);
        if (found == NULL)
            put_entry(&map, twin, begin, end);
        else if (draw(&random, 100) < (i / 20000 % 2 == 0 ? 20u : 90u)) /* it fills, and empties */
            remove_entry(&map, twin, first);
    }
    mt_address_map_release(&map);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_of_addresses_finds_what_a_table_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
