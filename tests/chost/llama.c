// A program that decodes with libllama: four sequences in one batch at each step, for each model in turn, all models
// loaded at the same time. Prints a line of tokens for each step.
//   llama DEVICE STEPS [--experts-on-cpu] MODEL...        DEVICE: TRI0, or none for the CPU
//   llama abort DEVICE MODEL                              stops a long prompt by the abort callback
#include "model.h"

enum { SEQUENCES = 4, PROMPT = 12, LONG = 512, MAX_MODELS = 4 };

static struct llama_model * load(const char * path, const char * device, bool experts_on_cpu) {
    const struct llama_model_tensor_buft_override experts[] = {
        { "\\.ffn_(up|down|gate|gate_up)_(ch|)exps", ggml_backend_cpu_buffer_type() },
        { NULL, NULL },
    };
    return load_on(path, device, experts_on_cpu ? experts : NULL, true);
}

static struct llama_context * open_context(struct llama_model * model) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx                       = 2048;
    params.n_batch                     = LONG;
    params.n_seq_max                   = SEQUENCES;
    params.n_threads = params.n_threads_batch = 2;
    struct llama_context * ctx         = llama_init_from_model(model, params);
    CHECK(ctx, "no context");
    return ctx;
}

static llama_token best(const float * logits, int n) {
    int top = 0;
    for (int i = 1; i < n; i++) {
        top = logits[i] > logits[top] ? i : top;
    }
    return top;
}

// One batch of all sequences: their prompts at step 0, later the last token of each.
static void step(struct llama_context * ctx, int vocabulary, int n, llama_token * last) {
    struct llama_batch batch = llama_batch_init(SEQUENCES * PROMPT, 0, 1);
    int                at[SEQUENCES];
    for (int seq = 0; seq < SEQUENCES; seq++) {
        for (int i = 0; n == 0 && i < PROMPT; i++) {
            put(&batch, (1000 + 997 * seq + 31 * i) % vocabulary, i, seq, i == PROMPT - 1);
        }
        if (n > 0) {
            put(&batch, last[seq], PROMPT + n - 1, seq, true);
        }
        at[seq] = batch.n_tokens - 1;
    }
    CHECK(llama_decode(ctx, batch) == 0, "step %d", n);
    for (int seq = 0; seq < SEQUENCES; seq++) {
        last[seq] = best(llama_get_logits_ith(ctx, at[seq]), vocabulary);
        printf("%d ", last[seq]);
    }
    llama_batch_free(batch);
}

static bool stop_after(void * left) {
    return --*(int *) left < 0;
}

static void abortion(const char * device, const char * path) {
    struct llama_model *   model = load(path, device, false);
    struct llama_context * ctx   = open_context(model);
    const int              vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    struct llama_batch     batch = llama_batch_init(LONG, 0, 1);
    for (int i = 0; i < LONG; i++) {
        put(&batch, (7 * i) % vocabulary, i, 0, i == LONG - 1);
    }
    int left = 20;
    llama_set_abort_callback(ctx, stop_after, &left);
    CHECK(llama_decode(ctx, batch) == 2, "the prompt was not stopped; %d calls were left", left);
    llama_set_abort_callback(ctx, NULL, NULL);
    llama_memory_clear(llama_get_memory(ctx), true);
    CHECK(llama_decode(ctx, batch) == 0, "nothing works after a stop");
    printf("stopped, then completed\n");
    llama_batch_free(batch);
    llama_free(ctx);
    llama_model_free(model);
}

int main(int argc, char ** argv) {
    CHECK(argc >= 4, "usage: llama DEVICE STEPS [--experts-on-cpu] MODEL... | llama abort DEVICE MODEL");
    ggml_backend_load_all();
    if (!strcmp(argv[1], "abort")) {
        abortion(argv[2], argv[3]);
        return 0;
    }
    const int  steps   = atoi(argv[2]);
    const bool experts = !strcmp(argv[3], "--experts-on-cpu");
    char **    paths   = argv + 3 + experts;
    const int  n       = argc - 3 - experts;
    CHECK(1 <= n && n <= MAX_MODELS, "%d models", n);
    struct llama_model *   models[MAX_MODELS];
    struct llama_context * contexts[MAX_MODELS];
    llama_token            last[MAX_MODELS][SEQUENCES];
    for (int m = 0; m < n; m++) {
        models[m]   = load(paths[m], argv[1], experts);
        contexts[m] = open_context(models[m]);
    }
    for (int i = 0; i < steps; i++) {
        for (int m = 0; m < n; m++) {
            step(contexts[m], llama_vocab_n_tokens(llama_model_get_vocab(models[m])), i, last[m]);
        }
        printf("\n");
    }
    for (int m = 0; m < n; m++) {
        llama_free(contexts[m]);
        llama_model_free(models[m]);
    }
    return 0;
}
