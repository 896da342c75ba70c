/* Tests of the output made from the command table: the manual, as formatters read it, and completions, as shells do. A
 * test whose tool is missing says so and is skipped. */
#include "base/status.h"
#include "base/text.h"
#include "program.h"

#include <ctype.h>

/* A folder with a trace of two runs, and the program in it under its name. */
static int set_up(void **state)
{
    *state = enter_folder("test_help");
    assert_int_equal(shell("ln -s \"$M\" memtrace")->code, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(shell("\"$M\" run --device sim --vocab 64 --d-model 16 --d-ff 32 --layers 1 --heads 2 --seq 8"
                               " --steps 1 --name %s",
                               i == 0 ? "first" : "'the second'")
                             ->code,
                         0);
    return 0;
}

static void need(const char *tool)
{
    if (shell("command -v %s", tool)->code != 0) {
        print_message("skipped: there is no %s\n", tool);
        skip();
    }
}

/* Returns every command, from `help --json`. */
static json_t *load_table(void)
{
    json_t *table = json_of(MEMTRACE("help --json"));
    assert_schema(table, "memtrace.help/1");
    assert_true(json_array_size(json_object_get(table, "rows")) > 10);
    return table;
}

static const char *page_of(const json_t *command)
{
    const struct said *said = shell("\"$M\" help %s --man", command != NULL ? text_of(command, "name") : "");
    assert_int_equal(said->code, 0);
    assert_string_equal(said->err, "");
    return said->out;
}

/* The page without its escapes: what it shows. */
static void unescape(const char *page, char *out)
{
    static const char *const escapes[][2] = {{"\\-", "-"},   {"\\(aq", "'"}, {"\\(ga", "`"}, {"\\(ha", "^"},
                                             {"\\(ti", "~"}, {"\\fB", ""},   {"\\fI", ""},   {"\\fR", ""},
                                             {"\\&", ""},    {"\\e", "\\"}};
    while (*page != '\0') {
        size_t known = 0, count = sizeof escapes / sizeof escapes[0];
        while (known < count && strncmp(page, escapes[known][0], strlen(escapes[known][0])) != 0)
            known++;
        if (known == count) {
            *out++ = *page++;
            continue;
        }
        out = stpcpy(out, escapes[known][1]);
        page += strlen(escapes[known][0]);
    }
    *out = '\0';
}

/* Makes one blank of line breaks and the blanks around them: lines may be broken anywhere. */
static void join_lines(char *text)
{
    char *out = text;
    for (const char *at = text; *at != '\0'; at++)
        if (!isspace((unsigned char)*at))
            *out++ = *at;
        else if (out > text && out[-1] != ' ')
            *out++ = ' ';
    *out = '\0';
}

/* The page documents each option like the table, and so does --help. */
static void check_options(const json_t *command, const char *page)
{
    static char shown[OUTPUT_BYTES], help[OUTPUT_BYTES];
    unescape(page, shown);
    strcpy(help, shell("\"$M\" %s --help", text_of(command, "name"))->out);
    join_lines(help);
    assert_says(help, text_of(command, "summary"));
    const json_t *options = json_object_get(command, "options");
    for (size_t i = 0; i < json_array_size(options); i++) {
        const json_t *option = json_array_get(options, i);
        assert_says(shown, text_of(option, "name"));
        assert_says(help, text_of(option, "name"));
        assert_says(help, text_of(option, "help"));
        if (strstr(shown, "\\[u") == NULL) /* what is no ASCII is spelled by its code there */
            assert_says(shown, text_of(option, "help"));
    }
    assert_says(shown, text_of(command, "summary"));
}

static void every_page_has_its_sections_and_every_option(void **state)
{
    (void)state;
    static const char *const sections[] = {"NAME",     "SYNOPSIS",        "DESCRIPTION", "OPTIONS",
                                           "EXAMPLES", "\"EXIT STATUS\"", "\"SEE ALSO\""};
    json_t *table = load_table(), *rows = json_object_get(table, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *command = json_array_get(rows, i);
        const char *page = page_of(command);
        for (size_t j = 0; j < sizeof sections / sizeof sections[0]; j++) {
            char heading[64];
            snprintf(heading, sizeof heading, "\n.SH %s\n", sections[j]);
            assert_says(page, heading);
        }
        check_options(command, page);
    }
    const char *program = page_of(NULL);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        struct mt_text line = {0};
        mt_text_add(&line, ".BR memtrace\\-");
        for (const char *letter = text_of(json_array_get(rows, i), "name"); *letter != '\0'; letter++)
            mt_text_add(&line, *letter == '-' ? "\\-" : "%c", *letter);
        mt_text_add(&line, " (1)");
        assert_says(program, line.data);
        mt_text_release(&line);
    }
    json_decref(table);
}

