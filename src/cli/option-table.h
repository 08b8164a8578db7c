/* SPDX-License-Identifier: MIT */
/*
 * The commands and their options as data. A row is one option of one or more commands; two
 * commands may use the same letters for different things (-p is a prompt for `run` and a number
 * of tokens for `bench`) in rows of their own.
 */
#pragma once

#include "src/cli/options.h"

G_BEGIN_DECLS

typedef enum {
    SLUICE_OPTION_FLAG,    /* int field = @set_to */
    SLUICE_OPTION_COUNT,   /* int field + 1, each time */
    SLUICE_OPTION_INT,     /* int32_t field, @min to @max */
    SLUICE_OPTION_SEED,    /* uint32_t field; -1 is SLUICE_SEED_RANDOM */
    SLUICE_OPTION_FLOAT,   /* float field, @min to @max */
    SLUICE_OPTION_STRING,  /* char * field; the last one counts */
    SLUICE_OPTION_STRINGS, /* GPtrArray * field; all count */
    SLUICE_OPTION_CHOICE,  /* int field = index in @choices */
    SLUICE_OPTION_INTS,    /* GArray * of int32_t: 1,2,8-16+4 */
    SLUICE_OPTION_CHOICES, /* GArray * of int: indices in @choices */
    SLUICE_OPTION_PAIRS,   /* GArray * of SluicePromptGen: P,G */
} SluiceOptionKind;

typedef enum {
    SLUICE_OPTION_GROUP_INPUT,
    SLUICE_OPTION_GROUP_ANSWER,
    SLUICE_OPTION_GROUP_TESTS,
    SLUICE_OPTION_GROUP_SAMPLING,
    SLUICE_OPTION_GROUP_MACHINE,
    SLUICE_OPTION_GROUP_OUTPUT,
    SLUICE_OPTION_GROUP_GENERAL,
    SLUICE_OPTION_GROUP_COUNT,
} SluiceOptionGroup;

typedef struct {
    const char *forms; /* separated by spaces; the first one names the option in messages */
    const char *value; /* what the value is called, or NULL for a flag */
    SluiceOptionKind kind;
    guint commands; /* SluiceCommandId, or-ed */
    SluiceOptionGroup group;
    size_t offset; /* in SluiceOptions */
    double min;    /* both ends belong to the range */
    double max;
    const char *const *choices; /* ends with NULL */
    int set_to;
    bool value_optional; /* a choice: without a value, the option means choices[0] */
    const char *deflt;   /* in words, or NULL: nothing worth saying */
    const char *help;    /* sentences, without the range and the default */
} SluiceOption;

typedef struct {
    const char *name;
    SluiceCommandId id;
    const char *synopsis; /* behind the name */
    const char *summary;  /* a line, no full stop */
} SluiceCommandInfo;

/* What other programs call something that Sluice lacks or does by itself. */
typedef struct {
    const char *forms;
    const char *hint;
} SluiceOptionForeign;

extern const SluiceOption sluice_option_table[];
extern const size_t sluice_option_table_n;
extern const SluiceOptionForeign sluice_option_foreign[];
extern const size_t sluice_option_foreign_n;
extern const SluiceCommandInfo sluice_command_table[];
extern const size_t sluice_command_table_n;
extern const char *const sluice_option_group_names[SLUICE_OPTION_GROUP_COUNT];

const SluiceCommandInfo *sluice_command_find(const char *name);
const SluiceCommandInfo *sluice_command_info(SluiceCommandId id);

G_END_DECLS
