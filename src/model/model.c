/* SPDX-License-Identifier: MIT */
/*
 * Opening a model: the family's table entry, its hyper-parameters, and every tensor it names
 * looked up once, with shape and type checked. What the family does not name is counted and
 * said, and never loaded.
 */
#include "config.h"

#define G_LOG_DOMAIN "Sluice"

#include "src/model/model.h"

#include <string.h>

#include "src/core/error.h"

static const SluiceFamily *const families[] = {
    &sluice_family_llama,
    &sluice_family_qwen2,
    &sluice_family_qwen3,
    &sluice_family_gemma3,
};

/* ---- families ------------------------------------------------------------------------------- */

/* Steps of insertion, removal and replacement between two short words. Source: Wagner and Fischer
 * 1974. */
static unsigned
edit_distance(const char *a, const char *b)
{
    unsigned row[65];
    size_t n_a = strlen(a), n_b = MIN(strlen(b), 64);

    for (size_t j = 0; j <= n_b; j++)
        row[j] = (unsigned) j;
    for (size_t i = 1; i <= n_a; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned) i;
        for (size_t j = 1; j <= n_b; j++) {
            unsigned above = row[j];
            unsigned replaced = diagonal + (a[i - 1] != b[j - 1]);

            row[j] = MIN(MIN(above, row[j - 1]) + 1, replaced);
            diagonal = above;
        }
    }
    return row[n_b];
}

static const SluiceFamily *
nearest_family(const char *name)
{
    const SluiceFamily *best = families[0];

    for (size_t i = 1; i < G_N_ELEMENTS(families); i++) {
        if (edit_distance(name, families[i]->name) < edit_distance(name, best->name))
            best = families[i];
    }
    return best;
}

static char *
list_families(void)
{
    const char *names[G_N_ELEMENTS(families) + 1] = {NULL};

    for (size_t i = 0; i < G_N_ELEMENTS(families); i++)
        names[i] = families[i]->name;
    return g_strjoinv(", ", (char **) names);
}

static const SluiceFamily *
find_family(const SluiceGguf *gguf, GError **error)
{
    SluiceGgufString type = {"model", 5}, name = {NULL, 0};
    g_autofree char *shown = NULL, *known = NULL;

    if (!sluice_gguf_string(gguf, "general.type", &type, error))
        return NULL;
    if (type.n_bytes != 5 || memcmp(type.data, "model", 5) != 0) {
        shown = sluice_error_printable(type.data, (gssize) MIN(type.n_bytes, 64));
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "file holds a '%s', expected a language model", shown);
        return NULL;
    }
    if (!sluice_gguf_require(gguf, "general.architecture", error) ||
        !sluice_gguf_string(gguf, "general.architecture", &name, error))
        return NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(families); i++) {
        if (name.n_bytes == strlen(families[i]->name) &&
            memcmp(name.data, families[i]->name, name.n_bytes) == 0)
            return families[i];
    }
    shown = sluice_error_printable(name.data, (gssize) MIN(name.n_bytes, 64));
    known = list_families();
    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                "unsupported architecture '%s' (nearest: '%s'; supported: %s)", shown,
                nearest_family(shown)->name, known);
    return NULL;
}

/* ---- binding -------------------------------------------------------------------------------- */

static char *
format_shape(const int64_t *ne, int n_dims)
{
    GString *s = g_string_new("[");

    for (int i = 0; i < n_dims; i++)
        g_string_append_printf(s, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", ne[i]);
    g_string_append_c(s, ']');
    return g_string_free(s, FALSE);
}

static char *
full_name(const SluiceBinder *b, const char *name)
{
    return b->layer < 0 ? g_strdup(name) : g_strdup_printf("blk.%d.%s", b->layer, name);
}

static bool
is_matrix_type(SluiceDtype dtype)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);

    return dtype == SLUICE_DTYPE_F32 || dtype == SLUICE_DTYPE_F16 || dtype == SLUICE_DTYPE_BF16 ||
           (info != NULL && info->is_quantised);
}

