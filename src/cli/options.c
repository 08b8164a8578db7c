/* SPDX-License-Identifier: MIT */
/*
 * The parser: from words to SluiceOptions, by the table. It knows the kinds of values, not the
 * options. One error stops it, and names option, value and limit.
 */
#include "config.h"

#include "src/cli/options.h"
#include "src/cli/option-table.h"
#include "src/core/error.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Values that one list may make; a product of lists is long enough by then. */
#define LIST_MAX 1000

static void *
field(SluiceOptions *options, const SluiceOption *row)
{
    return (char *) options + row->offset;
}

/**
 * sluice_options_init:
 * @options: storage of the caller
 * @command: whose options will be parsed
 *
 * Every value that nobody gives keeps what is set here.
 */
void
sluice_options_init(SluiceOptions *options, SluiceCommandId command)
{
    memset(options, 0, sizeof *options);
    options->command = command;
    options->args = g_ptr_array_new_with_free_func(g_free);
    options->models = g_ptr_array_new_with_free_func(g_free);
    options->stops = g_ptr_array_new_with_free_func(g_free);
    options->prompts = g_array_new(FALSE, FALSE, sizeof(int32_t));
    options->gens = g_array_new(FALSE, FALSE, sizeof(int32_t));
    options->depths = g_array_new(FALSE, FALSE, sizeof(int32_t));
    options->batches = g_array_new(FALSE, FALSE, sizeof(int32_t));
    options->ubatches = g_array_new(FALSE, FALSE, sizeof(int32_t));
    options->threads = g_array_new(FALSE, FALSE, sizeof(int32_t));
    options->threads_batch = g_array_new(FALSE, FALSE, sizeof(int32_t));
    options->types_k = g_array_new(FALSE, FALSE, sizeof(int));
    options->types_v = g_array_new(FALSE, FALSE, sizeof(int));
    options->mmaps = g_array_new(FALSE, FALSE, sizeof(int));
    options->pgs = g_array_new(FALSE, FALSE, sizeof(SluicePromptGen));
    options->n_predict = -1;
    options->n_chunks = -1;
    options->repetitions = 5;
}

/**
 * sluice_options_clear:
 * @options: from sluice_options_init()
 *
 * Frees what @options holds.
 */
