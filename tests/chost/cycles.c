// Loads a model, decodes with it and gives it up again, COUNT times. Prints the resident memory of the process in KiB
// before the first cycle, after each, and at its highest. The model's file is read and not mapped: pages of a mapped
// file count as resident, too, though they are the system's cache.
//   cycles DEVICE COUNT MODEL TOKENS...       TOKENS: the sizes of the batches that are decoded in each cycle
#include "model.h"

enum { MAX_TOKENS = 32, CONTEXT = 256 };

// A value of /proc/self/status in KiB.
static long status(const char * name) {
    FILE * file = fopen("/proc/self/status", "r");
    CHECK(file, "/proc/self/status");
    char line[256];
    long kib = -1;
    while (fgets(line, sizeof(line), file)) {
        if (!strncmp(line, name, strlen(name))) {
            kib = strtol(line + strlen(name) + 1, NULL, 10);
        }
    }
    fclose(file);
    return kib;
}

static void decode(struct llama_context * ctx, int tokens, int pos) {
    struct llama_batch batch = llama_batch_init(MAX_TOKENS, 0, 1);
    for (int i = 0; i < tokens; i++) {
        put(&batch, 1 + i, pos + i, 0, i == tokens - 1);
    }
    CHECK(llama_decode(ctx, batch) == 0, "%d tokens at %d", tokens, pos);
    llama_batch_free(batch);
}

static void cycle(const char * device, const char * path, char ** sizes) {
    struct llama_model *        model  = load_on(path, device, NULL, false);
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx                       = CONTEXT;
    params.n_batch                     = MAX_TOKENS;
    params.n_threads = params.n_threads_batch = 2;
    struct llama_context * ctx         = llama_init_from_model(model, params);
    CHECK(ctx, "no context");
    for (int pos = 0; *sizes; sizes++) {
        decode(ctx, atoi(*sizes), pos);
        pos += atoi(*sizes);
    }
    llama_free(ctx);
    llama_model_free(model);
}

static void quiet(enum ggml_log_level level, const char * text, void * data) {
    (void) data;
    if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR || strstr(text, "TRI0") || strstr(text, "buffer size")) {
        fputs(text, stderr);
    }
}

int main(int argc, char ** argv) {
    CHECK(argc > 4, "usage: cycles DEVICE COUNT MODEL TOKENS...");
    llama_log_set(quiet, NULL);
    ggml_backend_load_all();
    printf("resident %ld\n", status("VmRSS:"));
    for (int i = atoi(argv[2]); i > 0; i--) {
        cycle(argv[1], argv[3], argv + 4);
        printf("resident %ld\n", status("VmRSS:"));
        fflush(stdout);
    }
    printf("highest %ld\n", status("VmHWM:"));
    return 0;
}
