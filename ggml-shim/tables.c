// What ggml calls: reg, device, buffer types, buffers and streams of TRI0. Thin: everything with a decision in it is a
// call into Rust; copies within host memory are made here.
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tri_callbacks rust;

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

static struct ggml_backend_buffer_type plain_type = {
    .iface = { .get_name = plain_name, .alloc_buffer = plain_alloc, .get_alignment = plain_alignment, .is_host = plain_is_host },
};

// Buffers and buffer types: repacked. The buffer is a genuine one of ggml-cpu, which compares buffer types by pointer, so
// it can be used in the host's graphs as it is; only reading, writing and freeing pass through here.

static struct ggml_backend_buffer_type repacked_types[TRI_MAX_LAYOUTS];
static ggml_backend_buffer_type_t      repacked_list[TRI_MAX_LAYOUTS + 1];
static struct ggml_backend_buffer_i    genuine[TRI_MAX_LAYOUTS];
static char                            repacked_names[TRI_MAX_LAYOUTS][64];

static int32_t layout_of(ggml_backend_buffer_type_t buft) {
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        if (buft == tri_cpu.layouts[i] || buft == &repacked_types[i]) {
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
    const int32_t layout = layout_of(buffer->buft);
    rust.weights_freed(genuine[layout].get_base(buffer), buffer->size);
    genuine[layout].free_buffer(buffer);
}

static void repacked_set(ggml_backend_buffer_t buffer, struct ggml_tensor * t, const void * data, size_t offset, size_t size) {
    const int32_t     layout = layout_of(buffer->buft);
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
    struct tri_weight w = weight_of(t, layout_of(buffer->buft));
    rust.weight_read(&w, data, offset, size);
}

static ggml_backend_buffer_t repacked_alloc(ggml_backend_buffer_type_t buft, size_t size) {
    const int32_t         layout = layout_of(buft);
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
    return repacked_names[layout_of(buft)];
}

static size_t repacked_alignment(ggml_backend_buffer_type_t buft) {
    ggml_backend_buffer_type_t own = tri_cpu.layouts[layout_of(buft)];
    return own->iface.get_alignment(own);
}

static size_t repacked_alloc_size(ggml_backend_buffer_type_t buft, const struct ggml_tensor * t) {
    ggml_backend_buffer_type_t own = tri_cpu.layouts[layout_of(buft)];
    return own->iface.get_alloc_size ? own->iface.get_alloc_size(own, t) : tri_host.ggml_nbytes(t);
}

static ggml_backend_buffer_type_t * repacked_types_of(ggml_backend_dev_t dev) {
    return repacked_list;
}

// Stream.

static const char * stream_name(ggml_backend_t backend) {
    return "TRI0";
}

static void stream_free(ggml_backend_t backend) {
    rust.stream_free(backend->context);
    free(backend);
}

static enum ggml_status stream_compute(ggml_backend_t backend, struct ggml_cgraph * cgraph) {
    const struct tri_graph graph = { .host = cgraph, .uid = cgraph->uid, .n_nodes = cgraph->n_nodes };
    switch (rust.stream_compute(backend->context, &graph)) {
        case TRI_OK:        return GGML_STATUS_SUCCESS;
        case TRI_ABORTED:   return GGML_STATUS_ABORTED;
        case TRI_NO_MEMORY: return GGML_STATUS_ALLOC_FAILED;
        default:            return GGML_STATUS_FAILED;
    }
}

static void stream_threads(ggml_backend_t backend, int n_threads) {
    rust.stream_threads(backend->context, n_threads);
}

static void stream_abort(ggml_backend_t backend, ggml_abort_callback callback, void * data) {
    rust.stream_abort(backend->context, (void *) callback, data);
}

// Device.

static struct ggml_backend_device device;

static const char * device_name(ggml_backend_dev_t dev) {
    return "TRI0";
}

static const char * device_description(ggml_backend_dev_t dev) {
    return tri_cpu_description();
}

static void device_memory(ggml_backend_dev_t dev, size_t * free_bytes, size_t * total_bytes) {
    uint64_t available = 0, total = 0;
    rust.memory(&available, &total);
    *free_bytes  = available;
    *total_bytes = total;
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t dev) {
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

static void device_props(ggml_backend_dev_t dev, struct ggml_backend_dev_props * props) {
    props->name        = device_name(dev);
    props->description = device_description(dev);
    props->type        = device_type(dev);
    props->device_id   = NULL;  // the PCI id of the GPU, once there is an engine for it
    device_memory(dev, &props->memory_free, &props->memory_total);
    props->caps = (struct ggml_backend_dev_caps){ .buffer_from_host_ptr = true, .mmap_support = true };
}

static ggml_backend_t device_stream(ggml_backend_dev_t dev, const char * params) {
    static ggml_guid guid = { 0x54, 0x52, 0x49, 0x30, 0x9e, 0x1d, 0x4c, 0x0b, 0x8f, 0x6a, 0x21, 0x37, 0xc4, 0x5d, 0xe0, 0x92 };
    static const struct ggml_backend_i table = { .get_name = stream_name, .free = stream_free, .graph_compute = stream_compute };

    ggml_backend_t backend = calloc(1, sizeof(*backend));
    void *         context = backend ? rust.stream_new() : NULL;
    if (!context) {
        free(backend);
        return NULL;
    }
    *backend = (struct ggml_backend){ .guid = &guid, .iface = table, .device = dev, .context = context };
    return backend;
}

static ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t dev) {
    return &plain_type;
}

static ggml_backend_buffer_t device_buffer_from_host_ptr(ggml_backend_dev_t dev, void * ptr, size_t size, size_t max_tensor_size) {
    struct ggml_backend_buffer_i table = plain_buffer;
    table.free_buffer                  = NULL;  // the memory stays the host's
    return tri_host.ggml_backend_buffer_init(&plain_type, table, ptr, size);
}

// The repacked layout in which TRI0 wants to hold the weight of `op`, or -1.
static int32_t wanted_layout(const struct ggml_tensor * op) {
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        if (tri_cpu_supports(op, tri_cpu.layouts[i])) {
            return rust.hold_repacked(tri_host.ggml_type_name(op->src[0]->type), tri_cpu_layout_name(i)) ? i : -1;
        }
    }
    return -1;
}

