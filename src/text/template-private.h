/* SPDX-License-Identifier: MIT */
/*
 * What the files of the template engine share: memory, values, the syntax tree and the state of
 * one rendering.
 *
 *     source ─ lexer ─ tokens ─ parser ─ tree ─ scope (which names start unset) ─ eval ─ text
 *
 * Everything lives in arenas: the tree in the template's, values in the rendering's, so that
 * nothing is freed one by one and cycles do not matter. Values are immutable but for namespaces.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "src/text/template.h"

G_BEGIN_DECLS

typedef struct _SluiceTplEval SluiceTplEval;
typedef struct _SluiceTplNode SluiceTplNode;
typedef struct _SluiceTplBody SluiceTplBody;
typedef struct _SluiceTplScope SluiceTplScope;

/* ---- memory: template-arena.c --------------------------------------------------------------- */

typedef struct _SluiceTplChunk SluiceTplChunk;
typedef struct _SluiceTplTextChunk SluiceTplTextChunk;

typedef struct {
    SluiceTplChunk *chunks;    /* the head is the one being filled */
    SluiceTplTextChunk *texts; /* likewise */
    gsize n_bytes;             /* taken from the system */
    gsize n_max_bytes;
} SluiceTplArena;

void sluice_tpl_arena_init(SluiceTplArena *arena, gsize n_max_bytes);
void sluice_tpl_arena_clear(SluiceTplArena *arena);
/* Zeroed, aligned for any value; NULL above the arena's limit. */
void *sluice_tpl_arena_alloc(SluiceTplArena *arena, gsize n_items, gsize n_item_bytes);

/*
 * UTF-8 text. Each byte is trusted or not; a text that is one of both all over has no @taint.
 * Markup, as made by the safe filter, escapes what is added to it.
 */
typedef struct {
    const char *data;
    gsize n;
    const uint8_t *taint; /* one flag per byte, or NULL */
    bool is_tainted;      /* without @taint: of all bytes */
    bool is_markup;
} SluiceTplString;

/* Collects a text. After a failure it ignores what is added; the end then answers NULL. */
typedef struct {
    SluiceTplArena *arena;
    SluiceTplTextChunk *chunk;
    char *data;
    uint8_t *taint;
    gsize n;
    gsize n_cap;
    gsize n_tainted;
    bool has_failed;
    bool is_markup;
} SluiceTplBuilder;

void sluice_tpl_builder_init(SluiceTplBuilder *b, SluiceTplArena *arena);
/* Begins with @s; in place, if @s is the newest text of the arena. */
void sluice_tpl_builder_init_from(SluiceTplBuilder *b, SluiceTplArena *arena,
                                  const SluiceTplString *s);
void sluice_tpl_builder_bytes(SluiceTplBuilder *b, const char *data, gsize n, bool is_tainted);
void sluice_tpl_builder_literal(SluiceTplBuilder *b, const char *text);
void sluice_tpl_builder_slice(SluiceTplBuilder *b, const SluiceTplString *s, gsize begin, gsize n);
void sluice_tpl_builder_string(SluiceTplBuilder *b, const SluiceTplString *s);
void sluice_tpl_builder_fill(SluiceTplBuilder *b, const char *piece, gsize n_times);
void sluice_tpl_builder_unichar(SluiceTplBuilder *b, gunichar c, bool is_tainted);
const SluiceTplString *sluice_tpl_builder_end(SluiceTplBuilder *b);

/* ---- values: template-value.c --------------------------------------------------------------- */

typedef enum {
    SLUICE_TPL_ABSENT, /* an argument that was not given; never seen by a template */
    SLUICE_TPL_UNDEFINED,
    SLUICE_TPL_NONE,
    SLUICE_TPL_BOOL,
    SLUICE_TPL_INT,
    SLUICE_TPL_FLOAT,
    SLUICE_TPL_STRING,
    SLUICE_TPL_LIST,
    SLUICE_TPL_TUPLE,
    SLUICE_TPL_DICT,
    SLUICE_TPL_VIEW,     /* what keys(), values() and items() of a dict return */
    SLUICE_TPL_ITERATOR, /* what map, select, ... return: read once, always true, no length */
    SLUICE_TPL_RANGE,
    SLUICE_TPL_NAMESPACE,
    SLUICE_TPL_LOOP,
    SLUICE_TPL_MACRO,
    SLUICE_TPL_FUNCTION,
    SLUICE_TPL_METHOD,
    SLUICE_TPL_CYCLER,
    SLUICE_TPL_JOINER,
} SluiceTplType;

