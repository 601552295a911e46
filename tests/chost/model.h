// What the C hosts share that use models: loading one on a named device, and filling batches.
#pragma once

#include "check.h"
#include "ggml-backend.h"
#include "llama.h"

#include <string.h>

// The model with all of its layers on a device; "none" is the CPU. Overrides may be NULL. `map`: the file is mapped.
static inline struct llama_model * load_on(const char * path, const char * device, const struct llama_model_tensor_buft_override * overrides,
                                           bool map) {
    static ggml_backend_dev_t devices[2];
    devices[0] = strcmp(device, "none") ? ggml_backend_dev_by_name(device) : NULL;
    CHECK(devices[0] || !strcmp(device, "none"), "there is no device %s", device);
    struct llama_model_params params = llama_model_default_params();
    params.devices                   = devices;
    params.tensor_buft_overrides     = overrides;
    params.load_mode                 = map ? LLAMA_LOAD_MODE_AUTO : LLAMA_LOAD_MODE_NONE;
    struct llama_model * model       = llama_model_load_from_file(path, params);
    CHECK(model, "%s cannot be loaded", path);
    return model;
}

static inline void put(struct llama_batch * batch, llama_token token, int pos, int seq, bool output) {
    const int i        = batch->n_tokens++;
    batch->token[i]    = token;
    batch->pos[i]      = pos;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = seq;
    batch->logits[i]   = output;
}
