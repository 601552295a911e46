// The repacked weight layouts of ggml-cpu.
#include "internal.h"

#include <stdlib.h>
#include <string.h>

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
struct tri_exchange {
    struct ggml_tensor *  node;
    struct ggml_tensor *  plain;
    struct ggml_tensor *  repacked;
    ggml_backend_buffer_t buffer;
};

static void convert(struct ggml_tensor * node, struct tri_exchange * x) {
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

struct tri_exchange * tri_exchange_weights(struct ggml_cgraph * graph) {
    struct tri_exchange * all = calloc(graph->n_nodes ? graph->n_nodes : 1, sizeof(*all));
    for (int i = 0; all && i < graph->n_nodes; i++) {
        convert(graph->nodes[i], &all[i]);
    }
    return all;
}

void tri_exchange_back(struct ggml_cgraph * graph, struct tri_exchange * all) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (all[i].buffer) {
            all[i].node->src[0] = all[i].plain;
            tri_host.ggml_backend_buffer_free(all[i].buffer);
            free(all[i].repacked);
        }
    }
    free(all);
}