/* A line that begins with a dot is one of the macros that are meant, and all is ASCII. */
/* With one word a code, in the help as in the pages. */
static void every_exit_code_is_told(void **state)
{
    (void)state;
    char *help = strdup(MEMTRACE("help")->out);
    char *page = strdup(MEMTRACE("help --man")->out);
    join_lines(help);
#define X(name, code, words)                                                                                           \
    if (strstr(help, #code " " words) == NULL)                                                                         \
        fail_msg("help does not say %d %s", code, words);                                                              \
    assert_non_null(strstr(page, ".B " #code "\n" words));
    MT_STATUSES(X)
#undef X
    free(help);
    free(page);
}

static void no_text_is_taken_for_a_request(void **state)
{
    (void)state;
    static const char *const macros[] = {".TH ", ".SH ", ".TP\n", ".PP\n", ".B ", ".I ", ".BR ", ".nf\n", ".fi\n"};
    json_t *table = load_table(), *rows = json_object_get(table, "rows");
    for (size_t i = 0; i <= json_array_size(rows); i++) {
        const char *page = page_of(json_array_get(rows, i));
        for (const char *at = page; *at != '\0'; at++) {
            assert_true((unsigned char)*at < 0x80);
            if (at > page && at[-1] != '\n')
                continue;
            bool known = *at != '.' && *at != '\'';
            for (size_t j = 0; j < sizeof macros / sizeof macros[0]; j++)
                known |= strncmp(at, macros[j], strlen(macros[j])) == 0;
            if (!known)
                fail_msg("a line begins %.20s", at);
        }
    }
    json_decref(table);
}

/* Formats every page; `format` reads it and says on either stream what it does not like. */
static void check_pages(const char *format)
{
    json_t *table = load_table(), *rows = json_object_get(table, "rows");
    for (size_t i = 0; i <= json_array_size(rows); i++) {
        const json_t *command = json_array_get(rows, i);
        const char *name = command != NULL ? text_of(command, "name") : "";
        const struct said *said = shell("\"$M\" help %s --man | %s 2>&1", name, format);
        if (said->code != 0 || said->out[0] != '\0')
            fail_msg("%s: %s", name, said->out);
    }
    json_decref(table);
}

static void groff_formats_every_page_without_a_warning(void **state)
{
    (void)state;
    need("groff");
    check_pages("groff -man -ww -z");
}

/* Pages intentionally have no date: the same program makes the same page. */
static void mandoc_formats_every_page_without_a_warning(void **state)
{
    (void)state;
    need("mandoc");
    check_pages("mandoc -Tlint -Wwarning | grep -v 'missing date' || true");
}

static void a_page_shows_quotes_dashes_and_other_scripts_as_written(void **state)
{
    (void)state;
    need("groff");
    const struct said *said = shell("\"$M\" help run --man | groff -man -Tutf8 -P-cbou");
    assert_says(said->out, "--zero-grad before-backward|before-forward");
    assert_says(said->out, "policy=torch,max_split=…,…");
    assert_says(shell("\"$M\" help sql --man | groff -man -Tutf8 -P-cbou")->out,
                "memtrace sql 'SELECT id, device, state FROM run'");
}

/* Returns the completions that bash offers for the line typed so far, sorted, with a space after each. */
static const char *completed(const char *breaks, const char *line)
{
    const struct said *said = shell("cat >ask.bash <<'END'\n"
                                    "PATH=$PWD:$PATH\n"
                                    "source <(memtrace help --completions bash)\n"
                                    "COMP_WORDBREAKS='%s' COMP_LINE='%s' COMP_POINT=${#COMP_LINE}\n"
                                    "[[ $(complete -p memtrace) == *_memtrace* ]] || exit 1\n"
                                    "COMP_POINT=${#COMP_LINE}\n"
                                    "_memtrace 2>&1\n"
                                    "printf '%%s\\n' \"${COMPREPLY[@]}\" | LC_ALL=C sort | tr '\\n' ' '\n"
                                    "END\n"
                                    "bash ask.bash",
                                    breaks, line);
    assert_int_equal(said->code, 0);
    return said->out;
}

static void bash_completes_what_can_be_meant(void **state)
{
    (void)state;
    need("bash");
    static const struct {
        const char *breaks, *line, *offered;
    } cases[] = {
        {" =:", "memtrace ru", "run runs "},
        {" =:", "memtrace run --mo", "--mode --model --moments "},
        {" =:", "memtrace run --mode ", "fwd fwd_bwd infer "},
        {" =:", "memtrace run --json --mode f", "fwd fwd_bwd "},
        {" =:", "memtrace run --mode=f", "fwd fwd_bwd "},
        {" ", "memtrace run --mode=f", "--mode=fwd --mode=fwd_bwd "},
        {" =:", "memtrace run --mode infer --autocast b", "bf16 "},
        {" =:", "memtrace run --model 2", "2.7B "},
        {" =:", "memtrace run --device sim:rtx409", "rtx4090 "},
        {" =", "memtrace run --device sim:rtx4", "sim:rtx4060 sim:rtx4070 sim:rtx4080 sim:rtx4090 "},
        {" =:", "memtrace report --device c", "cpu cuda "},
        {" =:", "memtrace help --completions ", "bash fish zsh "},
        {" =:", "memtrace help vers", "version "},
        {" =:", "memtrace peak --run ", "1 2 first the\\ second "},
        {" =:", "memtrace peak --trace memtrace.db --run f", "first "},
        {" =:", "memtrace peak --trace nowhere.db --run ", " "},
        {" =:", "memtrace check --against f", "first "},
        {" =:", "memtrace diff 1 ", "1 2 first the\\ second "},
        {" =:", "memtrace peak --trace memtr", "memtrace memtrace.db "},
        {" =:", "memtrace top 10 --at ", "peak run "},
        {" =:", "memtrace top ", " "},
        {" =:", "memtrace check --max-allocated ", " "},
        {" =:", "memtrace peek --", " "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *offered = completed(cases[i].breaks, cases[i].line);
        if (strcmp(offered, cases[i].offered) != 0)
            fail_msg("%s: [%s], not [%s]", cases[i].line, offered, cases[i].offered);
    }
}

static void bash_completes_every_command_and_option(void **state)
{
    (void)state;
    need("bash");
    json_t *table = load_table(), *rows = json_object_get(table, "rows");
    const char *commands = completed(" =:", "memtrace ");
    char line[64], word[64];
    for (size_t i = 0; i < json_array_size(rows); i++) {
        snprintf(word, sizeof word, "%s ", text_of(json_array_get(rows, i), "name"));
        assert_says(commands, word);
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *command = json_array_get(rows, i), *options = json_object_get(command, "options");
        snprintf(line, sizeof line, "memtrace %s -", text_of(command, "name"));
        const char *offered = completed(" =:", line);
        for (size_t j = 0; j < json_array_size(options); j++) {
            const char *name = text_of(json_array_get(options, j), "name");
            snprintf(word, sizeof word, "%s ", name);
            if (name[0] == '-')
                assert_says(offered, word);
        }
    }
    json_decref(table);
}

static void fish_completes_what_can_be_meant(void **state)
{
    (void)state;
    need("fish");
    static const char *const cases[][2] = {
        {"memtrace ru", "run runs "},
        {"memtrace run --mode ", "fwd fwd_bwd infer "},
        {"memtrace run --device sim:rtx4", "sim:rtx4060 sim:rtx4070 sim:rtx4080 sim:rtx4090 "},
        {"memtrace peak --run ", "1 2 first the second "},
        {"memtrace help vers", "version "},
        {"memtrace check --max-", "--max-allocated --max-requested --max-reserved "},
        {"memtrace help run", "run runs "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell(
            "\"$M\" help --completions fish >memtrace.fish; HOME=$PWD PATH=$PWD:$PATH fish -c 'source memtrace.fish;"
            " complete -C \"%s\"' | cut -f1 | LC_ALL=C sort | tr '\\n' ' '",
            cases[i][0]);
        if (strcmp(said->out, cases[i][1]) != 0)
            fail_msg("%s: [%s], not [%s] %s", cases[i][0], said->out, cases[i][1], said->err);
    }
}

static void shells_can_read_their_scripts(void **state)
{
    (void)state;
    static const char *const shells[] = {"bash", "zsh", "fish"};
    size_t read = 0;
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        assert_int_equal(shell("\"$M\" help --completions %s >script", shells[i])->code, 0);
        if (shell("command -v %s", shells[i])->code != 0)
            continue;
        const struct said *said = shell("HOME=$PWD %s -n script", shells[i]);
        if (said->code != 0 || said->err[0] != '\0')
            fail_msg("%s: %s", shells[i], said->err);
        read++;
    }
    if (read == 0)
        skip();
}

static void documents_that_are_generated_are_up_to_date(void **state)
{
    (void)state;
    static const char *const pages[][2] = {{"--json-fields", "docs/json.md"}, {"--operators", "docs/operators.md"}};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        const char *option = pages[i][0], *file = pages[i][1];
        const struct said *said = shell("\"$M\" help %s | diff - '%s/../../%s' | head -20", option, MT_TEST_DATA, file);
        if (said->out[0] != '\0' || said->err[0] != '\0')
            fail_msg("%s is stale; memtrace help %s >%s\n%s%s", file, option, file, said->out, said->err);
    }
}

static void the_fields_of_one_answer_can_be_asked_for(void **state)
{
    (void)state;
    const char *page = MEMTRACE("help peak --json-fields")->out;
    assert_true(strncmp(page, "## memtrace.peak/3\n", strlen("## memtrace.peak/3\n")) == 0);
    assert_non_null(strstr(page, "\nrequested?, as of allocated\n"));
    assert_null(strstr(page, "memtrace.top"));
}

static void what_is_asked_of_help_must_make_sense(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"help --man --json", "exclude each other"},
                                           {"help --json --json-fields", "exclude each other"},
                                           {"help --man --completions zsh", "exclude each other"},
                                           {"help run --completions zsh", "all commands at once"},
                                           {"help --completions tcsh", "There are"},
                                           {"help pek --man", "did you mean \"peak\""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i][0]);
        assert_int_equal(said->code, 2);
        assert_string_equal(said->out, "");
        assert_true(strcasestr(said->err, cases[i][1]) != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page_has_its_sections_and_every_option),
        cmocka_unit_test(every_exit_code_is_told),
        cmocka_unit_test(no_text_is_taken_for_a_request),
        cmocka_unit_test(groff_formats_every_page_without_a_warning),
        cmocka_unit_test(mandoc_formats_every_page_without_a_warning),
        cmocka_unit_test(a_page_shows_quotes_dashes_and_other_scripts_as_written),
        cmocka_unit_test(bash_completes_what_can_be_meant),
        cmocka_unit_test(bash_completes_every_command_and_option),
        cmocka_unit_test(fish_completes_what_can_be_meant),
        cmocka_unit_test(shells_can_read_their_scripts),
        cmocka_unit_test(documents_that_are_generated_are_up_to_date),
        cmocka_unit_test(the_fields_of_one_answer_can_be_asked_for),
        cmocka_unit_test(what_is_asked_of_help_must_make_sense),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