typedef struct _SluiceTplList SluiceTplList;
typedef struct _SluiceTplDict SluiceTplDict;
typedef struct _SluiceTplLoop SluiceTplLoop;
typedef struct _SluiceTplMacro SluiceTplMacro;
typedef struct _SluiceTplMethod SluiceTplMethod;

/* Why a value is undefined. */
typedef struct {
    const char *name;  /* what was looked up, or a whole sentence */
    const char *owner; /* the type it was looked up in, or NULL: a variable */
    bool is_sentence;
    bool is_unsafe; /* refused by the sandbox */
} SluiceTplUndefined;

typedef struct {
    int64_t start;
    int64_t stop; /* as given; only printed */
    int64_t step;
    int64_t n;
} SluiceTplRange;

typedef struct {
    SluiceTplType type;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const SluiceTplString *string;
        const SluiceTplUndefined *undefined;
        SluiceTplList *list; /* LIST, TUPLE, VIEW, ITERATOR, CYCLER, JOINER */
        SluiceTplDict *dict; /* DICT, NAMESPACE */
        const SluiceTplRange *range;
        SluiceTplLoop *loop;
        const SluiceTplMacro *macro;
        const SluiceTplMethod *method;
        int function; /* index in the table of template-globals.c */
    };
} SluiceTplValue;

struct _SluiceTplList {
    SluiceTplValue *items;
    gsize n;
    gsize n_cap;
    gsize position;   /* ITERATOR, CYCLER, JOINER */
    const char *kind; /* VIEW and ITERATOR: the name of the type */
    bool is_group;    /* TUPLE: made by groupby, so that it has attributes */
};

typedef struct {
    SluiceTplValue key;
    SluiceTplValue value;
} SluiceTplEntry;

/* In order of insertion; beyond a few entries found through an open-addressed index. */
struct _SluiceTplDict {
    SluiceTplEntry *entries;
    gsize n;
    gsize n_cap;
    uint32_t *index; /* entry + 1, or 0: free */
    gsize n_index;   /* a power of two */
};

struct _SluiceTplLoop {
    const SluiceTplValue *items;
    gsize n;
    gsize idx;
    int depth0;
    SluiceTplValue last_changed;    /* the arguments of changed(), or ABSENT */
    const SluiceTplNode *recursive; /* the for statement, if it calls itself */
    SluiceTplScope *scope;          /* where it stands */
};

struct _SluiceTplMacro {
    const SluiceTplNode *node;
    SluiceTplScope *scope; /* where it was defined */
    SluiceTplValue caller; /* ABSENT, or what a call block passes */
};

typedef struct {
    const SluiceTplString *name;
    SluiceTplValue value;
} SluiceTplKeyword;

/* A call of a filter, test, method or function. */
typedef struct {
    const char *what; /* its name */
    SluiceTplValue subject;
    const SluiceTplValue *args;
    gsize n_args;
    const SluiceTplKeyword *keywords;
    gsize n_keywords;
} SluiceTplCall;

typedef bool (*SluiceTplFunc)(SluiceTplEval *ev, const SluiceTplCall *call, SluiceTplValue *out);

typedef struct {
    const char *name;
    SluiceTplFunc func;
} SluiceTplFuncEntry;

struct _SluiceTplMethod {
    const SluiceTplFuncEntry *entry;
    SluiceTplValue subject;
};

#define SLUICE_TPL_NONE_VALUE ((SluiceTplValue){.type = SLUICE_TPL_NONE})
#define SLUICE_TPL_BOOL_VALUE(x) ((SluiceTplValue){.type = SLUICE_TPL_BOOL, .boolean = (x)})
#define SLUICE_TPL_INT_VALUE(x) ((SluiceTplValue){.type = SLUICE_TPL_INT, .integer = (x)})
#define SLUICE_TPL_FLOAT_VALUE(x) ((SluiceTplValue){.type = SLUICE_TPL_FLOAT, .real = (x)})
#define SLUICE_TPL_STRING_VALUE(x) ((SluiceTplValue){.type = SLUICE_TPL_STRING, .string = (x)})

