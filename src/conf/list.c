/* conf/list.c - see list.h. */
#include "conf/list.h"

#include "base/heap.h"
#include "base/slice.h"
#include "conf/unit.h"

static struct slice spaces_trim(struct slice s)
{
    while (s.n > 0 && s.p[0] == ' ')
        s = slice_of(s.p + 1, s.n - 1);
    while (s.n > 0 && s.p[s.n - 1] == ' ')
        s.n--;
    return s;
}

/* Takes the text before the first sep, or all of it, off rest. False: there was no sep, so nothing is left. */
static bool cut(struct slice *rest, char sep, struct slice *head)
{
    const char *at = rest->n == 0 ? NULL : memchr(rest->p, sep, rest->n);
    size_t n = at == NULL ? rest->n : (size_t)(at - rest->p);
    *head = spaces_trim(slice_of(rest->p, n));
    *rest = at == NULL ? slice_of(NULL, 0) : slice_of(at + 1, rest->n - n - 1);
    return at != NULL;
}

static bool number_add(const struct conf_row *row, struct slice text, struct conf_numbers *out,
                       const char **why)
{
    int64_t value;
    if (!num_parse(text, &value) || value < row->least || value > row->most) return false;
    for (size_t i = 0; i < out->n; i++)
        if (out->all[i] == value) {
            *why = "a list with the same number twice";
            return false;
        }
    if (out->n == CONF_NUMBERS_MAX) {
        *why = "a list that is too long";
        return false;
    }
    out->all = heap_realloc(out->all, (out->n + 1) * sizeof(*out->all));
    out->all[out->n++] = value;
    return true;
}

bool numbers_read(const struct conf_row *row, struct slice text, struct conf_numbers *out, const char **why)
{
    bool good, more;
    do {
        struct slice number;
        more = cut(&text, ',', &number);
        good = number_add(row, number, out, why);
    } while (good && more);
    return good;
}

static bool tier_read(const struct conf_row *row, struct slice text, struct conf_tier *out)
{
    struct slice window;
    cut(&text, ' ', &window);
    return unit_read_seconds(window, &out->window_s) && unit_read_seconds(spaces_trim(text), &out->keep_s) &&
           out->window_s >= row->least && out->window_s <= out->keep_s && out->keep_s <= row->most;
}

static bool tier_follows(const struct conf_tiers *before, const struct conf_tier *tier, const char **why)
{
    if (before->n == 0) return true;
    const struct conf_tier *last = &before->all[before->n - 1];
    if (tier->window_s <= last->window_s)
        *why = "a list whose windows do not grow from one tier to the next";
    else if (tier->keep_s < last->keep_s)
        *why = "a list that keeps bigger windows for a shorter time than smaller ones";
    else if (before->n == CONF_TIERS_MAX)
        *why = "a list that is too long";
    else
        return true;
    return false;
}

bool tiers_read(const struct conf_row *row, struct slice text, struct conf_tiers *out, const char **why)
{
    struct conf_tiers tiers = {.all = heap_zalloc(CONF_TIERS_MAX * sizeof(*tiers.all))};
    bool good, more;
    do {
        struct slice part;
        struct conf_tier tier;
        more = cut(&text, ',', &part);
        good = tier_read(row, part, &tier) && tier_follows(&tiers, &tier, why);
        if (good) tiers.all[tiers.n++] = tier;
    } while (good && more);
    if (good)
        *out = tiers;
    else
        heap_free(tiers.all);
    return good;
}

bool text_printable(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7f) return false;
    return text.n > 0;
}

bool texts_read(const struct conf_row *row, struct slice text, struct conf_texts *out, const char **why)
{
    if (!text_printable(text) || (int64_t)text.n < row->least || (int64_t)text.n > row->most) return false;
    for (size_t i = 0; i < out->n; i++)
        if (slice_eq(slice_str(out->all[i]), text)) {
            *why = "a list with the same text twice";
            return false;
        }
    if (out->n == CONF_TEXTS_MAX) {
        *why = "a list that is too long";
        return false;
    }
    out->all = heap_realloc(out->all, (out->n + 1) * sizeof(*out->all));
    out->all[out->n++] = heap_strndup(text.p, text.n);
    return true;
}

void texts_free(struct conf_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        heap_free(texts->all[i]);
    heap_free(texts->all);
}

void numbers_write(const struct conf_numbers *numbers, struct buf *out)
{
    buf_put_char(out, '[');
    for (size_t i = 0; i < numbers->n; i++) {
        if (i > 0) BUF_LIT(out, ", ");
        buf_int(out, numbers->all[i]);
    }
    buf_put_char(out, ']');
}

void tiers_write(const struct conf_tiers *tiers, struct buf *out)
{
    buf_put_char(out, '"');
    for (size_t i = 0; i < tiers->n; i++) {
        if (i > 0) BUF_LIT(out, ", ");
        unit_write_ms(tiers->all[i].window_s * 1000, out);
        buf_put_char(out, ' ');
        unit_write_ms(tiers->all[i].keep_s * 1000, out);
    }
    buf_put_char(out, '"');
}
