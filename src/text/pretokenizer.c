/* SPDX-License-Identifier: MIT */
/*
 * The scanners, and the table of names that model files use for them.
 *
 * The expressions are those of the models' own tokenizer.json files, quoted above each scanner.
 * A regular expression engine tries the alternatives from left to right and takes the first that
 * matches; the scanners do the same. `\s+(?!\S)` gives up the last character of a run of white
 * space that something else follows; at the end of the piece it takes all. Letters in (?i:...)
 * match as Unicode folds them, so U+017F counts as an s.
 */
#include "config.h"

#include "src/text/pretokenizer.h"

#include <string.h>

#include "src/text/unicode.h"

#define LETTER SLUICE_UNICODE_LETTER
#define MARK SLUICE_UNICODE_MARK
#define NUMBER SLUICE_UNICODE_NUMBER
#define PUNCT SLUICE_UNICODE_PUNCTUATION
#define SYMBOL SLUICE_UNICODE_SYMBOL
#define SPACE SLUICE_UNICODE_SPACE
/* What tekken and gpt-4o put in front of a word's lower-case part, and that part. */
#define UPPER (SLUICE_UNICODE_LU | SLUICE_UNICODE_LT | SLUICE_UNICODE_LM | SLUICE_UNICODE_LO | MARK)
#define LOWER (SLUICE_UNICODE_LL | SLUICE_UNICODE_LM | SLUICE_UNICODE_LO | MARK)

/* ---- steps ---------------------------------------------------------------------------------- */

/* The class of the character at @pos, 0 at the end; *@next is where it ends. */
static inline uint32_t
class_at(const uint8_t *text, size_t n_bytes, size_t pos, size_t *next)
{
    size_t n_used;
    uint32_t c;

    if (pos >= n_bytes) {
        *next = pos;
        return 0;
    }
    c = sluice_utf8_decode(text + pos, n_bytes - pos, &n_used);
    *next = pos + n_used;
    return sluice_unicode_class(c);
}

/* The character itself; beyond Unicode at the end of the text. */
static inline uint32_t
char_at(const uint8_t *text, size_t n_bytes, size_t pos, size_t *next)
{
    size_t n_used;
    uint32_t c;

    if (pos >= n_bytes) {
        *next = pos;
        return UINT32_MAX;
    }
    c = sluice_utf8_decode(text + pos, n_bytes - pos, &n_used);
    *next = pos + n_used;
    return c;
}

/* The end of the run of characters whose classes are in @mask, at most @n_max of them. */
static inline size_t
run_of(const uint8_t *text, size_t n_bytes, size_t pos, uint32_t mask, size_t n_max)
{
    size_t next;

    for (size_t i = 0; i < n_max && (class_at(text, n_bytes, pos, &next) & mask) != 0; i++)
        pos = next;
    return pos;
}

static inline size_t
run_in(const uint8_t *text, size_t n_bytes, size_t pos, uint32_t mask)
{
    return run_of(text, n_bytes, pos, mask, SIZE_MAX);
}

static inline bool
is_newline(uint8_t byte)
{
    return byte == '\r' || byte == '\n';
}

static inline size_t
run_of_newlines(const uint8_t *text, size_t n_bytes, size_t pos)
{
    while (pos < n_bytes && is_newline(text[pos]))
        pos++;
    return pos;
}

/* `'s|'t|'re|'ve|'m|'ll|'d` */
static size_t
match_contraction(const uint8_t *text, size_t n_bytes, size_t pos, bool any_case)
{
    uint8_t fold = any_case ? 0x20 : 0;
    uint8_t first, second;

    if (pos + 1 >= n_bytes || text[pos] != '\'')
        return pos;
    first = text[pos + 1] | fold;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return pos + 2;
    if (pos + 2 >= n_bytes)
        return pos;
    if (any_case && text[pos + 1] == 0xC5 && text[pos + 2] == 0xBF)
        return pos + 3;
    second = text[pos + 2] | fold;
    if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l'))
        return pos + 3;
    return pos;
}