void
sluice_options_clear(SluiceOptions *options)
{
    g_clear_pointer(&options->args, g_ptr_array_unref);
    g_clear_pointer(&options->models, g_ptr_array_unref);
    g_clear_pointer(&options->stops, g_ptr_array_unref);
    g_clear_pointer(&options->prompts, g_array_unref);
    g_clear_pointer(&options->gens, g_array_unref);
    g_clear_pointer(&options->depths, g_array_unref);
    g_clear_pointer(&options->batches, g_array_unref);
    g_clear_pointer(&options->ubatches, g_array_unref);
    g_clear_pointer(&options->threads, g_array_unref);
    g_clear_pointer(&options->threads_batch, g_array_unref);
    g_clear_pointer(&options->types_k, g_array_unref);
    g_clear_pointer(&options->types_v, g_array_unref);
    g_clear_pointer(&options->mmaps, g_array_unref);
    g_clear_pointer(&options->pgs, g_array_unref);
    for (size_t i = 0; i < sluice_option_table_n; i++)
        if (sluice_option_table[i].kind == SLUICE_OPTION_STRING) {
            char **text = field(options, &sluice_option_table[i]);
            g_clear_pointer(text, g_free);
        }
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Whether @forms, words separated by spaces, has the word of @n bytes at @word. */
static bool
has_form(const char *forms, const char *word, size_t n)
{
    while (*forms != '\0') {
        size_t n_form = strcspn(forms, " ");

        if (n_form == n && memcmp(forms, word, n) == 0)
            return true;
        forms += n_form;
        forms += strspn(forms, " ");
    }
    return false;
}

static const SluiceOption *
find_option(guint commands, const char *word, size_t n)
{
    for (size_t i = 0; i < sluice_option_table_n; i++)
        if ((sluice_option_table[i].commands & commands) != 0 &&
            has_form(sluice_option_table[i].forms, word, n))
            return &sluice_option_table[i];
    return NULL;
}

/* The name of an option in messages: its first form. */
static char *
option_name(const SluiceOption *row)
{
    return g_strndup(row->forms, strcspn(row->forms, " "));
}

/* Insertions, deletions, substitutions and swaps of neighbours that turn @a into @b. */
static guint
edit_distance(const char *a, const char *b)
{
    size_t n_a = strlen(a), n_b = strlen(b);
    size_t n_row = n_b + 1;
    g_autofree guint *d = g_new(guint, (n_a + 1) * n_row);

    for (size_t j = 0; j <= n_b; j++)
        d[j] = (guint) j;
    for (size_t i = 1; i <= n_a; i++) {
        d[i * n_row] = (guint) i;
        for (size_t j = 1; j <= n_b; j++) {
            guint *at = &d[i * n_row + j];

            *at = MIN(at[-1], at[-(gssize) n_row]) + 1;
            *at = MIN(*at, at[-(gssize) n_row - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                *at = MIN(*at, d[(i - 2) * n_row + j - 2] + 1);
        }
    }
    return d[n_a * n_row + n_b];
}

/**
 * sluice_options_closest:
 * @word: what somebody typed
 * @candidates: ends with %NULL
 *
 * Returns: (transfer full) (nullable): the candidate that @word was most likely meant to be, if
 *   at most a third of its letters are wrong
 */
char *
sluice_options_closest(const char *word, const char *const *candidates)
{
    const char *best = NULL;
    size_t n_word = strlen(word);
    guint best_distance = G_MAXUINT;

    /* Longer than any name: no need to compare a page of text with each of them. */
    if (n_word > 40)
        return NULL;
    for (; *candidates != NULL; candidates++) {
        guint distance = edit_distance(word, *candidates);

        if (distance < best_distance && distance * 3 <= n_word) {
            best_distance = distance;
            best = *candidates;
        }
    }
    return g_strdup(best);
}

static char *
closest_option(guint command, const char *word)
{
    g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);

    for (size_t i = 0; i < sluice_option_table_n; i++) {
        g_auto(GStrv) forms = NULL;

        if ((sluice_option_table[i].commands & command) == 0)
            continue;
        forms = g_strsplit(sluice_option_table[i].forms, " ", -1);
        for (char **form = forms; *form != NULL; form++)
            g_ptr_array_add(words, g_strdup(*form));
    }
    g_ptr_array_add(words, NULL);
    return sluice_options_closest(word, (const char *const *) words->pdata);
}

static void
set_unknown_error(GError **error, SluiceCommandId command, const char *word, size_t n)
{
    g_autofree char *plain = g_strndup(word, n);
    g_autofree char *shown = sluice_error_printable(word, (gssize) n);
    g_autofree char *closest = NULL;
    const char *name = sluice_command_info(command)->name;

    for (size_t i = 0; i < sluice_option_foreign_n; i++)
        if (has_form(sluice_option_foreign[i].forms, word, n)) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                        "'%s' is not an option of 'sluice %s': %s", shown, name,
                        sluice_option_foreign[i].hint);
            return;
        }
    for (size_t i = 0; i < sluice_command_table_n; i++)
        if (find_option(sluice_command_table[i].id, word, n) != NULL) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                        "'%s' is an option of 'sluice %s', not of 'sluice %s'", shown,
                        sluice_command_table[i].name, name);
            return;
        }
    closest = closest_option(command, plain);
    if (closest != NULL)
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "'%s' is not an option of 'sluice %s'; did you mean '%s'?", shown, name,
                    closest);
    else
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "'%s' is not an option of 'sluice %s'; see 'sluice help %s'", shown, name,
                    name);
}