const char *sluice_tpl_type_name(const SluiceTplValue *v);
bool sluice_tpl_is_true(const SluiceTplValue *v);
bool sluice_tpl_is_number(const SluiceTplValue *v);
bool sluice_tpl_is_string(const SluiceTplValue *v, const char *text);

/* Functions that answer bool have failed, and set the error of @ev, when they answer false. */
bool sluice_tpl_equal(SluiceTplEval *ev, const SluiceTplValue *a, const SluiceTplValue *b,
                      bool *is_equal);
/* -1, 0 or 1; unordered values, a NaN among them, answer 2. */
bool sluice_tpl_order(SluiceTplEval *ev, const SluiceTplValue *a, const SluiceTplValue *b,
                      const char *op, int *order);
bool sluice_tpl_contains(SluiceTplEval *ev, const SluiceTplValue *box, const SluiceTplValue *item,
                         bool *is_in);
bool sluice_tpl_length(SluiceTplEval *ev, const SluiceTplValue *v, gsize *n);
/* All that @v yields when iterated; an iterator is then used up. */
bool sluice_tpl_items(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplValue **items,
                      gsize *n);

bool sluice_tpl_list_new(SluiceTplEval *ev, SluiceTplType type, gsize n_cap, SluiceTplValue *out);
bool sluice_tpl_list_add(SluiceTplEval *ev, SluiceTplValue *list, const SluiceTplValue *item);
bool sluice_tpl_dict_new(SluiceTplEval *ev, SluiceTplType type, SluiceTplValue *out);
bool sluice_tpl_dict_set(SluiceTplEval *ev, SluiceTplDict *dict, const SluiceTplValue *key,
                         const SluiceTplValue *value);
/* Does not fail on a key that cannot be hashed: it is not there. */
const SluiceTplValue *sluice_tpl_dict_get(const SluiceTplDict *dict, const SluiceTplValue *key);
const SluiceTplValue *sluice_tpl_dict_find(const SluiceTplDict *dict, const char *name, gsize n);
bool sluice_tpl_is_hashable(const SluiceTplValue *v);
bool sluice_tpl_dict_view(SluiceTplEval *ev, const SluiceTplDict *dict, const char *kind,
                          SluiceTplValue *out);

/* ---- texts: template-string.c --------------------------------------------------------------- */

bool sluice_tpl_string_new(SluiceTplEval *ev, const char *data, gsize n, bool is_tainted,
                           SluiceTplValue *out);
bool sluice_tpl_string_static(SluiceTplEval *ev, const char *text, SluiceTplValue *out);
bool sluice_tpl_string_slice(SluiceTplEval *ev, const SluiceTplString *s, gsize begin, gsize n,
                             SluiceTplValue *out);
bool sluice_tpl_string_end(SluiceTplEval *ev, SluiceTplBuilder *b, SluiceTplValue *out);
bool sluice_tpl_string_concat(SluiceTplEval *ev, const SluiceTplString *a, const SluiceTplString *b,
                              SluiceTplValue *out);
const SluiceTplString *sluice_tpl_string_escape(SluiceTplEval *ev, const SluiceTplString *s);
gsize sluice_tpl_string_n_chars(const SluiceTplString *s);
/* The byte at which character @idx begins; @idx may be the length. */
gsize sluice_tpl_string_offset(const SluiceTplString *s, gsize idx);
/* The byte where @needle begins at or behind @from, or -1. */
gssize sluice_tpl_string_find(const SluiceTplString *s, gsize from, const SluiceTplString *needle);
bool sluice_tpl_is_space(gunichar c);
/* str() and repr() of Python. */
bool sluice_tpl_str(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplString **out);
bool sluice_tpl_add_str(SluiceTplEval *ev, SluiceTplBuilder *b, const SluiceTplValue *v);
bool sluice_tpl_add_repr(SluiceTplEval *ev, SluiceTplBuilder *b, const SluiceTplValue *v);

/* ---- numbers: template-number.c ------------------------------------------------------------- */

#define SLUICE_TPL_MAX_NUMBER 32 /* bytes of a printed number, its NUL included */

void sluice_tpl_float_repr(double x, char text[SLUICE_TPL_MAX_NUMBER]);
bool sluice_tpl_parse_int(const char *text, gsize n, int base, int64_t *value, bool *is_too_big);
bool sluice_tpl_parse_float(const char *text, gsize n, double *value);
double sluice_tpl_to_double(const SluiceTplValue *v);
bool sluice_tpl_to_int(SluiceTplEval *ev, const SluiceTplValue *v, const char *what, int64_t *out);
bool sluice_tpl_arithmetic(SluiceTplEval *ev, char op, const SluiceTplValue *a,
                           const SluiceTplValue *b, SluiceTplValue *out);
