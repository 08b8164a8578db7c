/* SPDX-License-Identifier: MIT */
/*
 * Continues a text: the shortest useful program over sluice.h.
 *
 *   cc generate.c $(pkg-config --cflags --libs sluice) -o generate
 *   ./generate model.gguf "The sun rises in the" 32
 */
#include <sluice.h>

#include <stdio.h>
#include <stdlib.h>

static gboolean
generate(SluiceSession *session, SluiceSampler *sampler, const GArray *prompt, int n_max,
         GError **error)
{
    SluiceModel *model = sluice_engine_model(sluice_session_engine(session));
    const int32_t *tokens = (const int32_t *) (const void *) prompt->data;
    g_autoptr(GString) bytes = g_string_new(NULL);

    if (!sluice_session_eval(session, tokens, prompt->len, error))
        return FALSE;
    for (int i = 0; i < n_max; i++) {
        int32_t token = sluice_sampler_draw(sampler, sluice_session_logits(session));

        if (sluice_model_is_end(model, token))
            break;
        sluice_sampler_accept(sampler, token);
        g_string_truncate(bytes, 0);
        sluice_model_append_token(model, token, FALSE, bytes);
        fwrite(bytes->str, 1, bytes->len, stdout);
        fflush(stdout);
        if (!sluice_session_eval(session, &token, 1, error))
            return FALSE;
    }
    putchar('\n');
    return TRUE;
}

static gboolean
run(const char *path, const char *text, int n_max, GError **error)
{
    g_autoptr(SluiceModel) model = sluice_model_open(path, error);
    g_autoptr(SluiceEngine) engine = NULL;
    g_autoptr(SluiceSession) session = NULL;
    g_autoptr(SluiceSampler) sampler = NULL;
    g_autoptr(GArray) prompt = NULL;
    SluiceEngineParams engine_params;
    SluiceSamplerParams sampler_params;

    if (model == NULL)
        return FALSE;
    sluice_engine_params_init(&engine_params);
    sluice_sampler_params_init(&sampler_params, model);
    sampler_params.temperature = 0.0f;
    prompt = sluice_model_tokenize(model, text, -1, SLUICE_TOKENIZE_ADD_SPECIAL, error);
    if (prompt == NULL)
        return FALSE;
    engine = sluice_engine_new(model, &engine_params, error);
    if (engine == NULL)
        return FALSE;
    session = sluice_session_new(engine, error);
    sampler = sluice_sampler_new(model, &sampler_params, session != NULL ? error : NULL);
    if (session == NULL || sampler == NULL)
        return FALSE;
    return generate(session, sampler, prompt, n_max, error);
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;

    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL TEXT [TOKENS]\n", argv[0]);
        return 2;
    }
    if (!run(argv[1], argv[2], argc > 3 ? atoi(argv[3]) : 64, &error)) {
        fprintf(stderr, "%s: %s\n", argv[0], error->message);
        return 1;
    }
    return 0;
}
