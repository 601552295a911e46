// What ggml calls: the buffer types and buffers of TRI0. Copies within host memory are made here.
#include "internal.h"

#include <stdio.h>
#include <string.h>

struct tri_callbacks rust;

// Buffer: TRI0's plain one. Its bytes are host memory in the file's layout.

// The context of a buffer is its slab, or for memory of the host (a mapped file) the memory itself.
static void * plain_base(ggml_backend_buffer_t buffer) {
    return buffer->iface.free_buffer ? rust.slab_base(buffer->context) : buffer->context;
}

static void plain_free(ggml_backend_buffer_t buffer) {
    rust.slab_free(buffer->context);
}

static void plain_memset(ggml_backend_buffer_t buffer, struct ggml_tensor * t, uint8_t value, size_t offset, size_t size) {
    memset((char *) t->data + offset, value, size);
}

static void plain_set(ggml_backend_buffer_t buffer, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    memcpy((char *) t->data + offset, data, size);
}

static void plain_get(ggml_backend_buffer_t buffer, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    memcpy(data, (const char *) t->data + offset, size);
}

static bool plain_copy(ggml_backend_buffer_t buffer, const struct ggml_tensor * src, struct ggml_tensor * dst) {
    ggml_backend_buffer_t from = src->view_src ? src->view_src->buffer : src->buffer;
    if (!from->buft->iface.is_host || !from->buft->iface.is_host(from->buft)) {
        return false;
    }
    memcpy(dst->data, src->data, tri_host.ggml_nbytes(src));
    return true;
}

static void plain_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    memset(plain_base(buffer), value, buffer->size);
}

static const struct ggml_backend_buffer_i plain_buffer = {
    .free_buffer   = plain_free,
    .get_base      = plain_base,
    .memset_tensor = plain_memset,
    .set_tensor    = plain_set,
    .get_tensor    = plain_get,
    .cpy_tensor    = plain_copy,
    .clear         = plain_clear,
};

// Buffer type: plain.

static const char * plain_name(ggml_backend_buffer_type_t buft) {
    return "TRI0";
}

static ggml_backend_buffer_t plain_alloc(ggml_backend_buffer_type_t buft, size_t size) {
    void * slab = rust.slab_new(size);
    return slab ? tri_host.ggml_backend_buffer_init(buft, plain_buffer, slab, size) : NULL;
}

// A cache line of every processor in question, and what SIMD loads of ggml-cpu can use.
static size_t plain_alignment(ggml_backend_buffer_type_t buft) {
    return 128;
}

static bool plain_is_host(ggml_backend_buffer_type_t buft) {
    return true;
}

struct ggml_backend_buffer_type tri_plain_type = {
    .iface = { .get_name = plain_name, .alloc_buffer = plain_alloc, .get_alignment = plain_alignment, .is_host = plain_is_host },
};

// Buffers and buffer types: repacked. The buffer is a genuine one of ggml-cpu, which compares buffer types by pointer, so
// it can be used in the host's graphs as it is; only reading, writing and freeing pass through here.

struct ggml_backend_buffer_type        tri_repacked_types[TRI_MAX_LAYOUTS];
static struct ggml_backend_buffer_i    genuine[TRI_MAX_LAYOUTS];
static char                            repacked_names[TRI_MAX_LAYOUTS][64];

int32_t tri_layout_of(ggml_backend_buffer_type_t buft) {
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        if (buft == tri_cpu.layouts[i] || buft == &tri_repacked_types[i]) {
            return i;
        }
    }
    return -1;
}

static struct tri_weight weight_of(const struct ggml_tensor * t, int32_t layout) {
    struct tri_weight w = { .type    = tri_host.ggml_type_name(t->type),
                            .type_id = t->type,
                            .layout  = layout,
                            .nbytes  = tri_host.ggml_nbytes(t),
                            .data    = t->data };
    memcpy(w.ne, t->ne, sizeof(w.ne));
    return w;
}

void tri_genuine_set_tensor(int32_t layout, ggml_backend_buffer_t buffer, struct ggml_tensor * t, const void * data, size_t size) {
    void (*set)(ggml_backend_buffer_t, struct ggml_tensor *, const void *, size_t, size_t) =
        genuine[layout].set_tensor ? genuine[layout].set_tensor : buffer->iface.set_tensor;
    set(buffer, t, data, 0, size);
}

static void repacked_free(ggml_backend_buffer_t buffer) {
    const int32_t layout = tri_layout_of(buffer->buft);
    rust.weights_freed(genuine[layout].get_base(buffer), buffer->size);
    genuine[layout].free_buffer(buffer);
}

static void repacked_set(ggml_backend_buffer_t buffer, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    const int32_t     layout = tri_layout_of(buffer->buft);
    struct tri_weight w      = weight_of(t, layout);
    if (!t->extra) {
        rust.weight_refused(&w, "this layout cannot hold a tensor of this type and shape");
        return;
    }
    if (offset != 0 || size != w.nbytes) {
        rust.weight_refused(&w, "a repacked weight can only be written whole");
        return;
    }
    genuine[layout].set_tensor(buffer, t, data, 0, size);
    rust.weight_written(&w, data);
}

static void repacked_get(ggml_backend_buffer_t buffer, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    struct tri_weight w = weight_of(t, tri_layout_of(buffer->buft));
    rust.weight_read(&w, data, offset, size);
}

static ggml_backend_buffer_t repacked_alloc(ggml_backend_buffer_type_t buft, size_t size) {
    const int32_t         layout = tri_layout_of(buft);
    ggml_backend_buffer_t buffer = tri_cpu.layouts[layout]->iface.alloc_buffer(tri_cpu.layouts[layout], size);
    if (buffer) {
        genuine[layout]           = buffer->iface;  // the same table for every buffer of this layout
        buffer->iface.free_buffer = repacked_free;
        buffer->iface.set_tensor  = repacked_set;
        buffer->iface.get_tensor  = repacked_get;
    }
    return buffer;
}

static const char * repacked_name(ggml_backend_buffer_type_t buft) {
    return repacked_names[tri_layout_of(buft)];
}

static size_t repacked_alignment(ggml_backend_buffer_type_t buft) {
    ggml_backend_buffer_type_t own = tri_cpu.layouts[tri_layout_of(buft)];
    return own->iface.get_alignment(own);
}

static size_t repacked_alloc_size(ggml_backend_buffer_type_t buft, const struct ggml_tensor * t) {
    ggml_backend_buffer_type_t own = tri_cpu.layouts[tri_layout_of(buft)];
    return own->iface.get_alloc_size ? own->iface.get_alloc_size(own, t) : tri_host.ggml_nbytes(t);
}

void tri_buffers_init(ggml_backend_dev_t dev) {
    tri_plain_type.device = dev;
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        snprintf(repacked_names[i], sizeof(repacked_names[i]), "TRI0_%s", tri_cpu_layout_name(i));
        tri_repacked_types[i] = (struct ggml_backend_buffer_type){
            .iface  = { .get_name       = repacked_name,
                        .alloc_buffer   = repacked_alloc,
                        .get_alignment  = repacked_alignment,
                        .get_alloc_size = repacked_alloc_size },
            .device = dev,
        };
    }
}

ggml_backend_buffer_t tri_plain_from_memory(void * memory, size_t size) {
    struct ggml_backend_buffer_i table = plain_buffer;
    table.free_buffer                  = NULL;  // the memory stays the host's
    return tri_host.ggml_backend_buffer_init(&tri_plain_type, table, memory, size);
}