/* ne: the expected shape in the file's order, dimensions beyond the third are 1. */
static void
bind_tensor(SluiceBinder *b, SluiceBindMode mode, const char *name, const int64_t ne[3], int n_dims,
            SluiceWeight *weight)
{
    g_autofree char *full = full_name(b, name);
    const SluiceGgufTensor *t;
    gssize idx;

    *weight = 0;
    if (b->error != NULL)
        return;
    idx = sluice_gguf_tensor_find(b->model->gguf, full);
    if (idx < 0) {
        if (mode == SLUICE_BIND_REQUIRED)
            g_set_error(&b->error, SLUICE_ERROR, SLUICE_ERROR_MODEL, "missing tensor '%s'", full);
        return;
    }
    t = sluice_gguf_tensor(b->model->gguf, (size_t) idx);
    if (t->ne[0] != ne[0] || t->ne[1] != ne[1] || t->ne[2] != ne[2] || t->ne[3] != 1) {
        g_autofree char *got = format_shape(t->ne, t->n_dims);
        g_autofree char *expected = format_shape(ne, n_dims);

        g_set_error(&b->error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "tensor '%s' has shape %s, expected %s", full, got, expected);
        return;
    }
    if (n_dims == 1 ? t->dtype != SLUICE_DTYPE_F32 : !is_matrix_type(t->dtype)) {
        g_set_error(&b->error, SLUICE_ERROR, SLUICE_ERROR_MODEL,
                    "tensor '%s' has type %s, expected %s", full, sluice_dtype_info(t->dtype)->name,
                    n_dims == 1 ? "F32" : "a type that matrix products take");
        return;
    }
    *weight = (SluiceWeight) idx + 1;
    b->model->is_used[idx] = 1;
}

/**
 * sluice_bind_vector:
 * @b: the binder
 * @mode: whether absence is a failure
 * @name: behind "blk.N." in a layer
 * @n: the number of values expected
 * @weight: (out): the handle, or 0
 *
 * Binds a float32 vector.
 */
void
sluice_bind_vector(SluiceBinder *b, SluiceBindMode mode, const char *name, int64_t n,
                   SluiceWeight *weight)
{
    bind_tensor(b, mode, name, (const int64_t[]){n, 1, 1}, 1, weight);
}

/**
 * sluice_bind_matrix:
 * @b: the binder
 * @mode: whether absence is a failure
 * @name: behind "blk.N." in a layer
 * @n_in: input features
 * @n_out: output features
 * @weight: (out): the handle, or 0
 *
 * Binds a matrix of any type that products take.
 */
void
sluice_bind_matrix(SluiceBinder *b, SluiceBindMode mode, const char *name, int64_t n_in,
                   int64_t n_out, SluiceWeight *weight)
{
    bind_tensor(b, mode, name, (const int64_t[]){n_in, n_out, 1}, 2, weight);
}

/**
 * sluice_bind_stack:
 * @b: the binder
 * @mode: whether absence is a failure
 * @name: behind "blk.N." in a layer
 * @n_in: input features
 * @n_out: output features
 * @n_slabs: matrices in the stack, one an expert
 * @weight: (out): the handle, or 0
 */
void
sluice_bind_stack(SluiceBinder *b, SluiceBindMode mode, const char *name, int64_t n_in,
                  int64_t n_out, int64_t n_slabs, SluiceWeight *weight)
{
    bind_tensor(b, mode, name, (const int64_t[]){n_in, n_out, n_slabs}, 3, weight);
}

/**
 * sluice_bind_has:
 * @b: the binder
 * @name: behind "blk.N." in a layer
 *
 * Returns: whether the file has that tensor
 */
bool
sluice_bind_has(const SluiceBinder *b, const char *name)
{
    g_autofree char *full = full_name(b, name);

    return sluice_gguf_tensor_find(b->model->gguf, full) >= 0;
}

static void
bind_globals(SluiceBinder *b)
{
    SluiceModel *m = b->model;
    const SluiceModelParams *p = &m->params;

    b->layer = -1;
    sluice_bind_matrix(b, SLUICE_BIND_REQUIRED, "token_embd.weight", p->n_embd, p->n_vocab,
                       &m->token_embd);
    sluice_bind_vector(b, SLUICE_BIND_REQUIRED, "output_norm.weight", p->n_embd, &m->output_norm);
    sluice_bind_matrix(b, SLUICE_BIND_OPTIONAL, "output.weight", p->n_embd, p->n_vocab, &m->output);
    sluice_bind_vector(b, SLUICE_BIND_OPTIONAL, "rope_freqs.weight", p->layers[0].rope.n_rot / 2,
                       &m->rope_freqs);
    if (m->output == 0)
        m->output = m->token_embd;
}