/* `\s*[\r\n]+|\s+(?!\S)|\s+`, or without the first alternative. */
static size_t
match_space(const uint8_t *text, size_t n_bytes, size_t pos, bool cuts_lines)
{
    size_t end = pos, last = pos, line_end = pos, next;

    while ((class_at(text, n_bytes, end, &next) & SPACE) != 0) {
        last = end;
        end = next;
        if (is_newline(text[last]))
            line_end = end;
    }
    if (cuts_lines && line_end > pos)
        return line_end;
    return end < n_bytes && last > pos ? last : end;
}

/* ` ?[^...]+` where @mask has the classes of the brackets. */
static size_t
match_others(const uint8_t *text, size_t n_bytes, size_t pos, uint32_t mask)
{
    size_t begin = text[pos] == ' ' ? pos + 1 : pos;
    size_t end = run_in(text, n_bytes, begin, ~mask);

    return end > begin ? end : pos;
}

/* `[^\r\n\p{L}\p{N}]?` followed by `[@word]+`; @barred has the classes of the first brackets. */
static size_t
match_word(const uint8_t *text, size_t n_bytes, size_t pos, uint32_t barred, uint32_t word)
{
    size_t next;
    uint32_t first = class_at(text, n_bytes, pos, &next);

    if ((first & barred) == 0 && !is_newline(text[pos])) {
        size_t end = run_in(text, n_bytes, next, word);
        if (end > next)
            return end;
    }
    return run_in(text, n_bytes, pos, word);
}

/* ---- whole expressions ---------------------------------------------------------------------- */

/* `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+` */
static size_t
match_gpt2(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    size_t begin = text[pos] == ' ' ? pos + 1 : pos;
    size_t end = match_contraction(text, n_bytes, pos, false);

    if (end > pos)
        return end;
    if ((end = run_in(text, n_bytes, begin, LETTER)) > begin ||
        (end = run_in(text, n_bytes, begin, NUMBER)) > begin ||
        (end = run_in(text, n_bytes, begin, ~(SPACE | LETTER | NUMBER))) > begin)
        return end;
    return match_space(text, n_bytes, pos, false);
}

/* `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[@word]+|\p{N}{1,@n_digits}|`
 * ` ?[^\s@word\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+` */
static inline size_t
match_llama3_like(const uint8_t *text, size_t n_bytes, size_t pos, uint32_t word, size_t n_digits,
                  bool takes_newlines)
{
    size_t end = match_contraction(text, n_bytes, pos, true);

    if (end > pos)
        return end;
    if ((end = match_word(text, n_bytes, pos, LETTER | NUMBER, word)) > pos ||
        (end = run_of(text, n_bytes, pos, NUMBER, n_digits)) > pos)
        return end;
    if ((end = match_others(text, n_bytes, pos, SPACE | word | NUMBER)) > pos)
        return takes_newlines ? run_of_newlines(text, n_bytes, end) : end;
    return match_space(text, n_bytes, pos, true);
}

static size_t
match_llama3(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return match_llama3_like(text, n_bytes, pos, LETTER, 3, true);
}

static size_t
match_qwen2(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return match_llama3_like(text, n_bytes, pos, LETTER, 1, true);
}

static size_t
match_qwen35(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return match_llama3_like(text, n_bytes, pos, LETTER | MARK, 1, true);
}

/* Its punctuation is ` ?[^\s\p{L}\p{N}\r\n]+`: the newlines behind it stay out. */
static size_t
match_seed_coder(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return match_llama3_like(text, n_bytes, pos, LETTER, 1, false);
}

/* As qwen2, but `\s*[\r\n]` for `\s*[\r\n]+`: the greedy `\s*` makes them the same. */
static size_t
match_bailingmoe(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return match_llama3_like(text, n_bytes, pos, LETTER, 1, true);
}

