// Compares what models say in one process: for each prompt, the mean square of the difference between the logits of its
// last two tokens and the first model's, relative to the mean square of those (NMSE).
//   logits FLASH_ATTENTION CACHE LENGTH DEVICE MODEL [DEVICE MODEL]... -- PROMPT...
// FLASH_ATTENTION: on or off. CACHE: the type of the KV cache, f16 or q8_0. LENGTH: tokens that are kept of each prompt.
// DEVICE: a name, or none for the CPU.
// Prints a line for each prompt: the NMSE of each model but the first.
#include "model.h"

enum { MAX_SIDES = 4, MAX_TOKENS = 128, OUTPUTS = 2 };

static struct llama_context * open_context(struct llama_model * model, const char * flash, const char * cache) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx                       = 256;
    params.n_batch                     = MAX_TOKENS;
    params.n_threads = params.n_threads_batch = 2;
    params.flash_attn_type             = strcmp(flash, "on") ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.type_k = params.type_v      = strcmp(cache, "q8_0") ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;
    struct llama_context * ctx         = llama_init_from_model(model, params);
    CHECK(ctx, "no context");
    return ctx;
}

// The logits after the last two tokens. The very last is decoded alone, so that a prefill counts and a decode, too.
static void logits(struct llama_context * ctx, const llama_token * tokens, int n, int width, float * to) {
    llama_memory_clear(llama_get_memory(ctx), true);
    struct llama_batch batch = llama_batch_init(MAX_TOKENS, 0, 1);
    for (int i = 0; i < n; i++) {
        const int output = i - (n - OUTPUTS);
        put(&batch, tokens[i], i, 0, output >= 0);
        if (output >= 0) {
            CHECK(llama_decode(ctx, batch) == 0, "token %d of %d", i, n);
            memcpy(to + output * width, llama_get_logits_ith(ctx, -1), sizeof(float) * width);
            batch.n_tokens = 0;
        }
    }
    llama_batch_free(batch);
}

static double nmse(const float * exact, const float * other, int n) {
    double difference = 0, size = 0;
    for (int i = 0; i < n; i++) {
        const double d = (double) other[i] - exact[i];
        difference += d * d;
        size += (double) exact[i] * exact[i];
    }
    return difference / size;
}

int main(int argc, char ** argv) {
    ggml_backend_load_all();
    struct llama_model *   models[MAX_SIDES];
    struct llama_context * contexts[MAX_SIDES];
    float *                said[MAX_SIDES];
    int                    sides = 0, width = 0, at = 4;
    for (; at + 1 < argc && strcmp(argv[at], "--"); at += 2, sides++) {
        CHECK(sides < MAX_SIDES, "more than %d models", MAX_SIDES);
        models[sides]   = load_on(argv[at + 1], argv[at], NULL, true);
        contexts[sides] = open_context(models[sides], argv[1], argv[2]);
        width           = llama_vocab_n_tokens(llama_model_get_vocab(models[sides]));
        said[sides]     = malloc(sizeof(float) * width * OUTPUTS);
    }
    CHECK(sides > 1 && at < argc, "usage: logits FLASH_ATTENTION CACHE LENGTH DEVICE MODEL DEVICE MODEL... -- PROMPT...");
    const int length = atoi(argv[3]);
    for (char ** prompt = argv + at + 1; *prompt; prompt++) {
        llama_token tokens[MAX_TOKENS];
        int         n = llama_tokenize(llama_model_get_vocab(models[0]), *prompt, (int) strlen(*prompt), tokens, MAX_TOKENS, true, true);
        CHECK(n >= OUTPUTS, "'%s' is %d tokens", *prompt, n);
        n = n < length ? n : length;
        for (int i = 0; i < sides; i++) {
            logits(contexts[i], tokens, n, width, said[i]);
            if (i > 0) {
                printf("%.3e%c", nmse(said[0], said[i], width * OUTPUTS), i < sides - 1 ? ' ' : '\n');
                fflush(stdout);
            }
        }
    }
    for (int i = 0; i < sides; i++) {
        free(said[i]);
        llama_free(contexts[i]);
        llama_model_free(models[i]);
    }
    return 0;
}
