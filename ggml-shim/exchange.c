// The sources that are exchanged while ggml-cpu computes a graph: it must see the aliases of repacked weights, and with
// TRI_LAYOUT=convert repacked copies of plain ones. The nodes belong to the graph of one stream, so nobody else sees it.
#include "internal.h"

#include <stdlib.h>

struct exchange {
    struct ggml_tensor *  node;
    struct ggml_tensor *  source;   // what the node had
    struct ggml_tensor *  own;      // a tensor made for this graph, to be freed; or NULL
    ggml_backend_buffer_t buffer;   // and its buffer; or NULL
};

struct tri_exchanges {
    int             count;
    struct exchange entries[];
};

static void exchange(struct tri_exchanges * x, struct ggml_tensor * node, struct ggml_tensor * now, struct ggml_tensor * own,
                     ggml_backend_buffer_t buffer) {
    x->entries[x->count++] = (struct exchange){ .node = node, .source = node->src[0], .own = own, .buffer = buffer };
    node->src[0]           = now;
}

// A view of a repacked weight gets an alias of its own, in the same genuine buffer.
static bool exchange_view(struct tri_exchanges * x, struct ggml_tensor * node, const struct ggml_tensor * root_alias) {
    struct ggml_tensor * own = malloc(sizeof(*own));
    if (!own || !tri_alias_of(own, node->src[0], root_alias->buffer)) {
        free(own);
        return false;
    }
    exchange(x, node, own, own, NULL);
    return true;
}

static bool convert(struct tri_exchanges * x, struct ggml_tensor * node) {
    struct ggml_tensor * w = node->src[0];
    // ggml-cpu accepts such activations for a repacked weight and then stops at an assertion; models have none.
    if (w->op != GGML_OP_NONE || w->view_src || !w->buffer || w->buffer->buft != &tri_plain_type || !tri_host.ggml_is_contiguous(w) ||
        node->src[1]->ne[3] != 1 || node->src[1]->nb[0] != sizeof(float)) {
        return true;
    }
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        if (!tri_cpu_supports(node, i)) {
            continue;
        }
        struct ggml_tensor *  own    = malloc(sizeof(*own));
        ggml_backend_buffer_t buffer = own ? tri_repacked_copy(own, w, i, w->data) : NULL;
        if (!buffer) {
            free(own);
            return false;
        }
        exchange(x, node, own, own, buffer);
        return true;
    }
    return true;
}

struct tri_exchanges * tri_exchange(struct ggml_cgraph * graph, bool with_convert) {
    struct tri_exchanges * x  = malloc(sizeof(*x) + (size_t) graph->n_nodes * sizeof(struct exchange));
    bool                   ok = x != NULL;
    if (x) {
        x->count = 0;
    }
    for (int i = 0; ok && i < graph->n_nodes; i++) {
        struct ggml_tensor * node = graph->nodes[i];
        if (!tri_is_product(node)) {
            continue;
        }
        struct ggml_tensor * w     = node->src[0];
        struct ggml_tensor * alias = tri_repacked_alias(w->view_src ? w->view_src : w);
        if (alias && !w->view_src) {
            exchange(x, node, alias, NULL, NULL);
        } else if (alias) {
            ok = exchange_view(x, node, alias);
        } else if (with_convert) {
            ok = convert(x, node);
        }
    }
    if (!ok && x) {
        tri_exchange_back(x);
        x = NULL;
    }
    return x;
}

void tri_exchange_back(struct tri_exchanges * x) {
    for (int i = 0; i < x->count; i++) {
        x->entries[i].node->src[0] = x->entries[i].source;
        if (x->entries[i].buffer) {
            tri_host.ggml_backend_buffer_free(x->entries[i].buffer);
        }
        free(x->entries[i].own);
    }
    free(x);
}
