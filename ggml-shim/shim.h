// The contract between the C that reads ggml's headers and the Rust that does the work.
// Plain C and versionless: no ggml type appears here. src/ggml/ffi.rs mirrors it, and a test compares the offsets.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define TRI_NODE_COMPUTE 1u  // ggml wants this node's result
#define TRI_NODE_VIEW    2u  // the node only renames memory; there is nothing to compute
#define TRI_NODE_OUTPUT  4u  // the host reads the result

// Results of a graph.
enum { TRI_OK = 0, TRI_ABORTED = 1, TRI_FAILED = 2, TRI_NO_MEMORY = 3 };

#define TRI_MAX_SRC 10  // GGML_MAX_SRC

// A tensor, flattened.
struct tri_tensor {
    const char * type;   // ggml's name of the type; NULL: there is no tensor at this place
    int64_t      ne[4];  // elements in each dimension
    uint64_t     nb[4];  // bytes from one element to the next
    uint64_t     data;   // address; 0: no memory yet
    uint64_t     id;     // names the tensor
    uint64_t     root;   // the tensor that it is a view of; its own id when it is none
};

// One graph node, flattened.
struct tri_node {
    const char *      op;          // ggml's name of the operation; lives as long as the host
    const char *      sub;         // ggml's name of the function of a UNARY or GLU node; "" for others
    uint32_t          flags;       // TRI_NODE_*
    int32_t           uses;        // how often the whole graph reads the result; -1: unknown
    int32_t           params[16];  // ggml's op_params
    struct tri_tensor dst;
    struct tri_tensor src[TRI_MAX_SRC];
};

// One graph as ggml handed it over. Valid only during the call.
struct tri_graph {
    void *   host;     // the host's own graph object
    uint64_t uid;      // non-zero: names a repeated graph
    int32_t  n_nodes;
};

// A weight that lies in a repacked buffer. Valid only during the call.
struct tri_weight {
    const char * type;    // ggml's name of the weight type
    int32_t      type_id; // ggml's number of it
    int32_t      layout;  // index of the repacked layout among the host's
    int64_t      ne[4];   // elements: K, M, and the two outer dimensions
    uint64_t     nbytes;  // size in the file's layout
    const void * data;    // the repacked bytes
};

// A part of a graph: nodes `first .. first + count`. Results of the nodes from `moved_first` on, whoever reads them here, lie
// at `addresses`. With rows[0] >= 0 the one node is a product, of which rows rows[0] .. rows[0] + rows[1] are computed.
struct tri_part {
    int32_t          first;
    int32_t          count;
    int64_t          rows[2];
    int32_t          moved_first;
    int32_t          moved_count;
    const uint64_t * addresses;
};

// The devices of the plugin. TRI0 has number 0; TRI0-GPU, which has number 1, is there when a GPU is used.
#define TRI_MAX_DEVICES 2

struct tri_device_facts {
    const char * name;
    const char * description;
    const char * id;   // the PCI address of the GPU; equal for devices that are the same hardware
    int32_t      gpu;  // 1: tensors lie in memory of the GPU
};

// What ggml's tables call; filled by Rust. No function unwinds.
struct tri_callbacks {
    int    (*device_facts)(int32_t device, struct tri_device_facts * facts);         // 0: there is no such device
    void   (*memory)(int32_t device, uint64_t * available, uint64_t * total);        // bytes
    void * (*slab_new)(uint64_t size);                                               // NULL: no memory; already reported
    void * (*slab_base)(const void * slab);
    void   (*slab_free)(void * slab);
    int    (*hold_repacked)(const char * type);                                      // 1: yes
    void   (*weight_written)(const struct tri_weight * weight, const void * from);   // from: where the bytes came from
    void   (*weight_refused)(const struct tri_weight * weight, const char * reason); // a write that was not made
    void   (*weight_read)(const struct tri_weight * weight, void * to, uint64_t offset, uint64_t size);
    void   (*weights_freed)(const void * base, uint64_t size);
    void * (*gpu_new)(uint64_t size);                                                // NULL: no memory; already reported
    void * (*gpu_base)(const void * memory);                                         // as the host addresses it
    void   (*gpu_free)(void * memory);
    uint64_t (*gpu_max)(void);                                                       // bytes of the largest buffer
    void   (*gpu_read)(const void * from, void * to, uint64_t size);
    void   (*gpu_write)(void * to, const void * from, uint64_t size);
    int    (*gpu_can)(const struct tri_node * node);                                 // 1: the GPU computes such a node
    void * (*stream_new)(int32_t device);                                            // NULL: refused; already reported
    void   (*stream_free)(void * stream);
    void   (*stream_threads)(void * stream, int32_t n_threads);
    void   (*stream_abort)(void * stream, void * callback, void * data);             // bool callback(void * data), or NULL
    int    (*stream_compute)(void * stream, const struct tri_graph * graph);         // TRI_OK, ...
};

// Host: which ggml this is. `tri_host_open` comes first; it returns NULL or what is missing.
const char * tri_host_open(void);
const char * tri_host_version(void);
const char * tri_host_commit(void);
const char * tri_built_version(void);
// The first operation or type whose number means something else in the host, as "name built, name found"; or NULL.
const char * tri_host_name_difference(void);
// The file that holds a function of the CPU device's table though it is neither libggml-cpu nor libggml-base; or NULL.
const char * tri_host_foreign_function(void);
// level: 1 error, 2 warning, 3 info, 4 debug. Goes to ggml's log callback, or to stderr before a host is open.
void tri_host_log(int32_t level, const char * text);

// Plugin: fills ggml's tables with `callbacks` and returns the reg object.
void * tri_plugin_reg(const struct tri_callbacks * callbacks);

// CPU: the host's own ggml-cpu.
int          tri_cpu_find(void);                                // 1 when the host has its CPU backend loaded
const char * tri_cpu_description(void);
int          tri_cpu_feature(const char * name);                // 1 when the CPU backend reports it, such as "OPENMP"
int32_t      tri_cpu_layout_count(void);
const char * tri_cpu_layout_name(int32_t layout);
void *       tri_cpu_new(void);                                 // a private CPU backend, or NULL
void         tri_cpu_free(void * cpu);
void         tri_cpu_threads(void * cpu, int32_t n_threads);
void         tri_cpu_abort(void * cpu, void * callback, void * data);
void *       tri_cpu_pool_new(void * cpu, int32_t n_threads);   // a paused pool that `cpu` uses from now on, or NULL
void         tri_cpu_pool_free(void * cpu, void * pool);
// Computes `count` nodes of the graph from `first` on.
int          tri_cpu_compute(void * cpu, void * graph, int32_t first, int32_t count, int convert);
// Computes a part of the graph through fresh tensors; the host's own stay as they are.
int          tri_cpu_part(void * cpu, void * graph, const struct tri_part * part);
// Flattens a graph into `nodes`, which has room for graph->n_nodes.
void         tri_graph_flatten(const struct tri_graph * graph, struct tri_node * nodes);
// Repacks `rows` rows of the weight's type and K from `from` into `to`, both `size` bytes. 0: this is not possible.
int          tri_cpu_repack(const struct tri_weight * weight, int64_t rows, const void * from, void * to, uint64_t size);
// Bytes of `rows` rows of the weight in the file's layout.
uint64_t     tri_cpu_row_bytes(const struct tri_weight * weight, int64_t rows);

// Sizes and offsets of the structs above as the C compiler sees them, for the test of src/ggml/ffi.rs.
extern const size_t tri_layout[];
extern const size_t tri_layout_count;
