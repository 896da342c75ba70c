/* Asks memtrace fit, and tries the commands that it answers with: what its tests share. */
#pragma once

#include "base/status.h"
#include "program.h"

/* The program goes by its name, as in those commands. */
static inline int set_up(void **state)
{
    *state = enter_folder("fit");
    assert_int_equal(shell("ln -s \"$M\" memtrace")->code, 0);
    return 0;
}

/* Returns the answer of fit, and checks that its exit code is 0 if the run fits and MT_FAILED if not. The caller
 * releases the answer. */
static inline json_t *fit(const char *arguments)
{
    const struct said *said = shell("\"$M\" fit --json %s", arguments);
    json_t *answer = json_of_code(said, said->code == 0 ? 0 : MT_FAILED);
    assert_int_equal(json_is_true(json_object_get(answer, "fits")), said->code == 0);
    return answer;
}

/* Runs a pasted command with more options, the later ones counting. */
static inline int code_of(const char *command, const char *more)
{
    return shell("PATH=$PWD:$PATH; %s --no-trace %s", command, more)->code;
}
