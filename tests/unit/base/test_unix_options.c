/* What stands behind the path of a unix socket. Groups are the test's own: one of them has so many members that its entry
 * is larger than any buffer one would begin with. */
#include "lib/unit.h"

#include "base/unix_options.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE_BYTES 300000

/* In libc's place. */
int getgrnam_r(const char *name, struct group *entry, char *room, size_t size, struct group **found)
{
    *found = NULL;
    if (strcmp(name, "broken") == 0) return EIO;
    if (strcmp(name, "shop") != 0) return 0;
    if (size < LARGE_BYTES) return ERANGE;
    memset(room, 'x', LARGE_BYTES);
    *entry = (struct group){.gr_gid = getegid()};
    *found = entry;
    return 0;
}

static void words_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path, *wrong;
        mode_t mode;
    } all[] = {
        {"/run/x.sock", "/run/x.sock", NULL, UNIX_MODE_DEFAULT},
        {"/run/x.sock?mode=0600", "/run/x.sock", NULL, 0600},
        {"/run/x.sock?mode=666&group=www-data", "/run/x.sock", NULL, 0666},
        {"/run/x.sock?mode=0060", "/run/x.sock", "mode", 0},
        {"/run/x.sock?mode=0770", "/run/x.sock", "mode", 0},
        {"/run/x.sock?mode=06660", "/run/x.sock", "mode", 0},
        {"/run/x.sock?mode=0680", "/run/x.sock", "mode", 0},
        {"/run/x.sock?group=", "/run/x.sock", "group", 0},
        {"/run/x.sock?group=-x", "/run/x.sock", "group", 0},
        {"/run/x.sock?", "/run/x.sock", "behind its '?'", 0},
        {"/run/x.sock?mode=0600&", "/run/x.sock", "behind its '?'", 0},
        {"", "", NULL, UNIX_MODE_DEFAULT},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct slice address = slice_str(all[i].text);
        struct unix_options o;
        const char *wrong = unix_options_cut(&address, &o);
        assert_slice(address, all[i].path);
        assert_int_equal(wrong == NULL, all[i].wrong == NULL);
        if (wrong != NULL) assert_non_null(strstr(wrong, all[i].wrong));
        if (wrong == NULL) assert_int_equal(o.mode, all[i].mode);
    }
}

static enum err given_to(const char *group, struct error *e)
{
    char path[] = "/tmp/tly-options-XXXXXX";
    struct unix_options o = {.mode = UNIX_MODE_DEFAULT};
    snprintf(o.group, sizeof o.group, "%s", group);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    enum err code = unix_options_apply(&o, path, e);
    close(fd);
    unlink(path);
    return code;
}

static void groups_are_found(void **state)
{
    (void)state;
    struct error e;
    char number[16];
    snprintf(number, sizeof number, "%u", (unsigned)getegid());
    assert_int_equal(given_to("", &e), ERR_NONE);
    assert_int_equal(given_to(number, &e), ERR_NONE);
    assert_int_equal(given_to("shop", &e), ERR_NONE);
    assert_int_equal(given_to("nobody-knows-it", &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "there is no group nobody-knows-it on this machine"));
    assert_int_equal(given_to("broken", &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "the group broken cannot be looked up (Input/output error)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_checked),
        cmocka_unit_test(groups_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