bool sluice_tpl_negate(SluiceTplEval *ev, char op, const SluiceTplValue *a, SluiceTplValue *out);

/* ---- the tree ------------------------------------------------------------------------------- */

typedef enum {
    SLUICE_TPL_NODE_CONST,
    SLUICE_TPL_NODE_NAME,
    SLUICE_TPL_NODE_TUPLE,
    SLUICE_TPL_NODE_LIST,
    SLUICE_TPL_NODE_DICT, /* keys and values by turns */
    SLUICE_TPL_NODE_UNARY,
    SLUICE_TPL_NODE_NOT,
    SLUICE_TPL_NODE_BINARY,
    SLUICE_TPL_NODE_CONCAT,
    SLUICE_TPL_NODE_AND,
    SLUICE_TPL_NODE_OR,
    SLUICE_TPL_NODE_COMPARE, /* a, then pairs of operator and list[i] */
    SLUICE_TPL_NODE_COND,    /* b if a else c */
    SLUICE_TPL_NODE_ATTRIBUTE,
    SLUICE_TPL_NODE_ITEM,
    SLUICE_TPL_NODE_SLICE,
    SLUICE_TPL_NODE_CALL,
    SLUICE_TPL_NODE_FILTER,
    SLUICE_TPL_NODE_TEST,
    SLUICE_TPL_NODE_NSREF, /* target of an assignment: name.attribute */

    SLUICE_TPL_NODE_DATA,
    SLUICE_TPL_NODE_OUTPUT,
    SLUICE_TPL_NODE_IF,
    SLUICE_TPL_NODE_FOR, /* for a in b if c */
    SLUICE_TPL_NODE_SET,
    SLUICE_TPL_NODE_SET_BLOCK,
    SLUICE_TPL_NODE_MACRO,
    SLUICE_TPL_NODE_CALL_BLOCK,
    SLUICE_TPL_NODE_FILTER_BLOCK,
    SLUICE_TPL_NODE_WITH,
    SLUICE_TPL_NODE_GENERATION,
    SLUICE_TPL_NODE_BREAK,
    SLUICE_TPL_NODE_CONTINUE,
} SluiceTplNodeType;

typedef struct {
    const SluiceTplString *name;
    SluiceTplNode *value;
} SluiceTplNamedNode;

typedef struct {
    SluiceTplNode **args;
    gsize n_args;
    SluiceTplNamedNode *keywords;
    gsize n_keywords;
    SluiceTplNode *star;
    SluiceTplNode *star_star;
} SluiceTplArgs;

/* One node for every kind, so that walking is simple; a kind uses what it needs. */
struct _SluiceTplNode {
    SluiceTplNodeType type;
    int line;
    int name;                       /* of a variable or macro: its number */
    char op;                        /* of UNARY and BINARY: + - * / % and f: //, p: ** */
    bool is_extended;               /* FOR: recursive; MACRO: uses caller, in its body */
    bool uses_varargs;              /* MACRO */
    bool uses_kwargs;               /* MACRO */
    bool has_closure;               /* FOR: a macro in its body may outlive an iteration */
    bool uses_loop;                 /* FOR: the variable of that name */
    const char *ops;                /* COMPARE: one letter each, = ! < l > g i n */
    const SluiceTplString *text;    /* attribute, filter, test, data */
    const SluiceTplFuncEntry *func; /* FILTER, TEST; NULL: unknown, an error when reached */
    SluiceTplValue value;           /* CONST */
    SluiceTplNode *a, *b, *c;
    SluiceTplNode **list;
    gsize n_list;
    SluiceTplNode **defaults; /* MACRO, CALL_BLOCK: one per parameter, NULL: none; WITH: values */
    SluiceTplArgs *call;
    SluiceTplBody *body, *body2; /* FOR: loop, else; IF: body2 is else */
    SluiceTplBody **bodies;      /* IF: one for each test in list */
    int height;                  /* of the expression under this node */
};

struct _SluiceTplBody {
    SluiceTplNode **list;
    gsize n_list;
    int *unset; /* names that are assigned in here and undefined before, whatever the context */
    gsize n_unset;
};