/* ---- values --------------------------------------------------------------------------------- */

static gboolean
set_value_error(GError **error, const SluiceOption *row, const char *value, const char *expected)
{
    g_autofree char *name = option_name(row);
    g_autofree char *shown = sluice_error_printable(value, -1);

    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT, "option '%s' is '%s', must be %s", name,
                shown, expected);
    return FALSE;
}

static gboolean
set_range_error(GError **error, const SluiceOption *row, const char *value, const char *what)
{
    g_autofree char *expected = g_strdup_printf("%s from %.15g to %.15g", what, row->min, row->max);

    return set_value_error(error, row, value, expected);
}

/* The whole of @text as a number in [min, max]; base 10, no spaces, an optional sign. */
static bool
parse_integer(const char *text, double min, double max, gint64 *value)
{
    char *end;
    gint64 parsed;

    if (!g_ascii_isdigit(text[0]) &&
        !((text[0] == '-' || text[0] == '+') && g_ascii_isdigit(text[1])))
        return false;
    errno = 0;
    parsed = g_ascii_strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || !((double) parsed >= min && (double) parsed <= max))
        return false;
    *value = parsed;
    return true;
}

static bool
parse_number(const char *text, double min, double max, double *value)
{
    char *end;
    double parsed;

    /* The characters first: strtod also takes spaces, hexadecimals and words such as "nan". */
    if (text[0] == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0')
        return false;
    errno = 0;
    parsed = g_ascii_strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(parsed) || !(parsed >= min && parsed <= max))
        return false;
    *value = parsed;
    return true;
}

static gboolean
parse_choice(const SluiceOption *row, const char *text, int *value, GError **error)
{
    g_autofree char *all = NULL;
    g_autofree char *expected = NULL;

    for (int i = 0; row->choices[i] != NULL; i++)
        if (strcmp(row->choices[i], text) == 0) {
            *value = i;
            return TRUE;
        }
    all = g_strjoinv(", ", (char **) row->choices);
    expected = g_strconcat("one of ", all, NULL);
    return set_value_error(error, row, text, expected);
}

/* One part of a list: N, A-B, A-B+STEP or A-B*FACTOR. */
static bool
parse_range(const SluiceOption *row, const char *text, GArray *list)
{
    g_autofree char *first = g_strndup(text, strcspn(text, "-+*"));
    const char *rest = text + strlen(first);
    gint64 from, to, step = 1;
    char how = '+';

    if (!parse_integer(first, row->min, row->max, &from))
        return false;
    to = from;
    if (*rest == '-') {
        g_autofree char *last = g_strndup(rest + 1, strcspn(rest + 1, "+*"));

        if (!parse_integer(last, (double) from, row->max, &to))
            return false;
        rest += 1 + strlen(last);
        if (*rest != '\0') {
            how = *rest++;
            if (!parse_integer(rest, how == '*' ? 2 : 1, row->max, &step))
                return false;
            rest += strlen(rest);
        }
    }
    if (*rest != '\0' || (how == '*' && from == 0))
        return false;
    for (gint64 v = from; v <= to; v = how == '*' ? v * step : v + step) {
        int32_t item = (int32_t) v;

        if (list->len == LIST_MAX)
            return false;
        g_array_append_val(list, item);
    }
    return true;
}

static gboolean
parse_ints(const SluiceOption *row, const char *text, GArray *list, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", LIST_MAX + 1);

    for (char **part = parts; *part != NULL; part++)
        if (!parse_range(row, *part, list)) {
            g_autofree char *expected =
                g_strdup_printf("numbers from %.15g to %.15g, such as 512,1024 or 128-512+128 or "
                                "1-16*2",
                                row->min, row->max);
            return set_value_error(error, row, text, expected);
        }
    if (list->len == 0)
        return set_range_error(error, row, text, "a list of numbers");
    return TRUE;
}

