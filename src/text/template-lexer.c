/* SPDX-License-Identifier: MIT */
/*
 * The text of a template cut into tokens, with the rules of jinja2 for white space around tags:
 * "-" strips all of it, trim_blocks drops the newline behind a block or comment, lstrip_blocks
 * the blanks before one that stands first on its line, "+" switches the last two off. One newline
 * at the end of the template is dropped.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <string.h>

#include "src/core/error.h"

typedef struct {
    SluiceTemplate *template;
    const char *source; /* all newlines are \n */
    gsize n;
    gsize pos;
    int line;
    bool is_line_start; /* the last tag ended with a newline */
    GArray *tokens;
    GByteArray *brackets; /* the closing ones that are awaited */
    GError **error;
} Lexer;

static bool G_GNUC_PRINTF(2, 3) fail(Lexer *lx, const char *format, ...)
{
    va_list args;
    g_autofree char *message = NULL;

    va_start(args, format);
    message = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(lx->error, SLUICE_ERROR, SLUICE_ERROR_TEMPLATE, "chat template, line %d: %s",
                lx->line, message);
    return false;
}

static bool
fail_memory(Lexer *lx)
{
    return fail(lx, "the template needs more than %zu bytes", lx->template->arena.n_max_bytes);
}

static bool
is_at(const Lexer *lx, gsize pos, const char *text)
{
    gsize n = strlen(text);

    return pos <= lx->n && n <= lx->n - pos && memcmp(lx->source + pos, text, n) == 0;
}

/* Steps to @pos, counting lines. */
static void
advance(Lexer *lx, gsize pos)
{
    for (; lx->pos < pos; lx->pos++)
        lx->line += lx->source[lx->pos] == '\n';
}

static gsize
skip_space(const Lexer *lx, gsize pos)
{
    while (pos < lx->n && sluice_tpl_is_space(g_utf8_get_char(lx->source + pos)))
        pos = (gsize) (g_utf8_next_char(lx->source + pos) - lx->source);
    return pos;
}

static SluiceTplToken *
add_token(Lexer *lx, SluiceTplTokenType type)
{
    SluiceTplToken token = {.type = type, .line = lx->line};

    g_array_append_val(lx->tokens, token);
    return &g_array_index(lx->tokens, SluiceTplToken, lx->tokens->len - 1);
}

static bool
add_text(Lexer *lx, SluiceTplTokenType type, const char *data, gsize n)
{
    SluiceTplString *s = sluice_tpl_arena_alloc(&lx->template->arena, 1, sizeof *s);

    if (!s)
        return fail_memory(lx);
    *s = (SluiceTplString){.data = data, .n = n};
    add_token(lx, type)->text = s;
    return true;
}

/* The text before a tag that begins at @end and whose sign is @sign. */
static bool
add_data(Lexer *lx, gsize end, char sign, bool may_lstrip)
{
    gsize begin = lx->pos;
    gsize stop = end;

    if (sign == '-') {
        while (stop > begin) {
            const char *last = g_utf8_prev_char(lx->source + stop);
            if (!sluice_tpl_is_space(g_utf8_get_char(last)))
                break;
            stop = (gsize) (last - lx->source);
        }
    } else if (sign != '+' && may_lstrip) {
        const char *newline = memrchr(lx->source + begin, '\n', end - begin);
        gsize line_begin = newline ? (gsize) (newline - lx->source) + 1 : begin;
        if ((newline || lx->is_line_start) && skip_space(lx, line_begin) >= end)
            stop = line_begin;
    }
    if (stop > begin && !add_text(lx, SLUICE_TPL_TOKEN_DATA, lx->source + begin, stop - begin))
        return false;
    advance(lx, end);
    return true;
}

/* Behind the end of a tag: @sign is what stood before its closing bracket. */
static void
leave_tag(Lexer *lx, gsize pos, char sign, bool trims)
{
    if (sign == '-')
        pos = skip_space(lx, pos);
    else if (sign != '+' && trims && is_at(lx, pos, "\n"))
        pos++;
    advance(lx, pos);
    lx->is_line_start = pos > 0 && lx->source[pos - 1] == '\n';
}

static bool
skip_comment(Lexer *lx)
{
    const char *end = memmem(lx->source + lx->pos, lx->n - lx->pos, "#}", 2);
    gsize pos;
    char sign = '\0';

    if (!end)
        return fail(lx, "missing end of comment tag");
    pos = (gsize) (end - lx->source);
    if (pos > lx->pos && (end[-1] == '-' || end[-1] == '+'))
        sign = end[-1];
    leave_tag(lx, pos + 2, sign, true);
    return true;
}

