// Graphs as flat nodes.
#include "internal.h"

#include <string.h>

_Static_assert(TRI_MAX_SRC == GGML_MAX_SRC, "shim.h has another number of sources");
_Static_assert(sizeof(((struct tri_node *) 0)->params) == GGML_MAX_OP_PARAMS, "shim.h has other parameters");

static struct tri_tensor flat(const struct ggml_tensor * t) {
    struct tri_tensor out = { .type = tri_host.ggml_type_name(t->type), .data = (uint64_t) (uintptr_t) t->data,
                              .id = (uint64_t) (uintptr_t) t, .root = (uint64_t) (uintptr_t) (t->view_src ? t->view_src : t) };
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        out.ne[i] = t->ne[i];
        out.nb[i] = t->nb[i];
    }
    return out;
}

void tri_node_flatten(const struct ggml_tensor * t, struct tri_node * node) {
    *node       = (struct tri_node){ .op = tri_host.ggml_op_name(t->op), .sub = "", .uses = -1, .dst = flat(t) };
    node->flags = (t->flags & GGML_TENSOR_FLAG_COMPUTE ? TRI_NODE_COMPUTE : 0) | (tri_is_view(t) ? TRI_NODE_VIEW : 0) |
                  (t->flags & GGML_TENSOR_FLAG_OUTPUT ? TRI_NODE_OUTPUT : 0);
    memcpy(node->params, t->op_params, sizeof(node->params));
    if (t->op == GGML_OP_UNARY) {
        node->sub = tri_host.ggml_unary_op_name((enum ggml_unary_op) t->op_params[0]);
    } else if (t->op == GGML_OP_GLU) {
        node->sub = tri_host.ggml_glu_op_name((enum ggml_glu_op) t->op_params[0]);
    }
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (t->src[i]) {
            node->src[i] = flat(t->src[i]);
        }
    }
}

void tri_graph_flatten(const struct tri_graph * graph, struct tri_node * nodes) {
    const struct ggml_cgraph * host = graph->host;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        tri_node_flatten(host->nodes[i], &nodes[i]);
        // A part of a graph shares the counts of the whole.
        if (host->use_counts && host->visited_hash_set.size > 0) {
            nodes[i].uses = ggml_node_get_use_count(host, i);
        }
    }
}
