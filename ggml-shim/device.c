// What ggml calls: reg, device and streams of TRI0. Thin: everything with a decision in it is a call into Rust.
#include "internal.h"

#include <stdlib.h>
#include <string.h>

// Stream.

static const struct tri_device_facts * facts_of(ggml_backend_dev_t dev) {
    return &((struct tri_device *) dev)->facts;  // `ggml` is the first field
}

static const char * stream_name(ggml_backend_t backend) {
    return facts_of(backend->device)->name;
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

struct tri_device tri_devices[TRI_MAX_DEVICES];
int32_t           tri_n_devices;

static int32_t number_of(ggml_backend_dev_t dev) {
    return (int32_t) ((struct tri_device *) dev - tri_devices);
}

static const char * device_name(ggml_backend_dev_t dev) {
    return facts_of(dev)->name;
}

static const char * device_description(ggml_backend_dev_t dev) {
    return facts_of(dev)->description;
}

static void device_memory(ggml_backend_dev_t dev, size_t * free_bytes, size_t * total_bytes) {
    uint64_t available = 0, total = 0;
    rust.memory(number_of(dev), &available, &total);
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
    props->device_id   = facts_of(dev)->id;
    device_memory(dev, &props->memory_free, &props->memory_total);
    // A GPU's driver does not take pages of a mapped file, so weights are read into its memory.
    const bool mapped = !facts_of(dev)->gpu;
    props->caps       = (struct ggml_backend_dev_caps){ .buffer_from_host_ptr = mapped, .mmap_support = mapped };
}

static ggml_backend_t device_stream(ggml_backend_dev_t dev, const char * params) {
    static ggml_guid guid = { 0x54, 0x52, 0x49, 0x30, 0x9e, 0x1d, 0x4c, 0x0b, 0x8f, 0x6a, 0x21, 0x37, 0xc4, 0x5d, 0xe0, 0x92 };
    static const struct ggml_backend_i table = { .get_name = stream_name, .free = stream_free, .graph_compute = stream_compute };

    ggml_backend_t backend = calloc(1, sizeof(*backend));
    void *         context = backend ? rust.stream_new(number_of(dev)) : NULL;
    if (!context) {
        free(backend);
        return NULL;
    }
    *backend = (struct ggml_backend){ .guid = &guid, .iface = table, .device = dev, .context = context };
    return backend;
}

static ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t dev) {
    return facts_of(dev)->gpu ? &tri_gpu_types[number_of(dev)] : &tri_plain_type;
}

static ggml_backend_buffer_t device_buffer_from_host_ptr(ggml_backend_dev_t dev, void * ptr, size_t size, size_t max_tensor_size) {
    return tri_plain_from_memory(ptr, size);
}

// The repacked layout in which TRI0 wants to hold the weight of a product, or -1. Only leaves are weights: a view of a KV
// cache is none, whatever its type.
static int32_t wanted_layout(const struct ggml_tensor * op) {
    if (!tri_is_product(op) || op->src[0]->op != GGML_OP_NONE || op->src[0]->view_src) {
        return -1;
    }
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        if (tri_cpu_supports(op, i)) {
            return rust.hold_repacked(tri_host.ggml_type_name(op->src[0]->type)) ? i : -1;
        }
    }
    return -1;
}

// llama.cpp's loader asks for each weight, with an empty buffer of a candidate type, the plain type first; its memory fit
// keeps such empty buffers. The answer decides where the weight goes, so the plain type is refused for a weight that is to
// be held repacked, and a repacked one for all others. A full buffer is a fact: the weight is computed as it is held.
static bool cpu_supports_op(const struct ggml_tensor * op) {
    for (int i = 0; i < GGML_MAX_SRC && op->src[i]; i++) {
        const struct ggml_tensor * root   = op->src[i]->view_src ? op->src[i]->view_src : op->src[i];
        const int32_t              layout = tri_repacked_layout(root->buffer);
        if (layout < 0) {
            continue;
        }
        if (root->buffer->size == 0) {
            return i == 0 && wanted_layout(op) == layout;
        }
        if (tri_repacked_alias(root)) {
            // A layout interleaves rows, so ggml-cpu computes a part of a matrix wrongly, and stops at an assertion for such inputs.
            const struct ggml_tensor * w     = op->src[0];
            const bool                 whole = w->ne[0] == root->ne[0] && w->ne[1] == root->ne[1] && w->nb[1] == root->nb[1] &&
                               w->view_offs % root->nb[2] == 0;
            return i == 0 && tri_is_product(op) && whole && op->src[1]->ne[3] == 1 && op->src[1]->nb[0] == sizeof(float) &&
                   tri_cpu_supports(op, layout);
        }
    }
    const struct ggml_backend_buffer * buffer = op->src[0] ? op->src[0]->buffer : NULL;
    if (buffer && buffer->size == 0 && buffer->buft == &tri_plain_type && wanted_layout(op) >= 0) {
        return false;
    }
    return tri_cpu_supports(op, -1);
}

// On a GPU, TRI0 computes what the GPU or ggml-cpu computes, in the same memory; TRI0-GPU what the GPU does.
static bool gpu_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    struct tri_node node;
    tri_node_flatten(op, &node);
    return rust.gpu_can(&node) || (number_of(dev) == 0 && tri_cpu_supports(op, -1));
}

static bool device_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    if (tri_is_view(op)) {
        return true;
    }
    return facts_of(dev)->gpu ? gpu_supports_op(dev, op) : cpu_supports_op(op);
}

// A device's own memory only: what the user left to the CPU (-ngl, -ot, -ncmoe) stays with the host's CPU backend, as beside
// any other device.
static bool device_supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t buft) {
    return buft->device == dev;
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
    return tri_n_devices;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t index) {
    return &tri_devices[index].ggml;
}

static struct ggml_backend_feature * reg_features(ggml_backend_reg_t reg) {
    static struct ggml_backend_feature features[] = { { "CPU", "1" }, { NULL, NULL }, { NULL, NULL } };
    if (tri_devices[0].facts.gpu) {
        features[1] = (struct ggml_backend_feature){ "VULKAN", "1" };
    }
    return features;
}

// The repacked types, ended by NULL as ggml wants it. They are the CPU's.
static ggml_backend_buffer_type_t * extra_buffer_types(ggml_backend_dev_t dev) {
    static ggml_backend_buffer_type_t list[TRI_MAX_LAYOUTS + 1], none[1];
    if (facts_of(dev)->gpu) {
        return none;
    }
    for (int32_t i = 0; i < tri_cpu.n_layouts; i++) {
        list[i] = &tri_repacked_types[i];
    }
    return list;
}

static void * reg_proc_address(ggml_backend_reg_t reg, const char * name) {
    if (strcmp(name, "ggml_backend_set_n_threads") == 0) {
        return (void *) stream_threads;
    }
    if (strcmp(name, "ggml_backend_set_abort_callback") == 0) {
        return (void *) stream_abort;
    }
    if (strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0) {
        return (void *) extra_buffer_types;
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
    rust          = *callbacks;
    tri_n_devices = 0;
    while (tri_n_devices < TRI_MAX_DEVICES && rust.device_facts(tri_n_devices, &tri_devices[tri_n_devices].facts)) {
        tri_devices[tri_n_devices++].ggml = (struct ggml_backend_device){ .iface = device_table, .reg = &reg };
    }
    tri_plain_type.device = &tri_devices[0].ggml;
    tri_repacked_init(&tri_devices[0].ggml);
    tri_gpu_init();
    return &reg;
}
