/* admin/guess.h - which columns of a table hold what an app sends in a key and a field: by kind and by name. Pure. */
#ifndef ADMIN_GUESS_H
#define ADMIN_GUESS_H

#include "mysql/schema.h"

#define GUESS_VALUES 12
#define GUESS_WORDS 16

struct example {
    struct slice key, field; /* field.n = 0: an INCR */
};

struct guess_value { /* of the first example; the others say which words vary */
    struct slice text, word;
    const char *kind; /* as the option kinds has it */
    bool in_field, time;
    const struct column *columns[PIECES]; /* several: the parts of a time */
    size_t columns_n;                     /* 0: a literal */
};

struct guess {
    const struct table *table;
    const struct example *examples;
    size_t examples_n;
    struct guess_value values[GUESS_VALUES];
    struct slice words[GUESS_WORDS]; /* of the key, before no value; and of the counter's name */
    size_t values_n, words_n;
    const struct column *count;
    bool by_field;      /* the field names the count */
    const char *unique; /* the key that finds a row; NULL: none */
};

/* g has table and examples, and perhaps words. False: no column could be a count. */
bool guess_make(struct guess *g) MUST_CHECK;

/* How much one of the words is in the name: SAME_WORD as a part of it, 6 a letter of a common run of three or more, else 0. */
#define SAME_WORD 60
unsigned guess_affinity(const char *word, const char *name);
bool guess_could_count(const struct guess *g, const struct column *c);
const struct column *guess_count_of(const struct guess *g,
                                    struct slice field); /* that it names; NULL: none */
bool guess_in_key(const struct guess *g, const struct column *c);
const struct guess_value *guess_value_of(const struct guess *g,
                                         const struct column *c); /* NULL: it has none */
/* Adds a key and a field that a program could send for that table, a NUL after each; text stands where a text would. */
void guess_invent(const struct table *t, const char *text, struct buf *out);

#endif