struct _SluiceTemplate {
    SluiceTplArena arena;
    SluiceTplBody *body;
    GHashTable *name_ids; /* of SluiceTplString.data (terminated) to number + 1 */
    GPtrArray *names;
};

/* Names with fixed numbers. */
enum {
    SLUICE_TPL_NAME_LOOP,
    SLUICE_TPL_NAME_CALLER,
    SLUICE_TPL_NAME_VARARGS,
    SLUICE_TPL_NAME_KWARGS,
    SLUICE_TPL_N_FIXED_NAMES
};

typedef enum {
    SLUICE_TPL_TOKEN_END,
    SLUICE_TPL_TOKEN_DATA,
    SLUICE_TPL_TOKEN_VARIABLE_BEGIN,
    SLUICE_TPL_TOKEN_VARIABLE_END,
    SLUICE_TPL_TOKEN_BLOCK_BEGIN,
    SLUICE_TPL_TOKEN_BLOCK_END,
    SLUICE_TPL_TOKEN_NAME,
    SLUICE_TPL_TOKEN_STRING,
    SLUICE_TPL_TOKEN_INTEGER,
    SLUICE_TPL_TOKEN_FLOAT,
    SLUICE_TPL_TOKEN_OPERATOR,
} SluiceTplTokenType;

typedef struct {
    SluiceTplTokenType type;
    int line;
    const SluiceTplString *text; /* DATA, NAME, STRING, unescaped */
    char op[3];                  /* OPERATOR */
    int64_t integer;
    double real;
} SluiceTplToken;

/* template-lexer.c: an array of SluiceTplToken that ends with END, or NULL. */
GArray *sluice_tpl_lex(SluiceTemplate *t, const char *source, gsize n_bytes, GError **error);
/* template-parser.c: fills t->body. */
gboolean sluice_tpl_parse(SluiceTemplate *t, const SluiceTplToken *tokens, GError **error);
/* template-scope.c: fills the unset names of every body. */
gboolean sluice_tpl_resolve_scopes(SluiceTemplate *t, GError **error);
int sluice_tpl_name_id(SluiceTemplate *t, const char *name, gsize n);

/* ---- evaluation: template-eval.c, template-expr.c ------------------------------------------- */

typedef struct {
    int name;
    SluiceTplValue value; /* ABSENT: assigned in this scope, but not yet */
} SluiceTplBinding;

struct _SluiceTplScope {
    SluiceTplScope *parent;
    SluiceTplBinding *bindings;
    gsize n;
    gsize n_cap;
};

struct _SluiceTplEval {
    const SluiceTemplate *template;
    SluiceTemplateLimits limits;
    SluiceTplArena arena;
    GError *error;
    guint64 n_steps;
    int depth;
    int line;
    SluiceTplValue *context; /* by number of the name; ABSENT: not among the variables */
    SluiceTplScope *scope;
    SluiceTplBuilder *out;
    gsize n_captured;                    /* bytes in the buffers around @out */
    const SluiceTplValue *block_subject; /* what the filters of a block work on */
};

typedef enum {
    SLUICE_TPL_FLOW_NEXT,
    SLUICE_TPL_FLOW_BREAK,
    SLUICE_TPL_FLOW_CONTINUE,
    SLUICE_TPL_FLOW_FAILED,
} SluiceTplFlow;