/* Whether a tag that holds only @word begins at @pos; @body gets what follows the sign. */
static bool
match_word_tag(const Lexer *lx, gsize pos, const char *word, char *begin_sign, char *end_sign,
               gsize *end)
{
    pos += 2;
    *begin_sign = *end_sign = '\0';
    if (is_at(lx, pos, "-") || is_at(lx, pos, "+"))
        *begin_sign = lx->source[pos++];
    pos = skip_space(lx, pos);
    if (!is_at(lx, pos, word))
        return false;
    pos = skip_space(lx, pos + strlen(word));
    if (is_at(lx, pos, "-%}") || is_at(lx, pos, "+%}"))
        *end_sign = lx->source[pos++];
    *end = pos + 2;
    return is_at(lx, pos, "%}");
}

static bool
read_raw(Lexer *lx)
{
    for (gsize pos = lx->pos; pos < lx->n; pos++) {
        char begin_sign;
        char end_sign;
        gsize end;

        if (!is_at(lx, pos, "{%") ||
            !match_word_tag(lx, pos, "endraw", &begin_sign, &end_sign, &end))
            continue;
        if (!add_data(lx, pos, begin_sign, true))
            return false;
        leave_tag(lx, end, end_sign, true);
        return true;
    }
    return fail(lx, "missing end of raw directive");
}

static gsize
skip_digits(const Lexer *lx, gsize pos)
{
    while (pos < lx->n &&
           (g_ascii_isdigit(lx->source[pos]) ||
            (lx->source[pos] == '_' && pos + 1 < lx->n && g_ascii_isdigit(lx->source[pos + 1]))))
        pos++;
    return pos;
}

static bool
is_digit_at(const Lexer *lx, gsize pos)
{
    return pos < lx->n && g_ascii_isdigit(lx->source[pos]);
}

/* Behind a float that begins here, or 0. */
static gsize
match_float(const Lexer *lx)
{
    gsize pos = skip_digits(lx, lx->pos);
    bool is_float = false;

    if (lx->pos > 0 && lx->source[lx->pos - 1] == '.')
        return 0;
    if (is_at(lx, pos, ".") && is_digit_at(lx, pos + 1)) {
        pos = skip_digits(lx, pos + 1);
        is_float = true;
    }
    if (is_at(lx, pos, "e") || is_at(lx, pos, "E")) {
        gsize digits = pos + 1;
        if (is_at(lx, digits, "+") || is_at(lx, digits, "-"))
            digits++;
        if (is_digit_at(lx, digits)) {
            pos = skip_digits(lx, digits);
            is_float = true;
        }
    }
    return is_float ? pos : 0;
}

static gsize
match_integer(const Lexer *lx)
{
    gsize pos = lx->pos;
    char letter = pos + 1 < lx->n ? g_ascii_tolower(lx->source[pos + 1]) : '\0';
    int base = lx->source[pos] != '0' ? 10
               : letter == 'x'        ? 16
               : letter == 'o'        ? 8
               : letter == 'b'        ? 2
                                      : 1;

    if (base == 10)
        return skip_digits(lx, pos);
    if (base != 1) {
        gsize end = pos + 2;
        while (end < lx->n) {
            gsize digit = end + (lx->source[end] == '_');
            int value = digit < lx->n ? g_ascii_xdigit_value(lx->source[digit]) : -1;
            if (value < 0 || value >= base)
                break;
            end = digit + 1;
        }
        if (end > pos + 2)
            return end;
    }
    /* Zeros only; a digit behind them is a token of its own, which no grammar rule takes. */
    for (pos++; is_at(lx, pos, "0") || is_at(lx, pos, "_0"); pos++)
        ;
    return pos;
}

static bool
read_number(Lexer *lx)
{
    gsize end = match_float(lx);
    bool is_float = end != 0;
    const char *text = lx->source + lx->pos;
    SluiceTplToken *token;
    bool is_too_big = false;

    if (!is_float)
        end = match_integer(lx);
    token = add_token(lx, is_float ? SLUICE_TPL_TOKEN_FLOAT : SLUICE_TPL_TOKEN_INTEGER);
    if (is_float ? !sluice_tpl_parse_float(text, end - lx->pos, &token->real)
                 : !sluice_tpl_parse_int(text, end - lx->pos, 0, &token->integer, &is_too_big))
        return fail(lx, "the number '%.*s' %s", (int) MIN(end - lx->pos, 40), text,
                    is_too_big ? "does not fit 64 bits" : "is malformed");
    advance(lx, end);
    return true;
}

