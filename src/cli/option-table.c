/* SPDX-License-Identifier: MIT */
/*
 * Every option of every command, in the order in which help texts show them. Forms follow what
 * people type at other programs for the same model files: single-dash words of several letters
 * included.
 */
#include "config.h"

#include "src/cli/option-table.h"

#include <string.h>

#define RUN SLUICE_COMMAND_RUN
#define BENCH SLUICE_COMMAND_BENCH
#define PPL SLUICE_COMMAND_PERPLEXITY
#define TOKENIZE SLUICE_COMMAND_TOKENIZE
#define INSPECT SLUICE_COMMAND_INSPECT
#define ALL (RUN | BENCH | PPL | TOKENIZE | INSPECT)

#define AT(field) .offset = offsetof(SluiceOptions, field)
#define RANGE(lo, hi) .min = (lo), .max = (hi)

#define CTX_MAX 16777216
#define BATCH_MAX 1048576
#define THREADS_MAX 1024
#define TOKENS_MAX G_MAXINT32

static const char *const kv_types[] = {"f16", "q8_0", "q4_0", "f32", NULL};
static const char *const switches[] = {"on", "auto", "1", NULL};
static const char *const zero_one[] = {"0", "1", NULL};
static const char *const colors[] = {"auto", "always", "never", NULL};
static const char *const formats[] = {"md", "csv", "json", "jsonl", NULL};
static const char *const thinking[] = {"auto", "on", "off", NULL};

G_STATIC_ASSERT(SLUICE_KV_F16 == 0 && SLUICE_KV_Q8_0 == 1 && SLUICE_KV_Q4_0 == 2 &&
                SLUICE_KV_F32 == 3);

const char *const sluice_option_group_names[SLUICE_OPTION_GROUP_COUNT] = {
    [SLUICE_OPTION_GROUP_INPUT] = "Input",
    [SLUICE_OPTION_GROUP_ANSWER] = "Answer",
    [SLUICE_OPTION_GROUP_TESTS] = "Tests",
    [SLUICE_OPTION_GROUP_SAMPLING] = "Sampling",
    [SLUICE_OPTION_GROUP_MACHINE] = "Memory and processor",
    [SLUICE_OPTION_GROUP_OUTPUT] = "Output",
    [SLUICE_OPTION_GROUP_GENERAL] = "General",
};

