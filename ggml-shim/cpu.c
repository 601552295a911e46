// The host's own ggml-cpu: a private backend of it, its repacked weight layouts, and graphs as flat nodes.
#include "internal.h"

#include "ggml-cpu.h"

#include <stdlib.h>
#include <string.h>

struct tri_cpu tri_cpu;

static void * proc(const char * name) {
    return tri_cpu.reg->iface.get_proc_address ? tri_cpu.reg->iface.get_proc_address(tri_cpu.reg, name) : NULL;
}

int tri_cpu_find(void) {
    tri_cpu.reg = tri_host.ggml_backend_reg_by_name("CPU");
    if (!tri_cpu.reg || tri_cpu.reg->iface.get_device_count(tri_cpu.reg) == 0) {
        return 0;
    }
    tri_cpu.dev                = tri_cpu.reg->iface.get_device(tri_cpu.reg, 0);
    tri_cpu.set_n_threads      = (ggml_backend_set_n_threads_t) proc("ggml_backend_set_n_threads");
    tri_cpu.set_abort_callback = (ggml_backend_set_abort_callback_t) proc("ggml_backend_set_abort_callback");
    tri_cpu.n_layouts          = 0;
    ggml_backend_dev_get_extra_bufts_t get_extra = (ggml_backend_dev_get_extra_bufts_t) proc("ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *       extra     = get_extra ? get_extra(tri_cpu.dev) : NULL;
    while (extra && *extra && tri_cpu.n_layouts < TRI_MAX_LAYOUTS) {
        tri_cpu.layouts[tri_cpu.n_layouts++] = *extra++;
    }
    return tri_cpu.dev && tri_cpu.set_n_threads && tri_cpu.set_abort_callback;
}

const char * tri_cpu_description(void) {
    return tri_cpu.dev->iface.get_description(tri_cpu.dev);
}

int tri_cpu_feature(const char * name) {
    ggml_backend_get_features_t get = (ggml_backend_get_features_t) proc("ggml_backend_get_features");
    for (struct ggml_backend_feature * f = get ? get(tri_cpu.reg) : NULL; f && f->name; f++) {
        if (strcmp(f->name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

int32_t tri_cpu_layout_count(void) {
    return tri_cpu.n_layouts;
}

const char * tri_cpu_layout_name(int32_t layout) {
    return tri_cpu.layouts[layout]->iface.get_name(tri_cpu.layouts[layout]);
}

bool tri_cpu_supports(const struct ggml_tensor * op, ggml_backend_buffer_type_t layout) {
    if (!layout) {
        return tri_cpu.dev->iface.supports_op(tri_cpu.dev, op);
    }
    // ggml-cpu looks at the buffer type of the source, so it is asked about a copy whose source claims that type.
    struct ggml_backend_buffer claim = { .buft = layout };
    struct ggml_tensor         src0  = *op->src[0];
    struct ggml_tensor         copy  = *op;
    src0.buffer                      = &claim;
    copy.src[0]                      = &src0;
    return tri_cpu.dev->iface.supports_op(tri_cpu.dev, &copy);
}

void * tri_cpu_new(void) {
    return tri_cpu.dev->iface.init_backend(tri_cpu.dev, NULL);
}

void tri_cpu_free(void * cpu) {
    ggml_backend_t backend = cpu;
    backend->iface.free(backend);
}

void tri_cpu_threads(void * cpu, int32_t n_threads) {
    tri_cpu.set_n_threads(cpu, n_threads);
}

void tri_cpu_abort(void * cpu, void * callback, void * data) {
    tri_cpu.set_abort_callback(cpu, (ggml_abort_callback) callback, data);
}

void * tri_cpu_pool_new(void * cpu, int32_t n_threads) {
    __typeof__(&ggml_threadpool_new)              new_pool = (__typeof__(new_pool)) proc("ggml_threadpool_new");
    __typeof__(&ggml_backend_cpu_set_threadpool)  set_pool = (__typeof__(set_pool)) proc("ggml_backend_cpu_set_threadpool");
    if (!new_pool || !set_pool) {
        return NULL;
    }
    // The values of ggml_threadpool_params_default, except that the pool sleeps until a graph wakes it.
    struct ggml_threadpool_params params = { .n_threads = n_threads, .prio = GGML_SCHED_PRIO_NORMAL, .poll = 50, .paused = true };
    struct ggml_threadpool *      pool   = new_pool(&params);
    if (pool) {
        set_pool(cpu, pool);
    }
    return pool;
}

void tri_cpu_pool_free(void * cpu, void * pool) {
    __typeof__(&ggml_threadpool_free)             free_pool = (__typeof__(free_pool)) proc("ggml_threadpool_free");
    __typeof__(&ggml_backend_cpu_set_threadpool)  set_pool  = (__typeof__(set_pool)) proc("ggml_backend_cpu_set_threadpool");
    set_pool(cpu, NULL);
    free_pool(pool);
}

void tri_graph_flatten(const struct tri_graph * graph, struct tri_node * nodes) {
    const struct ggml_cgraph * host = graph->host;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const struct ggml_tensor * t = host->nodes[i];
        nodes[i].op                  = tri_host.ggml_op_name(t->op);
        memcpy(nodes[i].ne, t->ne, sizeof(nodes[i].ne));
        const bool view = t->op == GGML_OP_NONE || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_VIEW ||
                          t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
        nodes[i].flags  = (t->flags & GGML_TENSOR_FLAG_COMPUTE ? TRI_NODE_COMPUTE : 0) | (view ? TRI_NODE_VIEW : 0);
    }
}

// Places a fresh weight tensor in a buffer of a repacked layout; NULL when the layout has no room or no such weight.
static ggml_backend_buffer_t place(struct ggml_tensor * t, const struct ggml_tensor * like, ggml_backend_buffer_type_t layout) {
    *t           = *like;
    t->buffer    = NULL;
    t->data      = NULL;
    t->extra     = NULL;
    t->view_src  = NULL;
    t->view_offs = 0;
    const size_t size = layout->iface.get_alloc_size ? layout->iface.get_alloc_size(layout, t) : tri_host.ggml_nbytes(t);
    ggml_backend_buffer_t buffer = layout->iface.alloc_buffer(layout, size);
    if (!buffer) {
        return NULL;
    }
    t->buffer = buffer;
    t->data   = buffer->iface.get_base(buffer);
    if (buffer->iface.init_tensor && buffer->iface.init_tensor(buffer, t) != GGML_STATUS_SUCCESS) {
        tri_host.ggml_backend_buffer_free(buffer);
        return NULL;
    }
    return buffer;
}

// A weight tensor of the given rows without a buffer.
static struct ggml_tensor rows_of(const struct tri_weight * weight, int64_t rows) {
    struct ggml_tensor t = { .type = (enum ggml_type) weight->type_id, .ne = { weight->ne[0], rows, 1, 1 } };
    t.nb[0] = tri_host.ggml_type_size(t.type);
    t.nb[1] = tri_host.ggml_row_size(t.type, t.ne[0]);
    t.nb[2] = t.nb[1] * rows;
    t.nb[3] = t.nb[2];
    return t;
}

uint64_t tri_cpu_row_bytes(const struct tri_weight * weight, int64_t rows) {
    return tri_host.ggml_row_size((enum ggml_type) weight->type_id, weight->ne[0]) * rows;
}

int tri_cpu_repack(const struct tri_weight * weight, int64_t rows, const void * from, void * to, uint64_t size) {
    ggml_backend_buffer_type_t layout = tri_cpu.layouts[weight->layout];
    const struct ggml_tensor   plain  = rows_of(weight, rows);
    const struct ggml_tensor   input  = { .type = GGML_TYPE_F32, .ne = { weight->ne[0], 1, 1, 1 } };
    const struct ggml_tensor   op     = { .type = GGML_TYPE_F32, .op = GGML_OP_MUL_MAT,
                                          .src  = { (struct ggml_tensor *) &plain, (struct ggml_tensor *) &input } };
    // A layout that needs more room than the file's holds something besides the weights.
    if (!tri_cpu_supports(&op, layout) || tri_host.ggml_nbytes(&plain) != size ||
        (layout->iface.get_alloc_size && layout->iface.get_alloc_size(layout, &plain) != size)) {
        return 0;
    }
    struct ggml_tensor    t;
    ggml_backend_buffer_t buffer = place(&t, &plain, layout);
    if (!buffer) {
        return 0;
    }
    tri_genuine_set_tensor(weight->layout, buffer, &t, from, size);
    memcpy(to, t.data, size);
    tri_host.ggml_backend_buffer_free(buffer);
    return 1;
}

// TRI_LAYOUT=convert: the sources that were exchanged for repacked copies during one graph.
struct exchange {
    struct ggml_tensor *  node;
    struct ggml_tensor *  plain;
    struct ggml_tensor *  repacked;
    ggml_backend_buffer_t buffer;
};

static void convert(struct ggml_tensor * node, struct exchange * x) {
    struct ggml_tensor * w = node->src[0];
    x->buffer              = NULL;
    if ((node->op != GGML_OP_MUL_MAT && node->op != GGML_OP_MUL_MAT_ID) || w->op != GGML_OP_NONE || w->view_src || !w->buffer ||
        !w->buffer->buft->iface.is_host || !w->buffer->buft->iface.is_host(w->buffer->buft) || !tri_host.ggml_is_contiguous(w)) {
        return;
    }
    // ggml-cpu accepts such activations for a repacked weight and then stops at an assertion; models have none.
    if (node->src[1]->ne[3] != 1 || node->src[1]->nb[0] != sizeof(float)) {
        return;
    }
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        if (!tri_cpu_supports(node, tri_cpu.layouts[i])) {
            continue;
        }
        struct ggml_tensor * t = malloc(sizeof(*t));
        x->buffer              = t ? place(t, w, tri_cpu.layouts[i]) : NULL;
        if (!x->buffer) {
            free(t);
            return;
        }
        tri_genuine_set_tensor(i, x->buffer, t, w->data, tri_host.ggml_nbytes(w));
        x->node      = node;
        x->plain     = w;
        x->repacked  = t;
        node->src[0] = t;
        return;
    }
}

static int status(enum ggml_status s) {
    switch (s) {
        case GGML_STATUS_SUCCESS:      return TRI_OK;
        case GGML_STATUS_ABORTED:      return TRI_ABORTED;
        case GGML_STATUS_ALLOC_FAILED: return TRI_NO_MEMORY;
        default:                       return TRI_FAILED;
    }
}

int tri_cpu_compute(void * cpu, void * graph, int with_convert) {
    ggml_backend_t       backend = cpu;
    struct ggml_cgraph * host    = graph;
    struct exchange *    x       = NULL;
    if (with_convert) {
        x = calloc(host->n_nodes ? host->n_nodes : 1, sizeof(*x));
        if (!x) {
            return TRI_NO_MEMORY;
        }
        for (int i = 0; i < host->n_nodes; i++) {
            convert(host->nodes[i], &x[i]);
        }
    }
    const enum ggml_status result = backend->iface.graph_compute(backend, host);
    for (int i = 0; x && i < host->n_nodes; i++) {
        if (x[i].buffer) {
            x[i].node->src[0] = x[i].plain;
            tri_host.ggml_backend_buffer_free(x[i].buffer);
            free(x[i].repacked);
        }
    }
    free(x);
    return status(result);
}
