// SPDX-License-Identifier: MIT
//
// What llama.cpp chooses, for compare_llama_cpp.py: reads prompts separated by NUL bytes, continues
// each greedily by N tokens, one token at a time, and prints a line for each: the number of tokens
// of the prompt, then those tokens and the N that follow.
//
//   llama_cpp_greedy MODEL N < PROMPTS

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "llama.h"

static void
quiet(ggml_log_level level, const char *text, void *)
{
    if (level >= GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int
best_token(llama_context *context, int n_vocab)
{
    const float *logits = llama_get_logits_ith(context, -1);
    int best = 0;

    for (int i = 1; i < n_vocab; i++) {
        if (logits[i] > logits[best])
            best = i;
    }
    return best;
}

int
main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: llama_cpp_greedy MODEL N < PROMPTS\n", stderr);
        return 2;
    }
    llama_log_set(quiet, nullptr);
    llama_backend_init();
    llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (model == nullptr)
        return 1;
    const llama_vocab *vocab = llama_model_get_vocab(model);
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 2048;
    params.n_threads = params.n_threads_batch = 2;
    llama_context *context = llama_init_from_model(model, params);
    if (context == nullptr)
        return 1;

    const int n_more = atoi(argv[2]);
    const std::string input((std::istreambuf_iterator<char>(std::cin)), {});
    for (size_t at = 0, end; at < input.size(); at = end + 1) {
        end = std::min(input.find('\0', at), input.size());
        std::vector<llama_token> tokens(end - at + 8);
        const int n_prompt = llama_tokenize(vocab, input.data() + at, (int) (end - at), tokens.data(),
                                            (int) tokens.size(), true, false);
        if (n_prompt < 1)
            return 1;
        tokens.resize(n_prompt);
        llama_memory_clear(llama_get_memory(context), true);
        for (int i = 0, n = n_prompt; i < n_more; i++, n = 1) {
            if (llama_decode(context, llama_batch_get_one(tokens.data() + tokens.size() - n, n)) != 0)
                return 1;
            tokens.push_back(best_token(context, llama_vocab_n_tokens(vocab)));
        }
        printf("%d", n_prompt);
        for (llama_token token : tokens)
            printf(" %d", token);
        printf("\n");
    }
    return 0;
}