/*
 * `[@UPPER]*[@LOWER]+` at @pos. The two sets share letters without case and marks, so that the
 * first run may have to give back characters until the second has one: back to the last of them
 * that is in both. Nothing behind that one is, so there the match ends.
 */
static size_t
match_lower_word(const uint8_t *text, size_t n_bytes, size_t pos)
{
    size_t upper_end = pos, shared_end = pos, next;
    uint32_t class;

    while (((class = class_at(text, n_bytes, upper_end, &next)) & UPPER) != 0) {
        upper_end = next;
        if ((class & LOWER) != 0)
            shared_end = next;
    }
    next = run_in(text, n_bytes, upper_end, LOWER);
    return next > upper_end ? next : shared_end;
}

/* `[@UPPER]+[@LOWER]*` at @pos. */
static size_t
match_upper_word(const uint8_t *text, size_t n_bytes, size_t pos)
{
    size_t end = run_in(text, n_bytes, pos, UPPER);

    return end > pos ? run_in(text, n_bytes, end, LOWER) : pos;
}

/* `[^\r\n\p{L}\p{N}]?[@UPPER]*[@LOWER]+|[^\r\n\p{L}\p{N}]?[@UPPER]+[@LOWER]*` */
static size_t
match_cased_word(const uint8_t *text, size_t n_bytes, size_t pos)
{
    size_t next, end;
    uint32_t first = class_at(text, n_bytes, pos, &next);
    bool may_skip = (first & (LETTER | NUMBER)) == 0 && !is_newline(text[pos]);

    if (may_skip && (end = match_lower_word(text, n_bytes, next)) > next)
        return end;
    if ((end = match_lower_word(text, n_bytes, pos)) > pos)
        return end;
    if (may_skip && (end = match_upper_word(text, n_bytes, next)) > next)
        return end;
    return match_upper_word(text, n_bytes, pos);
}

/* What tekken and gpt-4o have behind their words: `\p{N}{1,@n_digits}|`
 * ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+` */
static size_t
match_behind_words(const uint8_t *text, size_t n_bytes, size_t pos, size_t n_digits)
{
    size_t end = run_of(text, n_bytes, pos, NUMBER, n_digits);

    if (end > pos)
        return end;
    if ((end = match_others(text, n_bytes, pos, SPACE | LETTER | NUMBER)) > pos) {
        while (end < n_bytes && (is_newline(text[end]) || text[end] == '/'))
            end++;
        return end;
    }
    return match_space(text, n_bytes, pos, true);
}

static size_t
match_tekken(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    size_t end = match_cased_word(text, n_bytes, pos);

    return end > pos ? end : match_behind_words(text, n_bytes, pos, 1);
}

/* A contraction belongs to the word before it. */
static size_t
match_gpt4o(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    size_t end = match_cased_word(text, n_bytes, pos);

    if (end > pos)
        return match_contraction(text, n_bytes, end, true);
    return match_behind_words(text, n_bytes, pos, 3);
}

/* `\p{N}` */
static size_t
match_number(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return run_of(text, n_bytes, pos, NUMBER, 1);
}

/* `\p{N}{1,3}` */
static size_t
match_numbers_by_three(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return run_of(text, n_bytes, pos, NUMBER, 3);
}

/* `\p{N}+` */
static size_t
match_numbers(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return run_in(text, n_bytes, pos, NUMBER);
}

/* `[0-9][0-9][0-9]` */
static size_t
match_three_digits(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    if (n_bytes - pos < 3)
        return pos;
    for (size_t i = 0; i < 3; i++)
        if (!g_ascii_isdigit(text[pos + i]))
            return pos;
    return pos + 3;
}

/* `[\p{P}\$\+<=>\^~\|@extra]+` */
static size_t
match_marks_and(const uint8_t *text, size_t n_bytes, size_t pos, const char *extra)
{
    size_t next;

    while (pos < n_bytes) {
        uint32_t class = class_at(text, n_bytes, pos, &next);
        if ((class & PUNCT) == 0 &&
            (text[pos] == '\0' || text[pos] >= 0x80 || strchr(extra, text[pos]) == NULL))
            break;
        pos = next;
    }
    return pos;
}

