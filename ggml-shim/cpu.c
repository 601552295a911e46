// The host's own ggml-cpu: a private backend of it.
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

static int status(enum ggml_status s) {
    switch (s) {
        case GGML_STATUS_SUCCESS:      return TRI_OK;
        case GGML_STATUS_ABORTED:      return TRI_ABORTED;
        case GGML_STATUS_ALLOC_FAILED: return TRI_NO_MEMORY;
        default:                       return TRI_FAILED;
    }
}

int tri_cpu_compute(void * cpu, void * graph, int32_t first, int32_t count, int convert) {
    ggml_backend_t     backend = cpu;
    struct ggml_cgraph part    = *(struct ggml_cgraph *) graph;
    part.nodes += first;
    part.n_nodes = count;
    struct tri_exchanges * x = tri_exchange(&part, convert);
    if (!x) {
        return TRI_NO_MEMORY;
    }
    const enum ggml_status result = backend->iface.graph_compute(backend, &part);
    tri_exchange_back(x);
    return status(result);
}

// A source of `node` as a fresh tensor, a leaf; moved if its own node, or the one that it is a view of, is.
static struct ggml_tensor leaf_of(const struct ggml_tensor * source, const struct ggml_cgraph * graph, const struct tri_part * part) {
    struct ggml_tensor leaf = *source;
    for (int32_t i = 0; i < part->moved_count; i++) {
        const struct ggml_tensor * made = graph->nodes[part->moved_first + i];
        if (made == source) {
            leaf.data = (void *) (uintptr_t) part->addresses[i];
            break;
        }
        if (made == source->view_src) {
            leaf.data = (char *) (uintptr_t) part->addresses[i] + ((char *) source->data - (char *) made->data);
        }
    }
    leaf.op       = GGML_OP_NONE;
    leaf.view_src = NULL;
    memset(leaf.src, 0, sizeof(leaf.src));
    return leaf;
}

// One node of a part, with its sources.
struct piece {
    struct ggml_tensor node;
    struct ggml_tensor sources[GGML_MAX_SRC];
};

// Whether `piece` could be made: rows are those of a plain weight.
static bool piece_of(struct piece * piece, const struct ggml_tensor * node, const struct ggml_cgraph * graph, const struct tri_part * part) {
    const struct ggml_tensor moved = leaf_of(node, graph, part);
    piece->node                    = *node;
    piece->node.data               = moved.data;
    piece->node.view_src           = NULL;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (node->src[i]) {
            piece->sources[i]  = leaf_of(node->src[i], graph, part);
            piece->node.src[i] = &piece->sources[i];
        }
    }
    if (part->rows[0] < 0) {
        return true;
    }
    struct ggml_tensor * weight = &piece->sources[0];
    // With a hint in the second parameter ggml-cpu transforms whole columns and reads no weights.
    if (!tri_is_product(node) || (node->op == GGML_OP_MUL_MAT && node->op_params[1] != 0) || part->count != 1 || part->rows[1] < 1 || part->rows[0] + part->rows[1] > weight->ne[1]) {
        return false;
    }
    weight->ne[1]     = part->rows[1];
    weight->data      = (char *) weight->data + part->rows[0] * weight->nb[1];
    piece->node.ne[0] = part->rows[1];
    piece->node.data  = (char *) piece->node.data + part->rows[0] * piece->node.nb[0];
    return true;
}

int tri_cpu_part(void * cpu, void * graph, const struct tri_part * part) {
    ggml_backend_t              backend = cpu;
    const struct ggml_cgraph *  whole   = graph;
    struct piece *              pieces  = malloc((size_t) part->count * sizeof(*pieces));
    struct ggml_tensor **       nodes   = malloc((size_t) part->count * sizeof(*nodes));
    int                         result  = pieces && nodes ? TRI_OK : TRI_NO_MEMORY;
    for (int32_t i = 0; result == TRI_OK && i < part->count; i++) {
        nodes[i] = &pieces[i].node;
        // A repacked weight has no rows that could be taken apart, and another address.
        const struct ggml_tensor * node = whole->nodes[part->first + i];
        if ((node->src[0] && tri_repacked_alias(node->src[0])) || !piece_of(&pieces[i], node, whole, part)) {
            result = TRI_FAILED;
        }
    }
    if (result == TRI_OK) {
        // ggml-cpu asks how often a node is read before it fuses; nobody is known here, so nothing is fused. An empty set has
        // one free place: without any ggml divides by its size.
        ggml_bitset_t        used  = 0;
        struct ggml_tensor * key   = NULL;
        int32_t              uses  = 0;
        struct ggml_cgraph   fresh = { .size = part->count, .n_nodes = part->count, .nodes = nodes, .order = whole->order,
                                       .use_counts = &uses, .visited_hash_set = { .size = 1, .used = &used, .keys = &key } };
        result = status(backend->iface.graph_compute(backend, &fresh));
    }
    free(nodes);
    free(pieces);
    return result;
}