static gboolean
parse_choices(const SluiceOption *row, const char *text, GArray *list, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ",", LIST_MAX + 1);
    int value;

    for (char **part = parts; *part != NULL; part++) {
        if (!parse_choice(row, *part, &value, error))
            return FALSE;
        g_array_append_val(list, value);
    }
    return list->len > 0 || parse_choice(row, text, &value, error);
}

static gboolean
parse_pair(const SluiceOption *row, const char *text, GArray *list, GError **error)
{
    const char *comma = strchr(text, ',');
    gint64 p, g;

    if (comma != NULL) {
        g_autofree char *first = g_strndup(text, (gsize) (comma - text));

        if (list->len < LIST_MAX && parse_integer(first, row->min, row->max, &p) &&
            parse_integer(comma + 1, row->min, row->max, &g) && p + g > 0) {
            SluicePromptGen pair = {(int32_t) p, (int32_t) g};

            g_array_append_val(list, pair);
            return TRUE;
        }
    }
    return set_range_error(error, row, text, "two numbers P,G, not both 0,");
}

static gboolean
set_value(SluiceOptions *options, const SluiceOption *row, const char *value, GError **error)
{
    void *at = field(options, row);
    gint64 integer;
    double number;

    switch (row->kind) {
    case SLUICE_OPTION_FLAG:
        *(int *) at = row->set_to;
        return TRUE;
    case SLUICE_OPTION_COUNT:
        if (*(int *) at < 9)
            *(int *) at += 1;
        return TRUE;
    case SLUICE_OPTION_INT:
        if (!parse_integer(value, row->min, row->max, &integer))
            return set_range_error(error, row, value, "a whole number");
        *(int32_t *) at = (int32_t) integer;
        return TRUE;
    case SLUICE_OPTION_SEED:
        if (!parse_integer(value, row->min, row->max, &integer))
            return set_range_error(error, row, value, "a whole number");
        *(uint32_t *) at = integer < 0 ? SLUICE_SEED_RANDOM : (uint32_t) integer;
        return TRUE;
    case SLUICE_OPTION_FLOAT:
        if (!parse_number(value, row->min, row->max, &number))
            return set_range_error(error, row, value, "a number");
        *(float *) at = (float) number;
        return TRUE;
    case SLUICE_OPTION_STRING:
        g_free(*(char **) at);
        *(char **) at = g_strdup(value);
        return TRUE;
    case SLUICE_OPTION_STRINGS:
        if (value[0] == '\0')
            return set_value_error(error, row, value, "at least one character long");
        g_ptr_array_add(*(GPtrArray **) at, g_strdup(value));
        return TRUE;
    case SLUICE_OPTION_CHOICE:
        return parse_choice(row, value, at, error);
    case SLUICE_OPTION_INTS:
        return parse_ints(row, value, *(GArray **) at, error);
    case SLUICE_OPTION_CHOICES:
        return parse_choices(row, value, *(GArray **) at, error);
    case SLUICE_OPTION_PAIRS:
        return parse_pair(row, value, *(GArray **) at, error);
    }
    g_assert_not_reached();
}

/* ---- words ---------------------------------------------------------------------------------- */

static bool
is_choice(const SluiceOption *row, const char *text)
{
    return g_strv_contains(row->choices, text);
}

/* One option at args[*idx], with its value there or in the next word; moves *idx to the last word
 * that was used. */