static size_t
match_default_marks(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return match_marks_and(text, n_bytes, pos, "$+<=>^~|");
}

static size_t
match_falcon_marks(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return match_marks_and(text, n_bytes, pos, "$+<=>^~|`");
}

/* ` ?[^(\s|.,!?…。，、।۔،)]+` */
static size_t
match_bloom(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    size_t begin = text[pos] == ' ' ? pos + 1 : pos;
    size_t end = begin, next;

    for (uint32_t c; (c = char_at(text, n_bytes, end, &next)) != UINT32_MAX; end = next) {
        if ((sluice_unicode_class(c) & SPACE) != 0 ||
            (c < 0x80 && c != 0 && strchr("(|.,!?)", (int) c)) || c == 0x2026 || c == 0x3002 ||
            c == 0xFF0C || c == 0x3001 || c == 0x0964 || c == 0x06D4 || c == 0x060C)
            break;
    }
    return end > begin ? end : pos;
}

/* `[^\n]+|[\n]+` */
static size_t
match_lines(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    bool is_line = text[pos] != '\n';

    while (pos < n_bytes && (text[pos] != '\n') == is_line)
        pos++;
    return pos;
}

/* ---- DeepSeek ------------------------------------------------------------------------------- */

/* `[\r\n]` */
static size_t
match_newline(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return is_newline(text[pos]) ? pos + 1 : pos;
}

/* `\s?\p{L}+` */
static size_t
match_spaced_letters(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    size_t begin = run_of(text, n_bytes, pos, SPACE, 1);
    size_t end = run_in(text, n_bytes, begin, LETTER);

    return end > begin ? end : pos;
}

/* `\s?\p{P}+` */
static size_t
match_spaced_marks(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    size_t begin = run_of(text, n_bytes, pos, SPACE, 1);
    size_t end = run_in(text, n_bytes, begin, PUNCT);

    return end > begin ? end : pos;
}

typedef struct {
    uint32_t first, last;
} CharRange;