// llama.cpp's loader asks for each weight, with an empty buffer of a candidate type, the plain type first. Its answer
// decides where the weight goes, so the plain type is refused for a weight that is to be held repacked, and a repacked
// one for all others. In every other call the weight is where it is.
static bool device_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    for (int i = 0; i < GGML_MAX_SRC && op->src[i]; i++) {
        // Buffers of these types are genuine ones of ggml-cpu as soon as they hold anything: this can only be a probe.
        ggml_backend_buffer_type_t buft   = op->src[i]->buffer ? op->src[i]->buffer->buft : NULL;
        const int32_t              layout = buft ? layout_of(buft) : -1;
        if (layout >= 0 && buft == &repacked_types[layout]) {
            return i == 0 && wanted_layout(op) == layout;
        }
    }
    const struct ggml_backend_buffer * buffer = op->src[0] ? op->src[0]->buffer : NULL;
    if (buffer && buffer->size == 0 && buffer->buft == &plain_type && wanted_layout(op) >= 0) {
        return false;
    }
    return tri_cpu_supports(op, NULL);
}

// All host memory, and ggml-cpu's layouts: whatever ggml-cpu can use in place. Weights that the user left on the CPU are
// computed where they are, without a graph split.
static bool device_supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t buft) {
    return tri_cpu.dev->iface.supports_buft(tri_cpu.dev, buft) || layout_of(buft) >= 0;
}

static const struct ggml_backend_device_i device_table = {
    .get_name             = device_name,
    .get_description      = device_description,
    .get_memory           = device_memory,
    .get_type             = device_type,
    .get_props            = device_props,
    .init_backend         = device_stream,
    .get_buffer_type      = device_buffer_type,
    .buffer_from_host_ptr = device_buffer_from_host_ptr,
    .supports_op          = device_supports_op,
    .supports_buft        = device_supports_buft,
};

// Reg.

static const char * reg_name(ggml_backend_reg_t reg) {
    return "TRI";
}

static size_t reg_device_count(ggml_backend_reg_t reg) {
    return 1;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t index) {
    return &device;
}

static struct ggml_backend_feature * reg_features(ggml_backend_reg_t reg) {
    static struct ggml_backend_feature features[] = { { "CPU", "1" }, { NULL, NULL } };
    return features;
}

static void * reg_proc_address(ggml_backend_reg_t reg, const char * name) {
    if (strcmp(name, "ggml_backend_set_n_threads") == 0) {
        return (void *) stream_threads;
    }
    if (strcmp(name, "ggml_backend_set_abort_callback") == 0) {
        return (void *) stream_abort;
    }
    if (strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0) {
        return (void *) repacked_types_of;
    }
    if (strcmp(name, "ggml_backend_get_features") == 0) {
        return (void *) reg_features;
    }
    return NULL;
}

void * tri_plugin_reg(const struct tri_callbacks * callbacks) {
    static struct ggml_backend_reg reg = {
        .api_version = GGML_BACKEND_API_VERSION,
        .iface       = { .get_name         = reg_name,
                         .get_device_count = reg_device_count,
                         .get_device       = reg_device,
                         .get_proc_address = reg_proc_address },
    };
    rust              = *callbacks;
    device            = (struct ggml_backend_device){ .iface = device_table, .reg = &reg };
    plain_type.device = &device;
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        snprintf(repacked_names[i], sizeof(repacked_names[i]), "TRI0_%s", tri_cpu_layout_name(i));
        repacked_types[i] = (struct ggml_backend_buffer_type){
            .iface  = { .get_name       = repacked_name,
                        .alloc_buffer   = repacked_alloc,
                        .get_alignment  = repacked_alignment,
                        .get_alloc_size = repacked_alloc_size },
            .device = &device,
        };
        repacked_list[i] = &repacked_types[i];
    }
    return &reg;
}
