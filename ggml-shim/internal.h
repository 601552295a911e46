// Shared by the shim's own files. ggml's functions are looked up at run time, so the library loads into any process and
// can say in words what does not fit, where an undefined symbol would make dlopen fail without a word.
#pragma once
#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-impl.h"
#include "ggml.h"
#include "shim.h"

#include <stdbool.h>

#define TRI_MAX_LAYOUTS 8

// X(function, object that has it)
#define TRI_HOST_FUNCTIONS(X)  \
    X(ggml_version)            \
    X(ggml_commit)             \
    X(ggml_op_name)            \
    X(ggml_type_name)          \
    X(ggml_log_internal)       \
    X(ggml_nbytes)             \
    X(ggml_row_size)           \
    X(ggml_type_size)          \
    X(ggml_is_contiguous)      \
    X(ggml_backend_buffer_init) \
    X(ggml_backend_buffer_free) \
    X(ggml_backend_reg_by_name)

struct tri_host {
#define TRI_FIELD(f) __typeof__(&f) f;
    TRI_HOST_FUNCTIONS(TRI_FIELD)
#undef TRI_FIELD
};

struct tri_cpu {
    ggml_backend_reg_t                 reg;
    ggml_backend_dev_t                 dev;
    ggml_backend_set_n_threads_t       set_n_threads;
    ggml_backend_set_abort_callback_t  set_abort_callback;
    ggml_backend_buffer_type_t         layouts[TRI_MAX_LAYOUTS];  // the repacked ones, in the host's order of preference
    int32_t                            n_layouts;
};

extern struct tri_host tri_host;
extern struct tri_cpu  tri_cpu;

// Whether ggml-cpu would compute `op` if its first source lay in `layout` (NULL: if it lay in plain host memory).
bool tri_cpu_supports(const struct ggml_tensor * op, ggml_backend_buffer_type_t layout);

// Rust's functions; filled when ggml asks for the reg object.
extern struct tri_callbacks rust;

// The buffer types of TRI0: the plain one, and one for each repacked layout of ggml-cpu.
extern struct ggml_backend_buffer_type tri_plain_type;
extern struct ggml_backend_buffer_type tri_repacked_types[TRI_MAX_LAYOUTS];
void                  tri_buffers_init(ggml_backend_dev_t dev);
ggml_backend_buffer_t tri_plain_from_memory(void * memory, size_t size);
// Index of the layout that a buffer type of ours or of ggml-cpu stands for, or -1.
int32_t               tri_layout_of(ggml_backend_buffer_type_t buft);

// TRI_LAYOUT=convert: exchanges plain weights of a graph for repacked copies; NULL when there is no memory.
struct tri_exchange;
struct tri_exchange * tri_exchange_weights(struct ggml_cgraph * graph);
void                  tri_exchange_back(struct ggml_cgraph * graph, struct tri_exchange * exchanged);

// ggml-cpu's own set_tensor of a repacked layout, whatever the buffer's table says now.
void tri_genuine_set_tensor(int32_t layout, ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data, size_t size);
