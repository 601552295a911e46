// The repacked weight layouts of ggml-cpu: which weights they hold, and repacking.
#include "internal.h"

#include <string.h>

bool tri_cpu_supports(const struct ggml_tensor * op, int32_t layout) {
    if (layout < 0) {
        // TRI0's types are none of ggml-cpu's: to ggml-cpu such a source is a plain one.
        return tri_cpu.dev->iface.supports_op(tri_cpu.dev, op);
    }
    // ggml-cpu looks at the buffer types of the sources. It is asked about copies: without a buffer where the buffer is
    // TRI0's, and with one that claims the layout for the weight in question.
    struct ggml_backend_buffer claim = { .buft = tri_cpu.layouts[layout] };
    struct ggml_tensor         sources[GGML_MAX_SRC];
    struct ggml_tensor         copy = *op;
    for (int i = 0; i < GGML_MAX_SRC && op->src[i]; i++) {
        ggml_backend_buffer_t buffer = op->src[i]->buffer;
        const bool            ours   = buffer && (buffer->buft == &tri_plain_type || tri_repacked_layout(buffer) >= 0);
        if (!ours && i != 0) {
            continue;
        }
        sources[i]        = *op->src[i];
        sources[i].buffer = i == 0 ? &claim : NULL;
        copy.src[i]       = &sources[i];
    }
    return tri_cpu.dev->iface.supports_op(tri_cpu.dev, &copy);
}

bool tri_is_product(const struct ggml_tensor * op) {
    return op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID;
}

bool tri_is_view(const struct ggml_tensor * op) {
    return op->op == GGML_OP_NONE || op->op == GGML_OP_RESHAPE || op->op == GGML_OP_VIEW || op->op == GGML_OP_PERMUTE ||
           op->op == GGML_OP_TRANSPOSE;
}

bool tri_cpu_holds(const struct ggml_tensor * weight, int32_t layout) {
    struct ggml_tensor input = { .type = GGML_TYPE_F32, .ne = { weight->ne[0], 1, 1, 1 } };
    struct ggml_tensor ids   = { .type = GGML_TYPE_I32, .ne = { 1, 1, 1, 1 } };
    struct ggml_tensor plain = *weight;
    plain.buffer             = NULL;
    // A stack of matrices is multiplied by the experts' product, a single one by the plain product.
    struct ggml_tensor product = { .type = GGML_TYPE_F32, .op = weight->ne[2] > 1 ? GGML_OP_MUL_MAT_ID : GGML_OP_MUL_MAT,
                                   .ne = { weight->ne[1], 1, 1, 1 }, .src = { &plain, &input } };
    if (product.op == GGML_OP_MUL_MAT_ID) {
        product.src[2] = &ids;
    }
    return tri_cpu_supports(&product, layout);
}

bool tri_alias_of(struct ggml_tensor * alias, const struct ggml_tensor * weight, ggml_backend_buffer_t genuine) {
    *alias           = *weight;
    alias->buffer    = genuine;
    alias->extra     = NULL;
    alias->view_src  = NULL;
    alias->view_offs = 0;
    return !genuine->iface.init_tensor || genuine->iface.init_tensor(genuine, alias) == GGML_STATUS_SUCCESS;
}

ggml_backend_buffer_t tri_repacked_copy(struct ggml_tensor * copy, const struct ggml_tensor * plain, int32_t layout, const void * data) {
    ggml_backend_buffer_type_t own  = tri_cpu.layouts[layout];
    const size_t               size = own->iface.get_alloc_size ? own->iface.get_alloc_size(own, plain) : tri_host.ggml_nbytes(plain);
    ggml_backend_buffer_t buffer    = own->iface.alloc_buffer(own, size);
    if (!buffer) {
        return NULL;
    }
    struct ggml_tensor placed = *plain;
    placed.data               = buffer->iface.get_base(buffer);
    if (!tri_alias_of(copy, &placed, buffer)) {
        tri_host.ggml_backend_buffer_free(buffer);
        return NULL;
    }
    buffer->iface.set_tensor(buffer, copy, data, 0, tri_host.ggml_nbytes(plain));
    return buffer;
}

uint64_t tri_cpu_row_bytes(const struct tri_weight * weight, int64_t rows) {
    return tri_host.ggml_row_size((enum ggml_type) weight->type_id, weight->ne[0]) * rows;
}

int tri_cpu_repack(const struct tri_weight * weight, int64_t rows, const void * from, void * to, uint64_t size) {
    ggml_backend_buffer_type_t own   = tri_cpu.layouts[weight->layout];
    struct ggml_tensor         plain = { .type = (enum ggml_type) weight->type_id, .ne = { weight->ne[0], rows, 1, 1 } };
    struct ggml_tensor         copy;
    plain.nb[0] = tri_host.ggml_type_size(plain.type);
    plain.nb[1] = tri_cpu_row_bytes(weight, 1);
    plain.nb[2] = plain.nb[1] * rows;
    plain.nb[3] = plain.nb[2];
    // A layout that needs more room than the file's holds something besides the weights.
    if (!tri_cpu_holds(&plain, weight->layout) || tri_host.ggml_nbytes(&plain) != size ||
        (own->iface.get_alloc_size && own->iface.get_alloc_size(own, &plain) != size)) {
        return 0;
    }
    ggml_backend_buffer_t buffer = tri_repacked_copy(&copy, &plain, weight->layout, from);
    if (!buffer) {
        return 0;
    }
    memcpy(to, copy.data, size);
    tri_host.ggml_backend_buffer_free(buffer);
    return 1;
}
