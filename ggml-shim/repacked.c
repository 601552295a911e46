// What ggml calls: the buffer types of TRI0 that hold weights in ggml-cpu's repacked layouts, and their buffers.
//
// The memory is a genuine buffer of ggml-cpu, which recognises its layouts by the buffer type. A weight that the layout
// can hold has an alias in that buffer, kept in `extra`; graphs see the alias while ggml-cpu computes (exchange.c). Other
// tensors, such as a LoRA adapter that llama.cpp places beside its weight, lie there as plain bytes.
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The context of a buffer.
struct repacked {
    ggml_backend_buffer_t genuine;
    struct alias *        aliases;
};

struct alias {
    struct ggml_tensor tensor;  // first: a weight's `extra` points here
    struct alias *     next;
};

struct ggml_backend_buffer_type tri_repacked_types[TRI_MAX_LAYOUTS];
static char                     names[TRI_MAX_LAYOUTS][64];

int32_t tri_repacked_layout(ggml_backend_buffer_t buffer) {
    const ptrdiff_t i = buffer ? buffer->buft - tri_repacked_types : -1;
    return i >= 0 && i < tri_cpu.n_layouts && buffer->buft == &tri_repacked_types[i] ? (int32_t) i : -1;
}

struct ggml_tensor * tri_repacked_alias(const struct ggml_tensor * weight) {
    return tri_repacked_layout(weight->buffer) >= 0 ? weight->extra : NULL;
}

static struct tri_weight weight_of(const struct ggml_tensor * t) {
    struct tri_weight w = { .type    = tri_host.ggml_type_name(t->type),
                            .type_id = t->type,
                            .layout  = tri_repacked_layout(t->buffer),
                            .nbytes  = tri_host.ggml_nbytes(t),
                            .data    = t->data };
    memcpy(w.ne, t->ne, sizeof(w.ne));
    return w;
}

static void * repacked_base(ggml_backend_buffer_t buffer) {
    ggml_backend_buffer_t genuine = ((struct repacked *) buffer->context)->genuine;
    return genuine->iface.get_base(genuine);
}

static void repacked_free(ggml_backend_buffer_t buffer) {
    struct repacked * context = buffer->context;
    rust.weights_freed(repacked_base(buffer), buffer->size);
    tri_host.ggml_backend_buffer_free(context->genuine);
    while (context->aliases) {
        struct alias * next = context->aliases->next;
        free(context->aliases);
        context->aliases = next;
    }
    free(context);
}

static enum ggml_status repacked_init(ggml_backend_buffer_t buffer, struct ggml_tensor * t) {
    struct repacked * context = buffer->context;
    t->extra                  = NULL;
    // A view is no weight of its own; exchange.c gives it an alias for the time of a graph.
    if (t->view_src || !tri_cpu_holds(t, tri_repacked_layout(buffer))) {
        return GGML_STATUS_SUCCESS;
    }
    struct alias * alias = malloc(sizeof(*alias));
    if (!alias || !tri_alias_of(&alias->tensor, t, context->genuine)) {
        free(alias);
        return GGML_STATUS_ALLOC_FAILED;
    }
    alias->next      = context->aliases;
    context->aliases = alias;
    t->extra         = &alias->tensor;
    return GGML_STATUS_SUCCESS;
}

// The tensor that owns the bytes: a view has no alias of its own, and yet lies in repacked bytes.
static const struct ggml_tensor * owner(const struct ggml_tensor * t) {
    return t->view_src ? t->view_src : t;
}

static void repacked_memset(ggml_backend_buffer_t buffer, struct ggml_tensor * t, uint8_t value, size_t offset, size_t size) {
    if (owner(t)->extra) {
        const struct tri_weight w = weight_of(owner(t));
        rust.weight_refused(&w, "a repacked weight can only be written whole");
        return;
    }
    memset((char *) t->data + offset, value, size);
}

static void repacked_set(ggml_backend_buffer_t buffer, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    ggml_backend_buffer_t genuine = ((struct repacked *) buffer->context)->genuine;
    if (!owner(t)->extra) {
        memcpy((char *) t->data + offset, data, size);
        return;
    }
    const struct tri_weight w = weight_of(owner(t));
    if (t != owner(t) || offset != 0 || size != w.nbytes) {
        rust.weight_refused(&w, "a repacked weight can only be written whole");
        return;
    }
    genuine->iface.set_tensor(genuine, t->extra, data, 0, size);
    rust.weight_written(&w, data);
}

static void repacked_get(ggml_backend_buffer_t buffer, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    const struct ggml_tensor * whole = owner(t);
    if (!whole->extra) {
        memcpy(data, (const char *) t->data + offset, size);
        return;
    }
    const struct tri_weight w = weight_of(whole);
    rust.weight_read(&w, data, (size_t) ((const char *) t->data - (const char *) whole->data) + offset, size);
}

// Clears what lies in memory; a repacked weight reads back as whatever those bytes unpack to.
static void repacked_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    memset(repacked_base(buffer), value, buffer->size);
}

static ggml_backend_buffer_t repacked_alloc(ggml_backend_buffer_type_t buft, size_t size) {
    static const struct ggml_backend_buffer_i table = {
        .free_buffer   = repacked_free,
        .get_base      = repacked_base,
        .init_tensor   = repacked_init,
        .memset_tensor = repacked_memset,
        .set_tensor    = repacked_set,
        .get_tensor    = repacked_get,
        .clear         = repacked_clear,
    };
    ggml_backend_buffer_type_t own     = tri_cpu.layouts[buft - tri_repacked_types];
    struct repacked *          context = calloc(1, sizeof(*context));
    if (context) {
        context->genuine = own->iface.alloc_buffer(own, size);
    }
    if (!context || !context->genuine) {
        free(context);
        return NULL;
    }
    return tri_host.ggml_backend_buffer_init(buft, table, context, size);
}

static const char * repacked_name(ggml_backend_buffer_type_t buft) {
    return names[buft - tri_repacked_types];
}

static size_t repacked_alignment(ggml_backend_buffer_type_t buft) {
    ggml_backend_buffer_type_t own = tri_cpu.layouts[buft - tri_repacked_types];
    return own->iface.get_alignment(own);
}

static size_t repacked_alloc_size(ggml_backend_buffer_type_t buft, const struct ggml_tensor * t) {
    const int32_t              layout = (int32_t) (buft - tri_repacked_types);
    ggml_backend_buffer_type_t own    = tri_cpu.layouts[layout];
    return own->iface.get_alloc_size && tri_cpu_holds(t, layout) ? own->iface.get_alloc_size(own, t) : tri_host.ggml_nbytes(t);
}

void tri_repacked_init(ggml_backend_dev_t dev) {
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        snprintf(names[i], sizeof(names[i]), "TRI0_%s", tri_cpu_layout_name(i));
        tri_repacked_types[i] = (struct ggml_backend_buffer_type){
            .iface  = { .get_name       = repacked_name,
                        .alloc_buffer   = repacked_alloc,
                        .get_alignment  = repacked_alignment,
                        .get_alloc_size = repacked_alloc_size },
            .device = dev,
        };
    }
}