const SluiceOption sluice_option_table[] = {
    /* ---- input ---- */
    {"--model -m", "FILE", SLUICE_OPTION_STRINGS, RUN | PPL | TOKENIZE | INSPECT,
     SLUICE_OPTION_GROUP_INPUT, AT(models),
     .help = "The model: a GGUF file (of a split model any part), or the name of a file in the "
             "models folder, with or without .gguf."},
    {"--model -m", "FILE", SLUICE_OPTION_STRINGS, BENCH, SLUICE_OPTION_GROUP_INPUT, AT(models),
     .help = "The model: a GGUF file, or the name of a file in the models folder. May be given "
             "several times."},
    {"--prompt -p", "TEXT", SLUICE_OPTION_STRING, RUN, SLUICE_OPTION_GROUP_INPUT, AT(prompt),
     .help = "What the model is asked. Text from --file or standard input goes in front of it."},
    {"--prompt -p --text", "TEXT", SLUICE_OPTION_STRING, TOKENIZE, SLUICE_OPTION_GROUP_INPUT,
     AT(prompt), .help = "The text to cut into tokens."},
    {"--file -f", "FILE", SLUICE_OPTION_STRING, RUN, SLUICE_OPTION_GROUP_INPUT, AT(file),
     .help = "Read the prompt from a file; - is standard input."},
    {"--file -f", "FILE", SLUICE_OPTION_STRING, TOKENIZE, SLUICE_OPTION_GROUP_INPUT, AT(file),
     .help = "Read the text from a file; - is standard input."},
    {"--file -f", "FILE", SLUICE_OPTION_STRING, PPL, SLUICE_OPTION_GROUP_INPUT, AT(file),
     .help = "The text to score; - is standard input."},
    {"--system -sys --system-prompt", "TEXT", SLUICE_OPTION_STRING, RUN, SLUICE_OPTION_GROUP_INPUT,
     AT(system), .help = "A system message in front of the conversation."},
    {"--raw -no-cnv --no-conversation", NULL, SLUICE_OPTION_FLAG, RUN, SLUICE_OPTION_GROUP_INPUT,
     AT(raw), .set_to = 1,
     .help = "Continue the prompt as plain text, without the chat template. Control tokens "
             "written out in it count as such."},
    {"--interactive -i -cnv --conversation", NULL, SLUICE_OPTION_FLAG, RUN,
     SLUICE_OPTION_GROUP_INPUT, AT(interactive), .set_to = 1,
     .help = "Go on with a chat on the terminal after the prompt is answered."},

    /* ---- answer ---- */
    {"--n-predict -n --predict", "N", SLUICE_OPTION_INT, RUN, SLUICE_OPTION_GROUP_ANSWER,
     AT(n_predict), RANGE(-2, TOKENS_MAX), .deflt = "-1",
     .help = "Tokens an answer has at most; -1: as many as the model wants, -2: until the context "
             "is full."},
    {"--stop -r --reverse-prompt", "TEXT", SLUICE_OPTION_STRINGS, RUN, SLUICE_OPTION_GROUP_ANSWER,
     AT(stops),
     .help = "End the answer in front of this text, which is not shown. May be given several "
             "times."},
    {"--ignore-eos", NULL, SLUICE_OPTION_FLAG, RUN, SLUICE_OPTION_GROUP_ANSWER,
     AT(sampler.ignore_end), .set_to = 1,
     .help = "Never draw a token that ends the answer; use it with -n."},
    {"--thinking --think", "WHEN", SLUICE_OPTION_CHOICE, RUN, SLUICE_OPTION_GROUP_ANSWER,
     AT(thinking), .choices = thinking, .deflt = "auto",
     .help = "Ask the chat template to let the model think first, or not to; auto leaves it to "
             "the template."},

    /* ---- tests ---- */
    {"--n-prompt -p", "N", SLUICE_OPTION_INTS, BENCH, SLUICE_OPTION_GROUP_TESTS, AT(prompts),
     RANGE(0, CTX_MAX), .deflt = "512", .help = "Time the evaluation of a prompt of N tokens."},
    {"--n-gen -n", "N", SLUICE_OPTION_INTS, BENCH, SLUICE_OPTION_GROUP_TESTS, AT(gens),
     RANGE(0, CTX_MAX), .deflt = "128", .help = "Time N tokens evaluated one by one."},
    {"-pg", "P,G", SLUICE_OPTION_PAIRS, BENCH, SLUICE_OPTION_GROUP_TESTS, AT(pgs),
     RANGE(0, CTX_MAX),
     .help = "Time a prompt of P tokens and then G single ones, together. May be given several "
             "times."},
    {"--n-depth -d", "N", SLUICE_OPTION_INTS, BENCH, SLUICE_OPTION_GROUP_TESTS, AT(depths),
     RANGE(0, CTX_MAX), .deflt = "0",
     .help = "Have N tokens in the cache before the clock starts."},
    {"--repetitions -r", "N", SLUICE_OPTION_INT, BENCH, SLUICE_OPTION_GROUP_TESTS, AT(repetitions),
     RANGE(1, 10000), .deflt = "5", .help = "How often each test is timed."},
    {"--no-warmup", NULL, SLUICE_OPTION_FLAG, BENCH, SLUICE_OPTION_GROUP_TESTS, AT(no_warmup),
     .set_to = 1, .help = "Time the first run of each test too."},
    {"--chunks", "N", SLUICE_OPTION_INT, PPL, SLUICE_OPTION_GROUP_TESTS, AT(n_chunks),
     RANGE(-1, TOKENS_MAX), .deflt = "-1", .help = "Stop after N chunks of the text; -1: all."},

    /* ---- sampling ---- */
    {"--seed -s", "N", SLUICE_OPTION_SEED, RUN, SLUICE_OPTION_GROUP_SAMPLING, AT(sampler.seed),
     RANGE(-1, G_MAXUINT32), .deflt = "-1",
     .help = "Start of the random numbers; -1 draws one, which -v shows."},
    {"--temp --temperature", "T", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.temperature), RANGE(0, 100), .deflt = "0.8",
     .help = "How far the draw strays from the likeliest token; 0 always takes that one."},
    {"--top-k", "N", SLUICE_OPTION_INT, RUN, SLUICE_OPTION_GROUP_SAMPLING, AT(sampler.top_k),
     RANGE(-1, TOKENS_MAX), .deflt = "40", .help = "Keep the N likeliest tokens; 0: all."},
    {"--top-p", "P", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING, AT(sampler.top_p),
     RANGE(0, 1), .deflt = "0.95",
     .help = "Keep the likeliest tokens whose probabilities reach P together; 1: all."},
    {"--min-p", "P", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING, AT(sampler.min_p),
     RANGE(0, 1), .deflt = "0.05",
     .help = "Drop tokens less likely than P times the likeliest one; 0: none."},
    {"--typical --typical-p", "P", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.typical_p), RANGE(0, 1), .deflt = "1",
     .help = "Keep the tokens of most typical surprise until they reach P together; 1: all."},
    {"--top-n-sigma --top-nsigma", "N", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.top_n_sigma), RANGE(-1, 1000), .deflt = "-1",
     .help = "Drop tokens whose logit is more than N standard deviations below the largest; -1: "
             "none."},
    {"--xtc-probability", "P", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.xtc_probability), RANGE(0, 1), .deflt = "0",
     .help = "With this probability drop all likely tokens but the least likely of them."},
    {"--xtc-threshold", "P", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.xtc_threshold), RANGE(0, 1), .deflt = "0.1",
     .help = "What --xtc-probability calls likely; above 0.5 it does nothing."},
    {"--repeat-penalty", "R", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.repeat_penalty), RANGE(0.01, 100), .deflt = "1",
     .help = "Divide the logits of recent tokens by R; 1: leave them."},
    {"--repeat-last-n", "N", SLUICE_OPTION_INT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.penalty_last_n), RANGE(-1, TOKENS_MAX), .deflt = "64",
     .help = "How many tokens count as recent for the penalties; -1: the whole context."},
    {"--presence-penalty", "X", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.presence_penalty), RANGE(-100, 100), .deflt = "0",
     .help = "Lower the logits of recent tokens by X."},
    {"--frequency-penalty", "X", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.frequency_penalty), RANGE(-100, 100), .deflt = "0",
     .help = "Lower the logits of recent tokens by X for each time they came."},
    {"--dry-multiplier", "X", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.dry_multiplier), RANGE(0, 100), .deflt = "0",
     .help = "Strength of the penalty on repeated sequences (DRY); 0: none."},
    {"--dry-base", "X", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.dry_base), RANGE(0, 100), .deflt = "1.75",
     .help = "How fast that penalty grows with the length of the repetition."},
    {"--dry-allowed-length", "N", SLUICE_OPTION_INT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.dry_allowed_length), RANGE(0, TOKENS_MAX), .deflt = "2",
     .help = "Length of a repetition that goes unpunished."},
    {"--dry-penalty-last-n", "N", SLUICE_OPTION_INT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.dry_last_n), RANGE(-1, TOKENS_MAX), .deflt = "64",
     .help = "How many tokens are searched for repetitions; -1: the whole context."},
    {"--dynatemp-range", "T", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.dynatemp_range), RANGE(0, 100), .deflt = "0",
     .help = "Let the temperature move by T to either side, with the model's doubt."},
    {"--dynatemp-exp", "X", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.dynatemp_exponent), RANGE(0, 100), .deflt = "1",
     .help = "How it moves: the exponent over the normalised entropy."},
    {"--mirostat", "N", SLUICE_OPTION_INT, RUN, SLUICE_OPTION_GROUP_SAMPLING, AT(sampler.mirostat),
     RANGE(0, 2), .deflt = "0",
     .help = "Steer to a constant surprise instead of the filters above, with version 1 or 2 of "
             "Mirostat; 0: no."},
    {"--mirostat-ent", "X", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.mirostat_tau), RANGE(0, 100), .deflt = "5",
     .help = "The surprise that Mirostat steers to, in bits."},
    {"--mirostat-lr", "X", SLUICE_OPTION_FLOAT, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.mirostat_eta), RANGE(0, 1), .deflt = "0.1", .help = "How fast it steers."},
    {"--samplers", "LIST", SLUICE_OPTION_STRING, RUN, SLUICE_OPTION_GROUP_SAMPLING,
     AT(sampler.order),
     .help = "The stages and their order, separated by semicolons. The usual order is penalties, "
             "dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature."},

    /* ---- the machine ---- */
    {"--ctx-size -c --ctx", "N", SLUICE_OPTION_INT, RUN, SLUICE_OPTION_GROUP_MACHINE,
     AT(engine.n_ctx), RANGE(0, CTX_MAX), .deflt = "0",
     .help = "Tokens that prompt and answer may have together; 0: what the model was trained "
             "for, at most 8192."},
    {"--ctx-size -c --ctx", "N", SLUICE_OPTION_INT, PPL, SLUICE_OPTION_GROUP_MACHINE,
     AT(engine.n_ctx), RANGE(4, CTX_MAX), .deflt = "512",
     .help = "Tokens of a chunk, of which the second half is scored."},
    {"--threads -t", "N", SLUICE_OPTION_INT, RUN | PPL, SLUICE_OPTION_GROUP_MACHINE,
     AT(engine.n_threads), RANGE(0, THREADS_MAX), .deflt = "0",
     .help = "Threads that compute; 0: one for each physical performance core."},
    {"--threads -t", "N", SLUICE_OPTION_INTS, BENCH, SLUICE_OPTION_GROUP_MACHINE, AT(threads),
     RANGE(0, THREADS_MAX), .deflt = "0",
     .help = "Threads that compute; 0: one for each physical performance core."},
    {"--threads-batch -tb", "N", SLUICE_OPTION_INT, RUN | PPL, SLUICE_OPTION_GROUP_MACHINE,
     AT(engine.n_threads_batch), RANGE(0, THREADS_MAX), .deflt = "0",
     .help = "Threads that compute prompts; 0: as --threads."},
    {"--threads-batch -tb", "N", SLUICE_OPTION_INTS, BENCH, SLUICE_OPTION_GROUP_MACHINE,
     AT(threads_batch), RANGE(0, THREADS_MAX), .deflt = "0",
     .help = "Threads that compute prompts; 0: as --threads."},
    {"--batch-size -b", "N", SLUICE_OPTION_INT, RUN | PPL, SLUICE_OPTION_GROUP_MACHINE,
     AT(engine.n_batch), RANGE(1, BATCH_MAX), .deflt = "2048",
     .help = "Tokens of a prompt that are handed over at once."},
    {"--batch-size -b", "N", SLUICE_OPTION_INTS, BENCH, SLUICE_OPTION_GROUP_MACHINE, AT(batches),
     RANGE(1, BATCH_MAX), .deflt = "2048",
     .help = "Tokens of a prompt that are handed over at once."},
    {"--ubatch-size -ub", "N", SLUICE_OPTION_INT, RUN | PPL, SLUICE_OPTION_GROUP_MACHINE,
     AT(engine.n_ubatch), RANGE(1, BATCH_MAX), .deflt = "512",
     .help = "Tokens of a prompt that are computed at once."},
    {"--ubatch-size -ub", "N", SLUICE_OPTION_INTS, BENCH, SLUICE_OPTION_GROUP_MACHINE, AT(ubatches),
     RANGE(1, BATCH_MAX), .deflt = "512", .help = "Tokens of a prompt that are computed at once."},
    {"--cache-type-k -ctk", "TYPE", SLUICE_OPTION_CHOICE, RUN | PPL, SLUICE_OPTION_GROUP_MACHINE,
     AT(type_k), .choices = kv_types, .deflt = "f16",
     .help = "How the keys of the context are stored."},
    {"--cache-type-k -ctk", "TYPE", SLUICE_OPTION_CHOICES, BENCH, SLUICE_OPTION_GROUP_MACHINE,
     AT(types_k), .choices = kv_types, .deflt = "f16",
     .help = "How the keys of the context are stored."},
    {"--cache-type-v -ctv", "TYPE", SLUICE_OPTION_CHOICE, RUN | PPL, SLUICE_OPTION_GROUP_MACHINE,
     AT(type_v), .choices = kv_types, .deflt = "f16",
     .help = "How the values of the context are stored."},
    {"--cache-type-v -ctv", "TYPE", SLUICE_OPTION_CHOICES, BENCH, SLUICE_OPTION_GROUP_MACHINE,
     AT(types_v), .choices = kv_types, .deflt = "f16",
     .help = "How the values of the context are stored."},
    {"--flash-attn -fa", "WHEN", SLUICE_OPTION_CHOICE, RUN | BENCH | PPL,
     SLUICE_OPTION_GROUP_MACHINE, AT(flash_attn), .choices = switches, .value_optional = true,
     .deflt = "on",
     .help = "Attention in one pass. Sluice knows no other way; the option is there so that "
             "command lines of other programs work."},
    {"--mmap", NULL, SLUICE_OPTION_FLAG, RUN | PPL, SLUICE_OPTION_GROUP_MACHINE, AT(load_mode),
     .set_to = SLUICE_LOAD_MAP,
     .help = "Leave the weights in the file's mapping, even if memory of our own would do."},
    {"--no-mmap", NULL, SLUICE_OPTION_FLAG, RUN | PPL, SLUICE_OPTION_GROUP_MACHINE, AT(load_mode),
     .set_to = SLUICE_LOAD_MEMORY,
     .help = "Read the weights into memory, or fail. Without either option they are read when "
             "they fit, and mapped when they do not."},
    {"--mmap -mmp", "0|1", SLUICE_OPTION_CHOICES, BENCH, SLUICE_OPTION_GROUP_MACHINE, AT(mmaps),
     .choices = zero_one, .deflt = "0 where the weights fit into memory",
     .help = "Leave the weights in the file's mapping (1), or read them into memory (0)."},
    {"--mlock", NULL, SLUICE_OPTION_FLAG, RUN | PPL | BENCH, SLUICE_OPTION_GROUP_MACHINE,
     AT(engine.lock_memory), .set_to = 1, .help = "Keep the weights from being swapped out."},

    /* ---- output ---- */
    {"--output -o", "FORMAT", SLUICE_OPTION_CHOICE, BENCH, SLUICE_OPTION_GROUP_OUTPUT, AT(output),
     .choices = formats, .deflt = "md", .help = "How results are written."},
    {"--logits", "FILE", SLUICE_OPTION_STRING, PPL, SLUICE_OPTION_GROUP_OUTPUT, AT(logits),
     .help = "Write the logits of all scored positions to a NumPy file: float32, [n_scored, "
             "n_vocab]."},
    {"--ids", NULL, SLUICE_OPTION_FLAG, TOKENIZE, SLUICE_OPTION_GROUP_OUTPUT, AT(ids), .set_to = 1,
     .help = "Print the ids alone, in one line."},
    {"--count --show-count", NULL, SLUICE_OPTION_FLAG, TOKENIZE, SLUICE_OPTION_GROUP_OUTPUT,
     AT(count), .set_to = 1, .help = "Print the number of tokens alone."},
    {"--special --parse-special", NULL, SLUICE_OPTION_FLAG, TOKENIZE, SLUICE_OPTION_GROUP_OUTPUT,
     AT(special), .set_to = 1, .help = "Control tokens written out in the text count as such."},
    {"--no-bos", NULL, SLUICE_OPTION_FLAG, TOKENIZE, SLUICE_OPTION_GROUP_OUTPUT, AT(no_special),
     .set_to = 1, .help = "Leave out what the model adds at the ends of a text."},
    {"--tensors", NULL, SLUICE_OPTION_FLAG, INSPECT, SLUICE_OPTION_GROUP_OUTPUT, AT(tensors),
     .set_to = 1, .help = "List every tensor."},
    {"--verify", NULL, SLUICE_OPTION_FLAG, INSPECT, SLUICE_OPTION_GROUP_OUTPUT, AT(verify),
     .set_to = 1, .help = "Read all weights and look for values that are not numbers."},
    {"--json", NULL, SLUICE_OPTION_FLAG, RUN, SLUICE_OPTION_GROUP_OUTPUT, AT(json), .set_to = 1,
     .help = "Print one JSON object with the answer and its figures when the answer is complete."},
    {"--json", NULL, SLUICE_OPTION_FLAG, PPL | TOKENIZE | INSPECT, SLUICE_OPTION_GROUP_OUTPUT,
     AT(json), .set_to = 1, .help = "Print one JSON object instead of text."},
    {"--json", NULL, SLUICE_OPTION_FLAG, BENCH, SLUICE_OPTION_GROUP_OUTPUT, AT(output),
     .set_to = SLUICE_OUTPUT_JSON, .help = "The same as --output json."},

    /* ---- general ---- */
    {"--quiet -q", NULL, SLUICE_OPTION_FLAG, ALL, SLUICE_OPTION_GROUP_GENERAL, AT(quiet),
     .set_to = 1, .help = "Say nothing on standard error but what went wrong."},
    {"--verbose -v", NULL, SLUICE_OPTION_COUNT, ALL, SLUICE_OPTION_GROUP_GENERAL, AT(verbose),
     .help = "Say more on standard error."},
    {"--color --colour", "WHEN", SLUICE_OPTION_CHOICE, ALL, SLUICE_OPTION_GROUP_GENERAL, AT(color),
     .choices = colors, .deflt = "auto",
     .help = "Use colours; auto: on a terminal, unless NO_COLOR is set or TERM is dumb."},
    {"--help -h", NULL, SLUICE_OPTION_FLAG, ALL, SLUICE_OPTION_GROUP_GENERAL, AT(help), .set_to = 1,
     .help = "Show this text."},
};

