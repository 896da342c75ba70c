/* The words of command lines as traces store them: secrets are hidden, and nothing else. */
#include "run/shown_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void assert_shown(const char *words, const char *shown)
{
    struct mt_text text = {0};
    mt_shown_words_add(words, strlen(words), '|', &text);
    assert_string_equal(mt_text_get(&text), shown);
    mt_text_release(&text);
}

static void values_of_secrets_are_hidden(void **state)
{
    (void)state;
    assert_shown("train.py|--token|abc|--batch|8", "train.py --token *** --batch 8");
    assert_shown("--hf_token=abc|--WANDB_API_KEY=d e|wandb.api_key=f|x",
                 "--hf_token=*** --WANDB_API_KEY=*** wandb.api_key=*** x");
    assert_shown("--password|--batch|8|--secret", "--password --batch 8 --secret");
    assert_shown("--token=a=b", "--token=***");
}

static void other_words_are_stored_as_they_are(void **state)
{
    (void)state;
    assert_shown("train.py|--max-tokens|512|--tokenizer|gpt2|--lr=1e-3||token|last",
                 "train.py --max-tokens 512 --tokenizer gpt2 --lr=1e-3  token last");
    assert_shown("", "");
}

static void words_may_be_separated_by_any_character(void **state)
{
    (void)state;
    static const char words[] = "run\0--secret-key\0--access-key\0abc";
    struct mt_text text = {0};
    mt_shown_words_add(words, sizeof words - 1, '\0', &text);
    assert_string_equal(mt_text_get(&text), "run --secret-key --access-key ***");
    mt_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_secrets_are_hidden),
        cmocka_unit_test(other_words_are_stored_as_they_are),
        cmocka_unit_test(words_may_be_separated_by_any_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