void sluice_tpl_set_error(SluiceTplEval *ev, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* A macro, so that the compiler sees that this is always false. */
#define sluice_tpl_fail(ev, ...) (sluice_tpl_set_error((ev), __VA_ARGS__), false)
bool sluice_tpl_fail_memory(SluiceTplEval *ev);
/* Says why @v is undefined. */
bool sluice_tpl_fail_undefined(SluiceTplEval *ev, const SluiceTplValue *v);
bool sluice_tpl_step(SluiceTplEval *ev, gsize n_steps);
bool sluice_tpl_enter(SluiceTplEval *ev);
void sluice_tpl_leave(SluiceTplEval *ev);
void *sluice_tpl_alloc(SluiceTplEval *ev, gsize n_items, gsize n_item_bytes);
bool sluice_tpl_undefined(SluiceTplEval *ev, const char *name, gsize n, const char *owner,
                          SluiceTplValue *out);
bool sluice_tpl_undefined_sentence(SluiceTplEval *ev, const char *sentence, SluiceTplValue *out);

SluiceTplFlow sluice_tpl_run(SluiceTplEval *ev, const SluiceTplBody *body);
bool sluice_tpl_call_macro(SluiceTplEval *ev, const SluiceTplMacro *macro,
                           const SluiceTplCall *call, SluiceTplValue *out);
bool sluice_tpl_call_loop(SluiceTplEval *ev, const SluiceTplLoop *loop, const SluiceTplCall *call,
                          SluiceTplValue *out);
bool sluice_tpl_bind_name(SluiceTplEval *ev, SluiceTplScope *scope, int name,
                          const SluiceTplValue *value);
bool sluice_tpl_lookup(SluiceTplEval *ev, int name, SluiceTplValue *out);

bool sluice_tpl_expr(SluiceTplEval *ev, const SluiceTplNode *node, SluiceTplValue *out);
bool sluice_tpl_call_node(SluiceTplEval *ev, const SluiceTplNode *node,
                          const SluiceTplValue *subject, const SluiceTplValue *caller,
                          SluiceTplValue *out);
bool sluice_tpl_call(SluiceTplEval *ev, const SluiceTplValue *callee, const SluiceTplCall *call,
                     SluiceTplValue *out);
/* template-access.c: x.name, x[key], x[a:b:c] */
bool sluice_tpl_attribute(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplString *name,
                          SluiceTplValue *out);
bool sluice_tpl_item(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplValue *key,
                     SluiceTplValue *out);
bool sluice_tpl_slice(SluiceTplEval *ev, const SluiceTplValue *v, const SluiceTplValue bounds[3],
                      SluiceTplValue *out);

/* ---- functions ------------------------------------------------------------------------------ */

/* Sorts arguments into @values by @names, NULL-terminated; the first @n_needed must be given. */
bool sluice_tpl_bind(SluiceTplEval *ev, const SluiceTplCall *call, const char *const *names,
                     gsize n_needed, SluiceTplValue *values);
bool sluice_tpl_call_by_name(SluiceTplEval *ev, bool is_test, const SluiceTplCall *call,
                             SluiceTplValue *out);

const SluiceTplFuncEntry *sluice_tpl_filter_find(const char *name);
const SluiceTplFuncEntry *sluice_tpl_sequence_filter_find(const char *name);
const SluiceTplFuncEntry *sluice_tpl_test_find(const char *name);
const SluiceTplFuncEntry *sluice_tpl_string_method_find(const char *name);
const SluiceTplFuncEntry *sluice_tpl_box_method_find(const SluiceTplValue *v, const char *name);
/* Whether the method changes its subject, which the sandbox does not let happen. */
bool sluice_tpl_method_is_refused(const SluiceTplFuncEntry *entry);
int sluice_tpl_global_find(const char *name);
const SluiceTplFuncEntry *sluice_tpl_global(int function);

bool sluice_tpl_to_json(SluiceTplEval *ev, const SluiceTplCall *call, SluiceTplValue *out);
bool sluice_tpl_from_json(SluiceTplEval *ev, const json_t *json, bool is_tainted,
                          SluiceTplValue *out);
bool sluice_tpl_from_json_text(SluiceTplEval *ev, const SluiceTplCall *call, SluiceTplValue *out);
/* "…" % args, and "…".format(args) */
bool sluice_tpl_format_percent(SluiceTplEval *ev, const SluiceTplString *format,
                               const SluiceTplValue *args, SluiceTplValue *out);
bool sluice_tpl_format_braces(SluiceTplEval *ev, const SluiceTplCall *call, SluiceTplValue *out);
bool sluice_tpl_strftime(SluiceTplEval *ev, const SluiceTplString *format, SluiceTplValue *out);
bool sluice_tpl_strip(SluiceTplEval *ev, const SluiceTplString *s, const SluiceTplString *chars,
                      bool at_begin, bool at_end, SluiceTplValue *out);
bool sluice_tpl_replace(SluiceTplEval *ev, const SluiceTplString *s, const SluiceTplString *old,
                        const SluiceTplString *new_text, int64_t n_max, SluiceTplValue *out);
bool sluice_tpl_map_case(SluiceTplEval *ev, const SluiceTplString *s, char how,
                         SluiceTplValue *out);
bool sluice_tpl_split_lines(SluiceTplEval *ev, const SluiceTplString *s, bool keeps_ends,
                            SluiceTplValue *out);

G_END_DECLS