/* Counts what the model is made of, and says what it has no use for. */
static void
count_tensors(SluiceModel *m)
{
    const char *first_unused = NULL;
    size_t n_unused = 0;

    for (size_t i = 0; i < sluice_gguf_n_tensors(m->gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(m->gguf, i);

        m->n_params += (uint64_t) (t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
        m->n_bytes += t->n_bytes;
        if (!m->is_used[i] && n_unused++ == 0)
            first_unused = t->name;
    }
    if (n_unused > 0) {
        g_autofree char *shown = sluice_error_printable(first_unused, -1);

        g_info("%zu tensors are not used by this architecture (first: '%s')", n_unused, shown);
    }
}

static gboolean
bind_tensors(SluiceModel *m, GError **error)
{
    SluiceBinder b = {.model = m};

    m->is_used = g_new0(uint8_t, sluice_gguf_n_tensors(m->gguf) + 1);
    m->layers = g_new0(SluiceLayer, m->params.n_layer);
    bind_globals(&b);
    for (int32_t i = 0; i < m->params.n_layer && b.error == NULL; i++) {
        b.layer = i;
        m->family->bind(&b, &m->layers[i], i);
    }
    if (b.error != NULL) {
        g_propagate_error(error, b.error);
        return FALSE;
    }
    count_tensors(m);
    return TRUE;
}

/* ---- the model ------------------------------------------------------------------------------ */

static gboolean
read_params(SluiceModel *m, GError **error)
{
    SluiceParamReader r = {.gguf = m->gguf, .family = m->family->name};

    if (sluice_params_read(&m->params, &r, m->family->is_neox) && m->family->read != NULL)
        m->family->read(&m->params, &r);
    if (r.error != NULL) {
        g_propagate_error(error, r.error);
        return FALSE;
    }
    return TRUE;
}

/**
 * sluice_model_new:
 * @gguf: the file; a reference is taken
 * @error: return location, or %NULL
 *
 * Reads hyper-parameters and binds tensors. Touches no weight.
 *
 * Returns: (transfer full): the model, or %NULL with an error that names the key or the tensor
 */
SluiceModel *
sluice_model_new(SluiceGguf *gguf, GError **error)
{
    g_autoptr(SluiceModel) m = NULL;
    const SluiceFamily *family = find_family(gguf, error);
    SluiceGgufString name = {"", 0};

    if (family == NULL)
        return NULL;
    m = g_new0(SluiceModel, 1);
    g_atomic_ref_count_init(&m->n_refs);
    m->gguf = sluice_gguf_ref(gguf);
    m->family = family;
    if (!read_params(m, error) || !bind_tensors(m, error) ||
        !sluice_gguf_string(gguf, "general.name", &name, error))
        return NULL;
    m->name = sluice_error_printable(name.data, (gssize) MIN(name.n_bytes, 256));
    return g_steal_pointer(&m);
}

SluiceModel *
sluice_model_ref(SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, NULL);
    g_atomic_ref_count_inc(&model->n_refs);
    return model;
}

void
sluice_model_unref(SluiceModel *model)
{
    if (model == NULL || !g_atomic_ref_count_dec(&model->n_refs))
        return;
    if (model->text_free != NULL)
        model->text_free(model->text);
    sluice_params_clear(&model->params);
    sluice_gguf_unref(model->gguf);
    g_free(model->layers);
    g_free(model->is_used);
    g_free(model->name);
    g_free(model);
}

/* ---- what a person asks --------------------------------------------------------------------- */

/* Names of general.file_type, which is informative only: every tensor has a type of its own. */
static const char *
file_type_name(uint64_t type)
{
    static const char *const names[] = {
        [0] = "F32",      [1] = "F16",      [2] = "Q4_0",    [3] = "Q4_1",    [7] = "Q8_0",
        [8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",   [11] = "Q3_K_S", [12] = "Q3_K_M",
        [13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",
        [18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS", [21] = "Q2_K_S", [22] = "IQ3_XS",
        [23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL", [26] = "IQ3_S",  [27] = "IQ3_M",
        [28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",  [32] = "BF16",
        [36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4",  [39] = "NVFP4",  [40] = "Q1_0",
        [41] = "Q2_0",
    };

    return type < G_N_ELEMENTS(names) ? names[type] : NULL;
}

/* The type that most of the bytes have. */
static const char *
dominant_type_name(const SluiceModel *model)
{
    uint64_t n_bytes[SLUICE_DTYPE_COUNT] = {0};
    int best = 0;

    for (size_t i = 0; i < sluice_gguf_n_tensors(model->gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(model->gguf, i);

        n_bytes[t->dtype] += t->n_bytes;
    }
    for (int type = 1; type < SLUICE_DTYPE_COUNT; type++) {
        if (n_bytes[type] > n_bytes[best])
            best = type;
    }
    return sluice_dtype_info((SluiceDtype) best)->name;
}

/**
 * sluice_model_family:
 * @model: a model
 *
 * Returns: general.architecture
 * Since: 0.1
 */
const char *
sluice_model_family(const SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, NULL);
    return model->family->name;
}

/**
 * sluice_model_name:
 * @model: a model
 *
 * Returns: general.name with control bytes escaped; may be empty
 * Since: 0.1
 */
const char *
sluice_model_name(const SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, NULL);
    return model->name;
}

/**
 * sluice_model_type:
 * @model: a model
 *
 * Returns: (transfer full): family, parameters and quantisation: "llama 134.52M Q4_1"
 * Since: 0.1
 */
char *
sluice_model_type(const SluiceModel *model)
{
    static const struct {
        double n;
        const char *unit;
    } units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}, {1.0, ""}};
    uint64_t file_type = G_MAXUINT64;
    const char *type = NULL;
    size_t u = 0;

    g_return_val_if_fail(model != NULL, NULL);
    if (sluice_gguf_uint(model->gguf, "general.file_type", G_MAXUINT64, &file_type, NULL))
        type = file_type_name(file_type & ~(uint64_t) 1024); /* 1024: the writer guessed */
    while (u + 1 < G_N_ELEMENTS(units) && (double) model->n_params < units[u].n)
        u++;
    return g_strdup_printf("%s %.2f%s %s", model->family->name,
                           (double) model->n_params / units[u].n, units[u].unit,
                           type != NULL ? type : dominant_type_name(model));
}

/**
 * sluice_model_n_params:
 * @model: a model
 *
 * Returns: elements of all tensors in the file
 * Since: 0.1
 */
uint64_t
sluice_model_n_params(const SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, 0);
    return model->n_params;
}

/**
 * sluice_model_n_bytes:
 * @model: a model
 *
 * Returns: bytes of all tensors in the file
 * Since: 0.1
 */
uint64_t
sluice_model_n_bytes(const SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, 0);
    return model->n_bytes;
}

/**
 * sluice_model_n_vocab:
 * @model: a model
 *
 * Returns: logits of a position; ids of the tokenizer are below it
 * Since: 0.1
 */
int32_t
sluice_model_n_vocab(const SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, 0);
    return model->params.n_vocab;
}

/**
 * sluice_model_n_ctx_train:
 * @model: a model
 *
 * Returns: the context that the model was made for, in tokens
 * Since: 0.1
 */
int32_t
sluice_model_n_ctx_train(const SluiceModel *model)
{
    g_return_val_if_fail(model != NULL, 0);
    return model->params.n_ctx_train;
}

/* ---- what an executor must hold ------------------------------------------------------------- */

/* Layers that see everything share table 0; those with a window share the next one. */
static int32_t
table_of_layer(const SluiceModel *model, int32_t layer)
{
    bool has_full = false;

    for (int32_t i = 0; i < model->params.n_layer; i++)
        has_full |= model->params.layers[i].window == 0;
    return model->params.layers[layer].window > 0 && has_full ? 1 : 0;
}

/**
 * sluice_model_n_kv_tables:
 * @model: the model
 *
 * Returns: page tables that a sequence needs
 */
int32_t
sluice_model_n_kv_tables(const SluiceModel *model)
{
    int32_t n = 0;

    for (int32_t i = 0; i < model->params.n_layer; i++)
        n = MAX(n, table_of_layer(model, i) + 1);
    return n;
}

/**
 * sluice_model_window:
 * @model: the model
 * @table: a page table
 *
 * Returns: how many positions back its layers see at most, the row itself included; 0: all
 */
int32_t
sluice_model_window(const SluiceModel *model, int32_t table)
{
    int32_t window = 0;

    for (int32_t i = 0; i < model->params.n_layer; i++) {
        if (table_of_layer(model, i) == table)
            window = MAX(window, model->params.layers[i].window);
    }
    return window;
}

/**
 * sluice_model_kv_groups:
 * @model: the model
 * @k_type: how keys are stored
 * @v_type: how values are stored
 *
 * Returns: (transfer full): an array of SluiceKvGroup, one for each layer that attends
 */
GArray *
sluice_model_kv_groups(const SluiceModel *model, SluiceDtype k_type, SluiceDtype v_type)
{
    const SluiceModelParams *p = &model->params;
    GArray *groups = g_array_sized_new(FALSE, TRUE, sizeof(SluiceKvGroup), (guint) p->n_layer);

    for (int32_t i = 0; i < p->n_layer; i++) {
        SluiceKvGroup group = {.layer = i,
                               .head_begin = 0,
                               .head_end = p->layers[i].n_head_kv,
                               .table = table_of_layer(model, i),
                               .k_dim = p->k_dim,
                               .v_dim = p->v_dim,
                               .k_type = k_type,
                               .v_type = v_type};

        g_array_append_val(groups, group);
    }
    return groups;
}