const size_t sluice_option_table_n = G_N_ELEMENTS(sluice_option_table);
G_STATIC_ASSERT(G_N_ELEMENTS(sluice_option_table) <= SLUICE_OPTIONS_MAX);

const SluiceOptionForeign sluice_option_foreign[] = {
    {"-ngl --gpu-layers --n-gpu-layers -ncmoe --n-cpu-moe -cmoe --cpu-moe -ot --override-tensor "
     "-sm --split-mode -ts --tensor-split -mg --main-gpu -dev --device -nkvo --no-kv-offload",
     "this version computes on the processor alone; leave it out"},
    {"-hf -hfr --hf-repo -hff --hf-file -mu --model-url",
     "this version downloads no models; fetch the file and name it with --model"},
    {"--jinja --chat-template --chat-template-file",
     "the model's own chat template is always used; leave it out, or use --raw"},
    {"--numa --cpu-mask -C --cpu-range --cpu-strict --prio --poll",
     "threads are placed by the machine's topology, inside the cpuset; use taskset for another"},
    {"--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx",
     "the file's own values are used; leave it out"},
    {"--context-shift --no-context-shift --keep --cache-capacity",
     "nothing is ever dropped from a context unasked; did you mean '--ctx-size'"},
    {"--no-warmup --no-display-prompt --no-perf -st --single-turn --simple-io",
     "that is what happens anyway; leave it out"},
    {"--grammar --grammar-file --json-schema -j", "answers cannot be held to a grammar"},
    {"--format", "did you mean '--json'"},
};

