// Finds the host's ggml and compares it with the one that this file was built from.
#include "internal.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct tri_name {
    int          value;
    const char * name;
};
#include "ggml_names.h"

struct tri_host tri_host;

// Looks a symbol up among the ggml libraries that are loaded already; a host such as Python loads them locally, where
// the global scope does not see them.
static int find_in_object(struct dl_phdr_info * info, size_t size, void * context) {
    void ** found = context;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libggml")) {
        return 0;
    }
    void * object = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!object) {
        return 0;
    }
    found[1] = dlsym(object, found[0]);
    dlclose(object);
    return found[1] != NULL;
}

static void * find(const char * name) {
    void * symbol = dlsym(RTLD_DEFAULT, name);
    if (!symbol) {
        void * context[2] = { (void *) name, NULL };
        dl_iterate_phdr(find_in_object, context);
        symbol = context[1];
    }
    return symbol;
}

const char * tri_host_open(void) {
    const char * missing = NULL;
#define TRI_FIND(f)                                            \
    tri_host.f = (__typeof__(tri_host.f)) find(#f);            \
    if (!tri_host.f && !missing) {                             \
        missing = #f;                                          \
    }
    TRI_HOST_FUNCTIONS(TRI_FIND)
#undef TRI_FIND
    return missing;
}

const char * tri_host_version(void) {
    return tri_host.ggml_version ? tri_host.ggml_version() : NULL;
}

const char * tri_host_commit(void) {
    return tri_host.ggml_commit ? tri_host.ggml_commit() : NULL;
}

const char * tri_built_version(void) {
    return TRI_BUILT_VERSION;
}

// ggml's name functions do not check their argument, so the walk stops at the first difference.
const char * tri_host_name_difference(void) {
    static char text[128];
    for (size_t i = 0; i < sizeof(tri_built_ops) / sizeof(*tri_built_ops); i++) {
        const char * found = tri_host.ggml_op_name((enum ggml_op) tri_built_ops[i].value);
        if (!found || strcmp(found, tri_built_ops[i].name) != 0) {
            snprintf(text, sizeof(text), "operation %d is %s here and %s in the host", tri_built_ops[i].value,
                     tri_built_ops[i].name, found ? found : "nothing");
            return text;
        }
    }
    // Type names differ from the enumerators in case only.
    for (size_t i = 0; i < sizeof(tri_built_types) / sizeof(*tri_built_types); i++) {
        const char * found = tri_host.ggml_type_name((enum ggml_type) tri_built_types[i].value);
        if (!found || strcasecmp(found, tri_built_types[i].name) != 0) {
            snprintf(text, sizeof(text), "type %d is %s here and %s in the host", tri_built_types[i].value,
                     tri_built_types[i].name, found ? found : "nothing");
            return text;
        }
    }
    return NULL;
}

const char * tri_host_foreign_function(void) {
    static char  text[256];
    const void * functions[sizeof(struct ggml_backend_device_i) / sizeof(void *)];
    memcpy(functions, &tri_cpu.dev->iface, sizeof(functions));
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        Dl_info info;
        if (!functions[i]) {
            continue;
        }
        if (!dladdr(functions[i], &info) || !info.dli_fname) {
            snprintf(text, sizeof(text), "entry %zu of the CPU device's table is no function", i);
            return text;
        }
        if (!strstr(info.dli_fname, "libggml-cpu") && !strstr(info.dli_fname, "libggml-base")) {
            snprintf(text, sizeof(text), "entry %zu of the CPU device's table lies in %s", i, info.dli_fname);
            return text;
        }
    }
    return NULL;
}

void tri_host_log(int32_t level, const char * text) {
    static const enum ggml_log_level levels[] = { GGML_LOG_LEVEL_ERROR, GGML_LOG_LEVEL_ERROR, GGML_LOG_LEVEL_WARN,
                                                  GGML_LOG_LEVEL_INFO, GGML_LOG_LEVEL_DEBUG };
    if (tri_host.ggml_log_internal) {
        tri_host.ggml_log_internal(levels[level >= 1 && level <= 4 ? level : 1], "%s\n", text);
    } else {
        fprintf(stderr, "%s\n", text);
    }
}

#define TRI_OFFSET(s, f) offsetof(struct s, f)
const size_t tri_layout[] = {
    sizeof(struct tri_tensor), TRI_OFFSET(tri_tensor, ne), TRI_OFFSET(tri_tensor, nb), TRI_OFFSET(tri_tensor, data),
    TRI_OFFSET(tri_tensor, id), TRI_OFFSET(tri_tensor, root),
    sizeof(struct tri_node), TRI_OFFSET(tri_node, op), TRI_OFFSET(tri_node, sub), TRI_OFFSET(tri_node, flags),
    TRI_OFFSET(tri_node, uses), TRI_OFFSET(tri_node, params), TRI_OFFSET(tri_node, dst), TRI_OFFSET(tri_node, src),
    sizeof(struct tri_graph), TRI_OFFSET(tri_graph, host), TRI_OFFSET(tri_graph, uid), TRI_OFFSET(tri_graph, n_nodes),
    sizeof(struct tri_weight), TRI_OFFSET(tri_weight, type), TRI_OFFSET(tri_weight, type_id),
    TRI_OFFSET(tri_weight, layout), TRI_OFFSET(tri_weight, ne), TRI_OFFSET(tri_weight, nbytes), TRI_OFFSET(tri_weight, data),
    sizeof(struct tri_part), TRI_OFFSET(tri_part, rows), TRI_OFFSET(tri_part, moved_first), TRI_OFFSET(tri_part, addresses),
    sizeof(struct tri_device_facts), TRI_OFFSET(tri_device_facts, gpu),
    sizeof(struct tri_callbacks), TRI_OFFSET(tri_callbacks, stream_compute),
};
const size_t tri_layout_count = sizeof(tri_layout) / sizeof(*tri_layout);
