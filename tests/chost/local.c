// A host that keeps ggml's symbols to itself, as bindings for other languages do: libggml is opened with RTLD_LOCAL.
//   local HOST_FOLDER        with GGML_BACKEND_PATH naming the plugin
#include "check.h"

#include <dlfcn.h>

int main(int argc, char ** argv) {
    CHECK(argc == 2, "usage: local HOST_FOLDER");
    char path[4096];
    snprintf(path, sizeof(path), "%s/libggml.so", argv[1]);
    void * ggml = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(ggml, "%s", dlerror());
    void (*load_all)(const char *)  = (void (*)(const char *)) dlsym(ggml, "ggml_backend_load_all_from_path");
    void * (*by_name)(const char *) = (void * (*) (const char *) ) dlsym(ggml, "ggml_backend_dev_by_name");
    CHECK(load_all && by_name, "%s", dlerror());
    load_all(argv[1]);
    CHECK(by_name("CPU"), "the host does not work by itself");
    CHECK(by_name("TRI0"), "no TRI0");
    printf("all is well\n");
    return 0;
}