/* The letters that deepseek-llm's expression lists: those with case, as of an older Unicode. */
static const CharRange DEEPSEEK_LETTERS[] = {
    {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},
    {0xD8, 0xF6},       {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},
    {0x295, 0x2AF},     {0x370, 0x373},     {0x376, 0x377},     {0x37B, 0x37D},
    {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},     {0x38C, 0x38C},
    {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
    {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},
    {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},
    {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},
    {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},   {0x1F5B, 0x1F5B},
    {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},
    {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},
    {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210A, 0x2113},   {0x2115, 0x2115},
    {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
    {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
    {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},
    {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},
    {0xA680, 0xA69B},   {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},
    {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},
    {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};
/* `[!-/:-~！-／：－～‘-‟　-。]`; yes, `:-~` has the Latin letters, but an earlier stage took them.
 */
static const CharRange DEEPSEEK_MARKS[] = {
    {0x21, 0x2F},     {0x3A, 0x7E},     {0x2018, 0x201F},
    {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E},
};
/* `[一-龥ࠀ-一가-퟿]` and `[一-龥぀-ゟ゠-ヿ]` */
static const CharRange DEEPSEEK_CJK[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
static const CharRange DEEPSEEK_V3_CJK[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};

static bool
is_in_ranges(uint32_t c, const CharRange *ranges, size_t n_ranges)
{
    size_t low = 0, high = n_ranges;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > ranges[middle].last)
            low = middle + 1;
        else if (c < ranges[middle].first)
            high = middle;
        else
            return true;
    }
    return false;
}

static size_t
run_in_ranges(const uint8_t *text, size_t n_bytes, size_t pos, const CharRange *ranges,
              size_t n_ranges)
{
    size_t next;

    while (is_in_ranges(char_at(text, n_bytes, pos, &next), ranges, n_ranges))
        pos = next;
    return pos;
}

/* `\s?[...]+` over one of the lists. U+3000 is white space and in the list of marks: when only the
 * optional part takes it, the engine steps back. */
static size_t
match_spaced_ranges(const uint8_t *text, size_t n_bytes, size_t pos, const CharRange *ranges,
                    size_t n_ranges)
{
    size_t begin = run_of(text, n_bytes, pos, SPACE, 1);
    size_t end = run_in_ranges(text, n_bytes, begin, ranges, n_ranges);

    return end > begin ? end : run_in_ranges(text, n_bytes, pos, ranges, n_ranges);
}

static size_t
match_deepseek_letters(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return match_spaced_ranges(text, n_bytes, pos, DEEPSEEK_LETTERS,
                               G_N_ELEMENTS(DEEPSEEK_LETTERS));
}

static size_t
match_deepseek_marks(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return match_spaced_ranges(text, n_bytes, pos, DEEPSEEK_MARKS, G_N_ELEMENTS(DEEPSEEK_MARKS));
}

static size_t
match_deepseek_cjk(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return run_in_ranges(text, n_bytes, pos, DEEPSEEK_CJK, G_N_ELEMENTS(DEEPSEEK_CJK));
}

static size_t
match_deepseek_v3_cjk(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    return run_in_ranges(text, n_bytes, pos, DEEPSEEK_V3_CJK, G_N_ELEMENTS(DEEPSEEK_V3_CJK));
}

/* `\s+$` */
static size_t
match_trailing_space(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    size_t end = run_in(text, n_bytes, pos, SPACE);

    if (end == n_bytes)
        return end;
    *resume = end;
    return pos;
}

/* ``[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{\|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|``
 * ` ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+` */
static size_t
match_deepseek_v3(const uint8_t *text, size_t n_bytes, size_t pos, size_t *resume)
{
    size_t begin, end;

    if (g_ascii_ispunct(text[pos])) {
        for (end = pos + 1; end < n_bytes && g_ascii_isalpha(text[end]); end++)
            ;
        if (end > pos + 1)
            return end;
    }
    if ((end = match_word(text, n_bytes, pos, LETTER | PUNCT | SYMBOL, LETTER | MARK)) > pos)
        return end;
    begin = text[pos] == ' ' ? pos + 1 : pos;
    if ((end = run_in(text, n_bytes, begin, PUNCT | SYMBOL)) > begin)
        return run_of_newlines(text, n_bytes, end);
    return match_space(text, n_bytes, pos, true);
}

/* ---- names ---------------------------------------------------------------------------------- */

static const SluicePretokenizer GPT2 = {.stages = {match_gpt2}};
static const SluicePretokenizer LLAMA3 = {
    .stages = {match_llama3}, .ignores_merges = true, .adds_bos = true};
static const SluicePretokenizer LLAMA3_PLAIN = {.stages = {match_llama3}};
static const SluicePretokenizer QWEN2 = {.stages = {match_qwen2}};
static const SluicePretokenizer QWEN35 = {.stages = {match_qwen35}};
static const SluicePretokenizer SEED_CODER = {.stages = {match_seed_coder}};
static const SluicePretokenizer BAILINGMOE = {.stages = {match_bailingmoe}};
static const SluicePretokenizer STARCODER = {.stages = {match_number, match_gpt2}};
static const SluicePretokenizer TEKKEN = {
    .stages = {match_tekken}, .ignores_merges = true, .adds_bos = true};
static const SluicePretokenizer GPT4O = {.stages = {match_gpt4o}};
static const SluicePretokenizer FALCON = {
    .stages = {match_falcon_marks, match_gpt2, match_three_digits}};
static const SluicePretokenizer BLOOM = {.stages = {match_bloom}};
static const SluicePretokenizer VIKING = {.stages = {match_bloom, match_number}};
static const SluicePretokenizer LINES = {.stages = {match_lines}};
static const SluicePretokenizer DEEPSEEK_LLM = {
    .stages = {match_newline, match_deepseek_letters, match_deepseek_marks, match_trailing_space,
               match_deepseek_cjk, match_numbers}};
static const SluicePretokenizer DEEPSEEK_CODER = {.stages = {match_newline, match_spaced_letters,
                                                             match_spaced_marks, match_deepseek_cjk,
                                                             match_number}};
static const SluicePretokenizer DEEPSEEK_V3 = {
    .stages = {match_numbers_by_three, match_deepseek_v3_cjk, match_deepseek_v3}};
static const SluicePretokenizer DEFAULT = {
    .stages = {match_default_marks, match_gpt2, match_numbers, match_three_digits}};

/* Values of tokenizer.ggml.pre. */
static const struct {
    const char *name;
    const SluicePretokenizer *pretokenizer;
} NAMES[] = {
    {"a.x-4.0", &GPT2},
    {"bailingmoe", &BAILINGMOE},
    {"bloom", &BLOOM},
    {"chatglm-bpe", &LLAMA3_PLAIN},
    {"codeshell", &STARCODER},
    {"command-r", &STARCODER},
    {"dbrx", &LLAMA3_PLAIN},
    {"deepseek-coder", &DEEPSEEK_CODER},
    {"deepseek-llm", &DEEPSEEK_LLM},
    {"deepseek-r1-qwen", &QWEN2},
    {"deepseek-v3", &DEEPSEEK_V3},
    {"default", &DEFAULT},
    {"exaone", &STARCODER},
    {"exaone4", &GPT2},
    {"falcon", &FALCON},
    {"falcon3", &LLAMA3},
    {"gemma4", &LINES},
    {"glm4", &LLAMA3_PLAIN},
    {"gpt-2", &GPT2},
    {"gpt-4o", &GPT4O},
    {"gpt3-finnish", &BLOOM},
    {"grok-2", &QWEN2},
    {"hunyuan", &QWEN2},
    {"hunyuan-dense", &DEEPSEEK_V3},
    {"jais", &GPT2},
    {"joyai-llm", &DEEPSEEK_V3},
    {"kanana2", &GPT4O},
    {"lfm2", &LLAMA3},
    {"llada-moe", &BAILINGMOE},
    {"llama-bpe", &LLAMA3},
    {"llama-v3", &LLAMA3},
    {"llama3", &LLAMA3},
    {"llama4", &GPT4O},
    {"megrez", &QWEN2},
    {"mellum2", &STARCODER},
    {"minerva-7b", &STARCODER},
    {"minimax-m2", &GPT4O},
    {"modern-bert", &GPT2},
    {"mpt", &GPT2},
    {"olmo", &GPT2},
    {"phi-2", &GPT2},
    {"pixtral", &LLAMA3},
    {"poro-chat", &BLOOM},
    {"qwen2", &QWEN2},
    {"qwen35", &QWEN35},
    {"refact", &STARCODER},
    {"roberta-bpe", &GPT2},
    {"sarvam-moe", &LINES},
    {"seed-coder", &SEED_CODER},
    {"smaug-bpe", &LLAMA3_PLAIN},
    {"smollm", &STARCODER},
    {"solar-open", &QWEN2},
    {"stablelm2", &QWEN2},
    {"starcoder", &STARCODER},
    {"tekken", &TEKKEN},
    {"trillion", &GPT2},
    {"viking", &VIKING},
};

/**
 * sluice_pretokenizer_find:
 * @name: a value of `tokenizer.ggml.pre`
 * @n_bytes: its length, or -1 if it is terminated by NUL
 *
 * Returns: (transfer none): the pre-tokenizer of that name, or %NULL
 * Since: 0.1
 */
const SluicePretokenizer *
sluice_pretokenizer_find(const char *name, gssize n_bytes)
{
    size_t length = n_bytes < 0 ? strlen(name) : (size_t) n_bytes;

    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++)
        if (strlen(NAMES[i].name) == length && memcmp(NAMES[i].name, name, length) == 0)
            return NAMES[i].pretokenizer;
    return NULL;
}

/**
 * sluice_pretokenizer_name:
 * @idx: a count from 0
 *
 * Returns: (transfer none): a known name, in alphabetical order, or %NULL behind the last
 * Since: 0.1
 */
const char *
sluice_pretokenizer_name(size_t idx)
{
    return idx < G_N_ELEMENTS(NAMES) ? NAMES[idx].name : NULL;
}

/* ---- iteration ------------------------------------------------------------------------------ */

static void
begin_level(SluicePretokenizerIter *iter, size_t level, size_t begin, size_t end)
{
    iter->levels[level].pos = begin;
    iter->levels[level].end = end;
    iter->levels[level].match_begin = iter->levels[level].match_end = begin;
}

/**
 * sluice_pretokenizer_iter_init:
 * @iter: (out caller-allocates): the iteration
 * @pretokenizer: what to split by
 * @text: the text, which must outlive @iter; need not be valid UTF-8
 * @n_bytes: its length
 *
 * Since: 0.1
 */
void
sluice_pretokenizer_iter_init(SluicePretokenizerIter *iter, const SluicePretokenizer *pretokenizer,
                              const uint8_t *text, size_t n_bytes)
{
    iter->pretokenizer = pretokenizer;
    iter->text = text;
    iter->n_stages = 0;
    while (iter->n_stages < SLUICE_PRETOKENIZER_MAX_STAGES &&
           pretokenizer->stages[iter->n_stages] != NULL) {
        begin_level(iter, iter->n_stages, 0, 0);
        iter->n_stages++;
    }
    iter->levels[0].end = n_bytes;
}

/* Splits the next piece off @level, which has some text left: a match, or the gap in front of the
 * next one, which is then kept. A stage sees nothing outside its piece. */
static void
split_level(SluicePretokenizerIter *iter, size_t level, size_t *begin, size_t *end)
{
    SluicePretokenizerStageFn stage = iter->pretokenizer->stages[level];
    const uint8_t *text = iter->text + iter->levels[level].pos;
    size_t n_bytes = iter->levels[level].end - iter->levels[level].pos;
    size_t pos = 0, match_end = 0, n_used;

    *begin = iter->levels[level].pos;
    if (iter->levels[level].match_end > *begin && iter->levels[level].match_begin == *begin) {
        *end = iter->levels[level].pos = iter->levels[level].match_end;
        return;
    }
    while (pos < n_bytes) {
        size_t resume = 0;
        match_end = stage(text, n_bytes, pos, &resume);
        if (match_end > pos)
            break;
        sluice_utf8_decode(text + pos, n_bytes - pos, &n_used);
        pos = MAX(pos + n_used, resume);
    }
    if (pos == 0) {
        *end = *begin + match_end;
    } else {
        *end = *begin + pos;
        iter->levels[level].match_begin = *end;
        iter->levels[level].match_end = *begin + MAX(match_end, pos);
    }
    iter->levels[level].pos = *end;
}

/**
 * sluice_pretokenizer_iter_next:
 * @iter: the iteration
 * @begin: (out): first byte of the next piece
 * @end: (out): the byte behind it
 *
 * The pieces cover the text without gaps, in order; none is empty.
 *
 * Returns: %FALSE when there is no piece left
 * Since: 0.1
 */
bool
sluice_pretokenizer_iter_next(SluicePretokenizerIter *iter, size_t *begin, size_t *end)
{
    size_t level = iter->n_stages - 1;

    while (iter->levels[level].pos == iter->levels[level].end) {
        if (level == 0)
            return false;
        level--;
    }
    split_level(iter, level, begin, end);
    while (++level < iter->n_stages) {
        begin_level(iter, level, *begin, *end);
        split_level(iter, level, begin, end);
    }
    return true;
}
