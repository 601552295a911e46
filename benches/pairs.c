// Speed of TRI0 against the stock CPU backend, in one process: the model is loaded once for each, and both do the same
// slice of work in turn, a few tenths of a second each, the order changing from pair to pair. What disturbs a shared
// machine for longer than a slice then hits both, so medians settle where runs of whole programs still scatter.
//   pairs MODEL THREADS PAIRS CELL...      CELL: ppN (a prompt of N tokens) or tgN (N tokens one by one)
// Prints one line of JSON for each cell: seconds of each slice.
#include "ggml-backend.h"
#include "llama.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH = 1024 };

static void need(bool ok, const char * what) {
    if (!ok) {
        fprintf(stderr, "pairs: %s\n", what);
        exit(1);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static struct llama_context * open_context(const char * path, const char * device, int threads) {
    ggml_backend_dev_t        devices[2] = { device ? ggml_backend_dev_by_name(device) : NULL, NULL };
    struct llama_model_params model      = llama_model_default_params();
    need(!device || devices[0], "there is no such device; is GGML_BACKEND_PATH set?");
    model.devices      = devices;
    model.n_gpu_layers = device ? 999 : 0;
    struct llama_model * m = llama_model_load_from_file(path, model);
    need(m != NULL, "the model cannot be loaded");
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx                       = DEPTH;
    params.n_batch = params.n_ubatch   = 512;
    params.n_threads = params.n_threads_batch = threads;
    struct llama_context * ctx = llama_init_from_model(m, params);
    need(ctx != NULL, "no context");
    return ctx;
}

// The seconds of one slice; the context is emptied before.
static double slice(struct llama_context * ctx, bool prompt, int n, llama_token * tokens) {
    llama_memory_clear(llama_get_memory(ctx), true);
    const double begin = now();
    for (int i = 0; i < n; i += prompt ? n : 1) {
        need(llama_decode(ctx, llama_batch_get_one(tokens + i, prompt ? n : 1)) == 0, "a batch failed");
        llama_synchronize(ctx);
    }
    return now() - begin;
}

int main(int argc, char ** argv) {
    need(argc >= 5, "usage: pairs MODEL THREADS PAIRS CELL...");
    const int threads = atoi(argv[2]), pairs = atoi(argv[3]);
    need(threads > 0 && pairs > 0, "threads and pairs must be positive numbers");
    ggml_backend_load_all();
    struct llama_context * arms[2] = { open_context(argv[1], "TRI0", threads), open_context(argv[1], NULL, threads) };
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(arms[0])));
    llama_token tokens[512];
    for (int i = 0; i < 512; i++) {
        tokens[i] = (7 + 997 * i) % vocabulary;
    }
    for (int c = 4; c < argc; c++) {
        const bool prompt = !strncmp(argv[c], "pp", 2);
        const int  n      = atoi(argv[c] + 2);
        need((prompt || !strncmp(argv[c], "tg", 2)) && n > 0 && n <= 512, "a cell is ppN or tgN, N from 1 to 512");
        double * seconds = malloc(2 * pairs * sizeof(double));
        need(seconds != NULL, "no memory");
        slice(arms[0], prompt, n, tokens);
        slice(arms[1], prompt, n, tokens);
        for (int i = 0; i < pairs; i++) {
            for (int k = 0; k < 2; k++) {
                const int arm        = (k + i) % 2;
                seconds[2 * i + arm] = slice(arms[arm], prompt, n, tokens);
            }
        }
        printf("{\"cell\": \"%s\", \"tokens\": %d, \"tri\": [", argv[c], n);
        for (int i = 0; i < pairs; i++) {
            printf("%s%.6f", i ? ", " : "", seconds[2 * i]);
        }
        printf("], \"stock\": [");
        for (int i = 0; i < pairs; i++) {
            printf("%s%.6f", i ? ", " : "", seconds[2 * i + 1]);
        }
        printf("]}\n");
        fflush(stdout);
        free(seconds);
    }
    return 0;  // the process ends here; freeing two models would measure nothing
}