/* The value of the @n hexadecimal digits at @p, or -1. */
static gint64
read_hex(const char *p, const char *end, int n)
{
    gint64 value = 0;

    if (end - p < n)
        return -1;
    for (int i = 0; i < n; i++) {
        int digit = g_ascii_xdigit_value(p[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* One escape of a string literal; @p is behind its backslash. Answers what follows it, or NULL. */
static const char *
read_escape(Lexer *lx, SluiceTplBuilder *b, const char *p, const char *end)
{
    static const char letters[] = "abfnrtv\\'\"";
    static const char values[] = "\a\b\f\n\r\t\v\\'\"";
    const char *letter = *p ? strchr(letters, *p) : NULL;
    gint64 code;

    if (letter) {
        sluice_tpl_builder_bytes(b, &values[letter - letters], 1, false);
        return p + 1;
    }
    if (*p == '\n')
        return p + 1;
    if (*p >= '0' && *p <= '7') {
        code = 0;
        for (int i = 0; i < 3 && p < end && *p >= '0' && *p <= '7'; i++)
            code = code * 8 + (*p++ - '0');
        sluice_tpl_builder_unichar(b, (gunichar) code, false);
        return p;
    }
    if (*p == 'x' || *p == 'u' || *p == 'U') {
        int n = *p == 'x' ? 2 : *p == 'u' ? 4 : 8;
        code = read_hex(p + 1, end, n);
        if (code < 0 || !g_unichar_validate((gunichar) code) || code > 0x10ffff) {
            fail(lx, "malformed escape '\\%c' in a string", *p);
            return NULL;
        }
        sluice_tpl_builder_unichar(b, (gunichar) code, false);
        return p + 1 + n;
    }
    if (*p == 'N') {
        fail(lx, "escapes by the name of a character are not supported");
        return NULL;
    }
    /* Python keeps the backslash of what is not an escape. */
    sluice_tpl_builder_bytes(b, "\\", 1, false);
    return p;
}

static bool
read_string(Lexer *lx)
{
    char quote = lx->source[lx->pos];
    const char *p = lx->source + lx->pos + 1;
    const char *limit = lx->source + lx->n;
    const char *end = p;
    const SluiceTplString *text;
    SluiceTplBuilder b;

    while (end < limit && *end != quote)
        end += *end == '\\' && end + 1 < limit ? 2 : 1;
    if (end >= limit)
        return fail(lx, "unexpected char '%c': the string is not closed", quote);
    sluice_tpl_builder_init(&b, &lx->template->arena);
    while (p < end) {
        const char *run = p;
        while (p < end && *p != '\\')
            p++;
        sluice_tpl_builder_bytes(&b, run, (gsize) (p - run), false);
        if (p < end && !(p = read_escape(lx, &b, p + 1, end)))
            return false;
    }
    if (!(text = sluice_tpl_builder_end(&b)))
        return fail_memory(lx);
    add_token(lx, SLUICE_TPL_TOKEN_STRING)->text = text;
    advance(lx, (gsize) (end - lx->source) + 1);
    return true;
}

static bool
is_name_char(gunichar c, bool is_first)
{
    if (c < 0x80)
        return g_ascii_isalpha((char) c) || c == '_' || (!is_first && g_ascii_isdigit((char) c));
    return is_first ? g_unichar_isalpha(c) : g_unichar_isalnum(c);
}

static bool
read_name(Lexer *lx)
{
    gsize end = lx->pos;

    while (end < lx->n && is_name_char(g_utf8_get_char(lx->source + end), end == lx->pos))
        end = (gsize) (g_utf8_next_char(lx->source + end) - lx->source);
    if (!add_text(lx, SLUICE_TPL_TOKEN_NAME, lx->source + lx->pos, end - lx->pos))
        return false;
    advance(lx, end);
    return true;
}

static bool
balance(Lexer *lx, char bracket)
{
    static const char openers[] = "([{";
    static const char closers[] = ")]}";
    const char *opener = strchr(openers, bracket);
    guint8 closer;

    if (opener) {
        closer = (guint8) closers[opener - openers];
        g_byte_array_append(lx->brackets, &closer, 1);
        return true;
    }
    if (!strchr(closers, bracket))
        return true;
    if (lx->brackets->len == 0)
        return fail(lx, "unexpected '%c'", bracket);
    closer = lx->brackets->data[lx->brackets->len - 1];
    if (closer != (guint8) bracket)
        return fail(lx, "unexpected '%c', expected '%c'", bracket, closer);
    g_byte_array_set_size(lx->brackets, lx->brackets->len - 1);
    return true;
}

static bool
read_operator(Lexer *lx)
{
    static const char *const pairs[] = {"//", "**", "==", "!=", ">=", "<="};
    char op[3] = {lx->source[lx->pos]};
    g_autofree char *printable = NULL;

    for (gsize i = 0; i < G_N_ELEMENTS(pairs); i++)
        if (is_at(lx, lx->pos, pairs[i]))
            op[1] = pairs[i][1];
    if (op[1] == '\0' && !strchr("+-/*%~[](){}><=.:|,;", op[0])) {
        const char *p = lx->source + lx->pos;
        printable = sluice_error_printable(p, g_utf8_next_char(p) - p);
        return fail(lx, "unexpected char '%s'", printable);
    }
    if (op[1] == '\0' && !balance(lx, op[0]))
        return false;
    memcpy(add_token(lx, SLUICE_TPL_TOKEN_OPERATOR)->op, op, sizeof op);
    advance(lx, lx->pos + strlen(op));
    return true;
}

/* The inside of {{ }} or {% %}, up to and with its end. */
static bool
read_tag(Lexer *lx, bool is_block)
{
    const char *end = is_block ? "%}" : "}}";

    g_byte_array_set_size(lx->brackets, 0);
    for (;;) {
        gunichar c;

        advance(lx, skip_space(lx, lx->pos));
        if (lx->pos >= lx->n) {
            if (lx->brackets->len > 0)
                return fail(lx, "unexpected end of template, expected '%c'",
                            lx->brackets->data[lx->brackets->len - 1]);
            return fail(lx, "unexpected end of template, expected '%s'", end);
        }
        if (lx->brackets->len == 0) {
            char sign = lx->source[lx->pos];
            bool has_sign = sign == '-' || (is_block && sign == '+');
            gsize pos = lx->pos + has_sign;

            if (is_at(lx, pos, end)) {
                add_token(lx,
                          is_block ? SLUICE_TPL_TOKEN_BLOCK_END : SLUICE_TPL_TOKEN_VARIABLE_END);
                leave_tag(lx, pos + 2, has_sign ? sign : '\0', is_block);
                return true;
            }
        }
        c = g_utf8_get_char(lx->source + lx->pos);
        if (g_unichar_isdigit(c) && c < 0x80 ? !read_number(lx)
            : is_name_char(c, true)          ? !read_name(lx)
            : c == '\'' || c == '"'          ? !read_string(lx)
                                             : !read_operator(lx))
            return false;
    }
}

/* The next tag, or the end; the text before it becomes a token. */
static bool
read_root(Lexer *lx)
{
    gsize pos = lx->pos;
    char kind;
    char sign;
    char end_sign;
    gsize end;

    while (pos < lx->n && !is_at(lx, pos, "{%") && !is_at(lx, pos, "{{") && !is_at(lx, pos, "{#"))
        pos++;
    if (pos >= lx->n)
        return add_data(lx, lx->n, '+', false);
    kind = lx->source[pos + 1];
    if (kind == '%' && match_word_tag(lx, pos, "raw", &sign, &end_sign, &end) && end_sign != '+') {
        if (!add_data(lx, pos, sign, true))
            return false;
        leave_tag(lx, end, end_sign, false);
        return read_raw(lx);
    }
    sign = is_at(lx, pos + 2, "-") ? '-' : is_at(lx, pos + 2, "+") ? '+' : '\0';
    if (!add_data(lx, pos, sign, kind != '{'))
        return false;
    if (kind != '#')
        add_token(lx, kind == '%' ? SLUICE_TPL_TOKEN_BLOCK_BEGIN : SLUICE_TPL_TOKEN_VARIABLE_BEGIN);
    advance(lx, pos + 2 + (sign != '\0'));
    return kind == '#' ? skip_comment(lx) : read_tag(lx, kind == '%');
}

/* A copy with \n for every kind of line end, and without the last one. */
static bool
normalize_newlines(Lexer *lx, const char *source, gsize n_bytes)
{
    char *copy = sluice_tpl_arena_alloc(&lx->template->arena, n_bytes + 1, 1);
    gsize n = 0;

    if (!copy)
        return fail_memory(lx);
    for (gsize i = 0; i < n_bytes; i++) {
        copy[n++] = source[i] == '\r' ? '\n' : source[i];
        if (source[i] == '\r' && i + 1 < n_bytes && source[i + 1] == '\n')
            i++;
    }
    if (n > 0 && copy[n - 1] == '\n')
        copy[--n] = '\0';
    lx->source = copy;
    lx->n = n;
    return true;
}

GArray *
sluice_tpl_lex(SluiceTemplate *t, const char *source, gsize n_bytes, GError **error)
{
    g_autoptr(GArray) tokens = g_array_new(FALSE, FALSE, sizeof(SluiceTplToken));
    g_autoptr(GByteArray) brackets = g_byte_array_new();
    Lexer lx = {.template = t,
                .line = 1,
                .is_line_start = true,
                .tokens = tokens,
                .brackets = brackets,
                .error = error};

    if (!normalize_newlines(&lx, source, n_bytes))
        return NULL;
    while (lx.pos < lx.n)
        if (!read_root(&lx))
            return NULL;
    add_token(&lx, SLUICE_TPL_TOKEN_END);
    return g_steal_pointer(&tokens);
}
