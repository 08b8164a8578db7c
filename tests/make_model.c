/* SPDX-License-Identifier: MIT */
/* make_model OUT: the command line over model_builder.h. */
#include "config.h"

#include "tests/model_builder.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *name;
    size_t at; /* of an int in ModelSpec */
    const char *help;
} IntOption;

static const IntOption int_options[] = {
    {"layers", offsetof(ModelSpec, n_layers), "blocks"},
    {"embd", offsetof(ModelSpec, n_embd), "width"},
    {"heads", offsetof(ModelSpec, n_head), "query heads"},
    {"heads-kv", offsetof(ModelSpec, n_head_kv), "key and value heads"},
    {"head-dim", offsetof(ModelSpec, head_dim), "elements of a head"},
    {"ff", offsetof(ModelSpec, n_ff), "width of a dense feed-forward"},
    {"vocab", offsetof(ModelSpec, n_vocab), "tokens"},
    {"experts", offsetof(ModelSpec, n_expert), "routed experts"},
    {"experts-used", offsetof(ModelSpec, n_expert_used), "experts per token"},
    {"expert-ff", offsetof(ModelSpec, n_expert_ff), "width of an expert"},
    {"shared-ff", offsetof(ModelSpec, n_shared_ff), "width of the shared expert"},
    {"ssm-state", offsetof(ModelSpec, ssm_state), "head size of recurrent layers"},
    {"ssm-groups", offsetof(ModelSpec, ssm_groups), "their key heads"},
    {"ssm-heads", offsetof(ModelSpec, ssm_heads), "their value heads"},
    {"ssm-conv", offsetof(ModelSpec, ssm_conv), "their convolution's taps"},
    {"interval", offsetof(ModelSpec, interval), "every n-th layer has full attention"},
    {"nextn", offsetof(ModelSpec, n_nextn), "prediction blocks, the last of --layers"},
    {"window", offsetof(ModelSpec, n_window), "sliding window in tokens"},
    {"rot", offsetof(ModelSpec, n_rot), "rotated elements of a head"},
    {"context", offsetof(ModelSpec, n_context), "context length"},
};

static const IntOption type_options[] = {
    {"type", offsetof(ModelSpec, type), "type of the weights"},
    {"down", offsetof(ModelSpec, down_type), "type of ffn_down*"},
    {"head", offsetof(ModelSpec, head_type), "type of output"},
    {"embd-type", offsetof(ModelSpec, embd_type), "type of token_embd"},
    {"expert-type", offsetof(ModelSpec, expert_type), "type of the routed experts"},
};

typedef struct {
    char *arch;
    char *preset;
    char *mix;
    gint64 seed;
    gboolean is_hollow;
    gboolean is_tied;
    gboolean is_untied;
    gboolean has_rope_factors;
    int ints[G_N_ELEMENTS(int_options)];
    char *types[G_N_ELEMENTS(type_options)];
} Options;

enum { UNSET = -1000000 };

static int
fail(const char *format, const char *value)
{
    fprintf(stderr, "make_model: ");
    fprintf(stderr, format, value);
    fputc('\n', stderr);
    return 2;
}

static gboolean
parse(Options *o, int *argc, char ***argv, GError **error)
{
    g_autoptr(GOptionContext) context = g_option_context_new("OUT");
    GOptionEntry entries[G_N_ELEMENTS(int_options) + G_N_ELEMENTS(type_options) + 9] = {
        {"arch", 0, 0, G_OPTION_ARG_STRING, &o->arch, "family, of a tiny shape", "NAME"},
        {"preset", 0, 0, G_OPTION_ARG_STRING, &o->preset, "a real model's shape", "NAME"},
        {"mix", 0, 0, G_OPTION_ARG_STRING, &o->mix, "types as the stock quantiser's", "q4_k_m"},
        {"seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "of the weights (1)", "N"},
        {"hollow", 0, 0, G_OPTION_ARG_NONE, &o->is_hollow, "leave the weights a hole", NULL},
        {"tied", 0, 0, G_OPTION_ARG_NONE, &o->is_tied, "no output.weight", NULL},
        {"untied", 0, 0, G_OPTION_ARG_NONE, &o->is_untied, "with output.weight", NULL},
        {"rope-factors", 0, 0, G_OPTION_ARG_NONE, &o->has_rope_factors,
         "with tensors of frequency factors", NULL},
    };
    size_t n = 8;

    for (size_t i = 0; i < G_N_ELEMENTS(int_options); i++) {
        o->ints[i] = UNSET;
        entries[n++] = (GOptionEntry){int_options[i].name, 0,  0, G_OPTION_ARG_INT, &o->ints[i],
                                      int_options[i].help, "N"};
    }
    for (size_t i = 0; i < G_N_ELEMENTS(type_options); i++)
        entries[n++] =
            (GOptionEntry){type_options[i].name, 0,     0, G_OPTION_ARG_STRING, &o->types[i],
                           type_options[i].help, "TYPE"};
    g_option_context_add_main_entries(context, entries, NULL);
    return g_option_context_parse(context, argc, argv, error);
}

int
main(int argc, char **argv)
{
    Options o = {.seed = 1};
    g_autoptr(GError) error = NULL;
    ModelSpec spec;

    if (!parse(&o, &argc, &argv, &error))
        return fail("%s", error->message);
    if (argc != 2)
        return fail("expected one file to write%s", "");
    if (o.preset != NULL && !model_spec_preset(&spec, o.preset))
        return fail("unknown preset '%s'", o.preset);
    if (o.preset == NULL && !model_spec_init(&spec, o.arch != NULL ? o.arch : "llama"))
        return fail("unknown family '%s'", o.arch);
    if (o.mix != NULL && g_ascii_strcasecmp(o.mix, "q4_k_m") != 0)
        return fail("unknown mix '%s'", o.mix);
    for (size_t i = 0; i < G_N_ELEMENTS(int_options); i++) {
        if (o.ints[i] != UNSET)
            *(int *) ((char *) &spec + int_options[i].at) = o.ints[i];
    }
    for (size_t i = 0; i < G_N_ELEMENTS(type_options); i++) {
        if (o.types[i] == NULL)
            continue;
        int type = sluice_dtype_from_name(o.types[i]);
        if (type < 0)
            return fail("unknown type '%s'", o.types[i]);
        *(int *) ((char *) &spec + type_options[i].at) = type;
    }
    spec.is_q4_k_m = o.mix != NULL;
    spec.seed = (uint64_t) o.seed;
    spec.is_hollow = o.is_hollow;
    spec.is_tied = o.is_tied || (spec.is_tied && !o.is_untied);
    spec.has_rope_factors = spec.has_rope_factors || o.has_rope_factors;
    if (!model_write(&spec, argv[1], &error))
        return fail("%s", error->message);
    return 0;
}
