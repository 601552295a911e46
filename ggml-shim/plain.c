// What ggml calls: the plain buffer type of TRI0 and its buffers. Their bytes are host memory in the file's layout.
#include "internal.h"

#include <string.h>

struct tri_callbacks rust;

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
    if (from->buft != &tri_plain_type && !(from->buft->iface.is_host && from->buft->iface.is_host(from->buft))) {
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

// Not declared host memory, though it is: llama.cpp's memory fit counts a host type as nobody's memory, and its CPU backend
// would take nodes away from TRI0.
struct ggml_backend_buffer_type tri_plain_type = {
    .iface = { .get_name = plain_name, .alloc_buffer = plain_alloc, .get_alignment = plain_alignment },
};

ggml_backend_buffer_t tri_plain_from_memory(void * memory, size_t size) {
    struct ggml_backend_buffer_i table = plain_buffer;
    table.free_buffer                  = NULL;  // the memory stays the host's
    return tri_host.ggml_backend_buffer_init(&tri_plain_type, table, memory, size);
}
