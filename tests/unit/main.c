/* main.c - a room's unit tests in one program: `unit_<room> <subject>` runs main() of test_<subject>.c. Exits with 2 when
 * there is no such subject. subjects.h, which CMakeLists.txt makes for each room, has a SUBJECT(name) a line. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SUBJECT(name) int test_##name(void);
#include "subjects.h"
#undef SUBJECT

static const struct {
    const char *name;
    int (*run)(void);
} subjects[] = {
#define SUBJECT(name) {#name, test_##name},
#include "subjects.h"
#undef SUBJECT
};

#define SUBJECTS_N (sizeof subjects / sizeof subjects[0])

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < SUBJECTS_N; i++)
        if (strcmp(argv[1], subjects[i].name) == 0) return subjects[i].run();
    fprintf(stderr, "usage: %s subject\nsubjects:", argv[0]);
    for (size_t i = 0; i < SUBJECTS_N; i++)
        fprintf(stderr, " %s", subjects[i].name);
    fprintf(stderr, "\n");
    return 2;
}
