/* http/csv.c - see csv.h. */
#include "http/csv.h"

#include "base/json.h"

static void cell_begin(struct csv *c)
{
    if (c->more) buf_put_char(c->out, ',');
    c->more = true;
}

/* Spreadsheets take these for the begin of a formula (OWASP, "CSV Injection"). */
static bool is_formula(struct slice text)
{
    return text.n > 0 && memchr("=+-@\t\r", text.p[0], 6) != NULL;
}

static bool wants_quotes(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (memchr(",\"\r\n", text.p[i], 4) != NULL) return true;
    return false;
}

/* Control bytes but TAB, CR and LF, which readers of CSV refuse. */
static void control_replace(struct buf *text, struct slice from)
{
    struct buf utf8 = {0};
    text_put_utf8(&utf8, from);
    for (size_t i = 0; i < utf8.n; i++) {
        char c = utf8.p[i];
        bool control = (c >= 0 && c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 0x7f;
        if (control)
            BUF_LIT(text, "\xEF\xBF\xBD");
        else
            buf_put_char(text, c);
    }
    buf_free(&utf8);
}

void csv_text(struct csv *c, struct slice text)
{
    struct buf clean = {0};
    cell_begin(c);
    if (is_formula(text)) buf_put_char(&clean, '\'');
    control_replace(&clean, text);
    bool quoted = wants_quotes(buf_slice(&clean));
    if (quoted) buf_put_char(c->out, '"');
    for (size_t i = 0; i < clean.n; i++) {
        if (clean.p[i] == '"') buf_put_char(c->out, '"');
        buf_put_char(c->out, clean.p[i]);
    }
    if (quoted) buf_put_char(c->out, '"');
    buf_free(&clean);
}

void csv_int(struct csv *c, int64_t v)
{
    cell_begin(c);
    buf_int(c->out, v);
}

void csv_figure(struct csv *c, struct figure f)
{
    cell_begin(c);
    if (f.known) buf_int(c->out, f.value);
}

void csv_end(struct csv *c)
{
    BUF_LIT(c->out, "\r\n");
    c->more = false;
}
