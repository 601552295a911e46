// What ggml calls: buffers in memory of the GPU. The host can address all of it, but reading may be slow, so reads and
// writes go through Rust.
#include "internal.h"

#include <string.h>

struct ggml_backend_buffer_type tri_gpu_types[TRI_MAX_DEVICES];

static bool is_gpu(ggml_backend_buffer_t buffer) {
    const ptrdiff_t i = buffer ? buffer->buft - tri_gpu_types : -1;
    return i >= 0 && i < TRI_MAX_DEVICES && buffer->buft == &tri_gpu_types[i];
}

static void * gpu_base(ggml_backend_buffer_t buffer) {
    return rust.gpu_base(buffer->context);
}

static void gpu_free(ggml_backend_buffer_t buffer) {
    rust.gpu_free(buffer->context);
}

static void gpu_memset(ggml_backend_buffer_t buffer, struct ggml_tensor * t, uint8_t value, size_t offset, size_t size) {
    memset((char *) t->data + offset, value, size);
}

static void gpu_set(ggml_backend_buffer_t buffer, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    rust.gpu_write((char *) t->data + offset, data, size);
}

static void gpu_get(ggml_backend_buffer_t buffer, const struct ggml_tensor * t, void * data, size_t offset, size_t size) {
    rust.gpu_read((const char *) t->data + offset, data, size);
}

static bool gpu_copy(ggml_backend_buffer_t buffer, const struct ggml_tensor * src, struct ggml_tensor * dst) {
    ggml_backend_buffer_t from = src->view_src ? src->view_src->buffer : src->buffer;
    const size_t          size = tri_host.ggml_nbytes(src);
    if (is_gpu(from)) {
        rust.gpu_read(src->data, dst->data, size);
        return true;
    }
    if (from->buft != &tri_plain_type && !(from->buft->iface.is_host && from->buft->iface.is_host(from->buft))) {
        return false;
    }
    rust.gpu_write(dst->data, src->data, size);
    return true;
}

static void gpu_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    memset(gpu_base(buffer), value, buffer->size);
}

static const struct ggml_backend_buffer_i gpu_buffer = {
    .free_buffer   = gpu_free,
    .get_base      = gpu_base,
    .memset_tensor = gpu_memset,
    .set_tensor    = gpu_set,
    .get_tensor    = gpu_get,
    .cpy_tensor    = gpu_copy,
    .clear         = gpu_clear,
};

// Buffer type.

static const char * gpu_name(ggml_backend_buffer_type_t buft) {
    return tri_devices[buft - tri_gpu_types].facts.name;
}

static ggml_backend_buffer_t gpu_alloc(ggml_backend_buffer_type_t buft, size_t size) {
    void * memory = rust.gpu_new(size);
    return memory ? tri_host.ggml_backend_buffer_init(buft, gpu_buffer, memory, size) : NULL;
}

// Rows of weights are read in pieces of 16 bytes; 256 keeps tensors on cache lines of their own.
static size_t gpu_alignment(ggml_backend_buffer_type_t buft) {
    return 256;
}

static size_t gpu_max_size(ggml_backend_buffer_type_t buft) {
    return rust.gpu_max();
}

void tri_gpu_init(void) {
    for (int32_t i = 0; i < tri_n_devices; i++) {
        tri_gpu_types[i] = (struct ggml_backend_buffer_type){
            .iface  = { .get_name = gpu_name, .alloc_buffer = gpu_alloc, .get_alignment = gpu_alignment, .get_max_size = gpu_max_size },
            .device = &tri_devices[i].ggml,
        };
    }
}
