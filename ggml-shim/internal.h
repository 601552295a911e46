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
    X(ggml_unary_op_name)      \
    X(ggml_glu_op_name)        \
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

// Rust's functions; filled when ggml asks for the reg object.
extern struct tri_callbacks rust;

// The devices, in the order of their numbers.
struct tri_device {
    struct ggml_backend_device ggml;
    struct tri_device_facts    facts;
};
extern struct tri_device tri_devices[TRI_MAX_DEVICES];
extern int32_t           tri_n_devices;

// The buffer types of devices whose tensors lie in memory of the GPU.
extern struct ggml_backend_buffer_type tri_gpu_types[TRI_MAX_DEVICES];
void                                   tri_gpu_init(void);

// The buffer types of TRI0 on the CPU: the plain one, and one for each repacked layout of ggml-cpu.
extern struct ggml_backend_buffer_type tri_plain_type;
extern struct ggml_backend_buffer_type tri_repacked_types[TRI_MAX_LAYOUTS];
void                                   tri_repacked_init(ggml_backend_dev_t dev);
// A plain buffer over memory that stays the host's.
ggml_backend_buffer_t                  tri_plain_from_memory(void * memory, size_t size);
// The layout of a repacked buffer of TRI0; -1 for any other buffer and for none.
int32_t                                tri_repacked_layout(ggml_backend_buffer_t buffer);
// The tensor that ggml-cpu must see in place of a repacked weight; NULL for any other tensor.
struct ggml_tensor *                   tri_repacked_alias(const struct ggml_tensor * weight);

// Whether ggml-cpu computes `op` when what lies in TRI0's buffers is host memory, and its first source in `layout`
// (-1: in the file's).
bool tri_cpu_supports(const struct ggml_tensor * op, int32_t layout);
bool tri_is_product(const struct ggml_tensor * op);
// Whether a node only renames memory.
bool tri_is_view(const struct ggml_tensor * op);
// Whether a layout can hold a weight.
bool tri_cpu_holds(const struct ggml_tensor * weight, int32_t layout);
// Makes the tensor that stands for `weight` in a genuine buffer of ggml-cpu, over the same bytes.
bool tri_alias_of(struct ggml_tensor * alias, const struct ggml_tensor * weight, ggml_backend_buffer_t genuine);
// Repacks `data` into a new genuine buffer; NULL when there is no memory.
ggml_backend_buffer_t tri_repacked_copy(struct ggml_tensor * copy, const struct ggml_tensor * plain, int32_t layout, const void * data);

// Flattens one node.
void tri_node_flatten(const struct ggml_tensor * t, struct tri_node * node);

// Exchanges the weights of a graph for what ggml-cpu must see, and back; NULL when there is no memory.
struct tri_exchanges;
struct tri_exchanges * tri_exchange(struct ggml_cgraph * graph, bool convert);
void                   tri_exchange_back(struct tri_exchanges * exchanges);