const size_t sluice_option_foreign_n = G_N_ELEMENTS(sluice_option_foreign);

const SluiceCommandInfo sluice_command_table[] = {
    {"run", SLUICE_COMMAND_RUN, "[options] [MODEL] [PROMPT]",
     "answer a prompt, or chat on the terminal"},
    {"inspect", SLUICE_COMMAND_INSPECT, "[options] FILE", "show what is in a model file"},
    {"tokenize", SLUICE_COMMAND_TOKENIZE, "[options] [MODEL] [TEXT]", "cut a text into tokens"},
    {"bench", SLUICE_COMMAND_BENCH, "[options] [MODEL]", "time prompts and single tokens"},
    {"perplexity", SLUICE_COMMAND_PERPLEXITY, "[options] [MODEL] -f TEXT",
     "score a text: how well the model foresees it"},
};

const size_t sluice_command_table_n = G_N_ELEMENTS(sluice_command_table);

/**
 * sluice_command_find:
 * @name: as typed
 *
 * Returns: (nullable): the command called @name
 */
const SluiceCommandInfo *
sluice_command_find(const char *name)
{
    for (size_t i = 0; i < sluice_command_table_n; i++)
        if (strcmp(sluice_command_table[i].name, name) == 0)
            return &sluice_command_table[i];
    return NULL;
}

/**
 * sluice_command_info:
 * @id: one command
 *
 * Returns: what the tables say about it
 */
const SluiceCommandInfo *
sluice_command_info(SluiceCommandId id)
{
    for (size_t i = 0; i < sluice_command_table_n; i++)
        if (sluice_command_table[i].id == id)
            return &sluice_command_table[i];
    g_assert_not_reached();
}