static gboolean
parse_option(SluiceOptions *options, int n_args, char **args, int *idx, GError **error)
{
    const char *word = args[*idx];
    const char *equals = strchr(word, '=');
    size_t n = equals != NULL ? (size_t) (equals - word) : strlen(word);
    const SluiceOption *row = find_option(options->command, word, n);
    g_autofree char *name = NULL;
    const char *value = equals != NULL ? equals + 1 : NULL;

    if (row == NULL) {
        set_unknown_error(error, options->command, word, n);
        return FALSE;
    }
    name = option_name(row);
    if (row->value == NULL && value != NULL) {
        g_autofree char *shown = sluice_error_printable(value, -1);

        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                    "option '%s' takes no value, but has '%s'", name, shown);
        return FALSE;
    }
    if (row->value != NULL && value == NULL) {
        const char *next = *idx + 1 < n_args ? args[*idx + 1] : NULL;

        if (row->value_optional && (next == NULL || !is_choice(row, next))) {
            value = row->choices[0];
        } else if (next == NULL || find_option(options->command, next, strlen(next)) != NULL) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_ARGUMENT,
                        "option '%s' needs a value (%s)%s%s%s", name, row->value,
                        next != NULL ? ", and '" : "", next != NULL ? next : "",
                        next != NULL ? "' is an option; write it behind '=' if it is meant" : "");
            return FALSE;
        } else {
            value = next;
            *idx += 1;
        }
    }
    if (!set_value(options, row, value, error))
        return FALSE;
    options->given[row - sluice_option_table] = true;
    return TRUE;
}

/**
 * sluice_options_parse:
 * @options: from sluice_options_init()
 * @n_args: words behind the name of the command
 * @args: those words
 * @error: return location, or %NULL
 *
 * Options may stand anywhere; behind "--" everything is an argument.
 *
 * Returns: %FALSE with %SLUICE_ERROR_ARGUMENT at the first word that is wrong
 */
gboolean
sluice_options_parse(SluiceOptions *options, int n_args, char **args, GError **error)
{
    for (int i = 0; i < n_args; i++) {
        if (strcmp(args[i], "--") == 0) {
            while (++i < n_args)
                g_ptr_array_add(options->args, g_strdup(args[i]));
        } else if (args[i][0] == '-' && args[i][1] != '\0') {
            if (!parse_option(options, n_args, args, &i, error))
                return FALSE;
        } else {
            g_ptr_array_add(options->args, g_strdup(args[i]));
        }
    }
    options->engine.type_k = (SluiceKvType) options->type_k;
    options->engine.type_v = (SluiceKvType) options->type_v;
    options->engine.load_mode = (SluiceLoadMode) options->load_mode;
    return TRUE;
}

/**
 * sluice_options_given:
 * @options: parsed
 * @form: any form of an option of the command
 *
 * Returns: whether the user gave that option
 */
bool
sluice_options_given(const SluiceOptions *options, const char *form)
{
    const SluiceOption *row = find_option(options->command, form, strlen(form));

    g_assert(row != NULL);
    return options->given[row - sluice_option_table];
}

/**
 * sluice_options_sampler:
 * @options: parsed
 * @params: values from elsewhere, such as what the model recommends
 *
 * Puts what the user gave over @params. A string in it belongs to @options.
 */
void
sluice_options_sampler(const SluiceOptions *options, SluiceSamplerParams *params)
{
    const size_t begin = offsetof(SluiceOptions, sampler);

    for (size_t i = 0; i < sluice_option_table_n; i++) {
        const SluiceOption *row = &sluice_option_table[i];
        size_t n_bytes = row->kind == SLUICE_OPTION_STRING ? sizeof(char *) : sizeof(int32_t);

        if (options->given[i] && row->offset >= begin &&
            row->offset < begin + sizeof options->sampler)
            memcpy((char *) params + (row->offset - begin), (const char *) options + row->offset,
                   n_bytes);
    }
}

G_STATIC_ASSERT(sizeof(float) == sizeof(int32_t) && sizeof(gboolean) == sizeof(int32_t));

/**
 * sluice_options_model:
 * @options: parsed
 *
 * Returns: (nullable): the last model that was named with an option
 */
const char *
sluice_options_model(const SluiceOptions *options)
{
    return options->models->len > 0 ? g_ptr_array_index(options->models, options->models->len - 1)
                                    : NULL;
}
