/* main.c - the tests that UNIT() has added to this program (lib/unit.h): `unit_<room> <subject>` runs those of test_<subject>.c,
 * without a subject all. Exits with 2 when there is no such subject. */
#include "lib/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define SUBJECTS_MAX 32
#define TESTS_MAX 80

static struct subject {
    const char *file; /* NULL: free */
    struct CMUnitTest tests[TESTS_MAX];
    size_t tests_n;
    CMFixtureFunction setup, teardown;
} subjects[SUBJECTS_MAX];

static struct subject *subject_of(const char *file)
{
    struct subject *s = subjects;
    while (s->file != NULL && strcmp(s->file, file) != 0)
        if (++s == subjects + SUBJECTS_MAX) abort();
    s->file = file;
    return s;
}

void unit_add(const char *file, struct CMUnitTest test)
{
    struct subject *s = subject_of(file);
    if (s->tests_n == TESTS_MAX) abort();
    s->tests[s->tests_n++] = test;
}

void units_in(const char *file, CMFixtureFunction setup, CMFixtureFunction teardown)
{
    subject_of(file)->setup = setup;
    subject_of(file)->teardown = teardown;
}

static struct slice subject_name(const struct subject *s)
{
    const char *name = strrchr(s->file, '/') + strlen("/test_");
    return slice_of(name, strlen(name) - strlen(".c"));
}

static int subject_run(const struct subject *s)
{
    return _cmocka_run_group_tests(s->file, s->tests, s->tests_n, s->setup, s->teardown);
}

int main(int argc, char **argv)
{
    int failed = argc == 1 ? 0 : -1; /* -1: none was run */
    for (const struct subject *s = subjects; s->file != NULL; s++)
        if (argc == 1 || slice_eq(subject_name(s), slice_str(argv[1])))
            failed = subject_run(s) + (failed < 0 ? 0 : failed);
    if (failed >= 0) return failed > 0;
    fprintf(stderr, "usage: %s [subject]\nsubjects:", argv[0]);
    for (const struct subject *s = subjects; s->file != NULL; s++)
        fprintf(stderr, " " SLICE_FMT, SLICE_ARG(subject_name(s)));
    fprintf(stderr, "\n");
    return 2;
}
