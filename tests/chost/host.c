// A program that uses TRI0 through ggml's public functions alone, and compares every result with ggml-cpu's, bit for bit.
//   host HOST_FOLDER [converted]      with GGML_BACKEND_PATH naming the plugin
// "converted" says that TRI_LAYOUT=convert is set: weights in the default buffer type are then computed repacked, too.
#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { K = 512, M = 64, MAX_N = 33, THREADS = 2 };

static const enum ggml_type TYPES[] = {
    GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,   GGML_TYPE_Q5_1, GGML_TYPE_Q8_0,
    GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4,
};
enum { N_TYPES = sizeof(TYPES) / sizeof(TYPES[0]) };

static int errors_said;  // error lines of the plugin so far

static void on_log(enum ggml_log_level level, const char * text, void * data) {
    (void) data;
    if (level == GGML_LOG_LEVEL_ERROR && strstr(text, "TRI0")) {
        errors_said++;
    }
    if (level >= GGML_LOG_LEVEL_WARN) {  // ggml-cpu tells of each repacked tensor at a lower level
        fputs(text, stderr);
    }
}

static float random_float(void) {
    static uint32_t state = 1;
    state                 = state * 1664525u + 1013904223u;
    return (float) (int32_t) state / 2147483648.0f;
}

static struct ggml_context * context(void) {
    struct ggml_init_params params = { .mem_size = ggml_tensor_overhead() * 2048 + ggml_graph_overhead_custom(1024, false), .no_alloc = true };
    return ggml_init(params);
}

// One device with a stream: TRI0, or ggml-cpu to compare with.
struct side {
    ggml_backend_dev_t dev;
    ggml_backend_t     backend;
};

static struct side open_side(const char * name) {
    struct side side = { .dev = ggml_backend_dev_by_name(name) };
    CHECK(side.dev, "there is no device %s", name);
    side.backend = ggml_backend_dev_init(side.dev, NULL);
    CHECK(side.backend, "%s gave no stream", name);
    ggml_backend_set_n_threads_t set = (ggml_backend_set_n_threads_t) ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(side.dev), "ggml_backend_set_n_threads");
    CHECK(set, "%s takes no thread count", name);
    set(side.backend, THREADS);
    return side;
}

// The extra buffer types of a device: a NULL-terminated list, empty when it offers none.
static ggml_backend_buffer_type_t * extra_types(ggml_backend_dev_t dev) {
    static ggml_backend_buffer_type_t none[1];
    ggml_backend_dev_get_extra_bufts_t get = (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(dev), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t * list = get ? get(dev) : NULL;
    return list ? list : none;
}

// Whether the device would hold a weight in a buffer type: asked as llama.cpp's loader asks, with an empty buffer.
static bool would_hold(ggml_backend_dev_t dev, ggml_backend_buffer_type_t buft, enum ggml_type type) {
    struct ggml_context * ctx = context();
    struct ggml_tensor *  w   = ggml_new_tensor_2d(ctx, type, K, M);
    struct ggml_tensor *  op  = ggml_mul_mat(ctx, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, K, 512));
    w->buffer                 = ggml_backend_buft_alloc_buffer(buft, 0);
    const bool yes            = ggml_backend_dev_supports_op(dev, op);
    ggml_backend_buffer_free(w->buffer);
    ggml_free(ctx);
    return yes;
}

// Writes a weight into a buffer type, reads it back, multiplies it with n columns. What was read must be what was
// written; where a layout cannot be undone, the device must have said so.
static void multiply(struct side side, ggml_backend_buffer_type_t buft, enum ggml_type type, const void * weight,
                     const float * columns, int n, float * result) {
    struct ggml_context * ctx = context();
    struct ggml_tensor *  w   = ggml_new_tensor_2d(ctx, type, K, M);
    ggml_backend_buffer_t held = ggml_backend_alloc_ctx_tensors_from_buft(ctx, buft);
    CHECK(held, "no buffer of %s", ggml_backend_buft_name(buft));
    ggml_backend_buffer_set_usage(held, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    const size_t size = ggml_nbytes(w);
    ggml_backend_tensor_set(w, weight, 0, size);

    // Only TRI0 promises that repacked weights can be read: ggml-cpu has no function for it.
    if (strcmp(ggml_backend_dev_name(side.dev), "TRI0") == 0) {
        char *    read   = calloc(1, size);
        const int before = errors_said;
        ggml_backend_tensor_get(w, read, 0, size);
        const bool refused = errors_said > before;
        CHECK(refused || memcmp(read, weight, size) == 0, "%s in %s: other bytes were read than written, and nothing was said",
              ggml_type_name(type), ggml_backend_buft_name(buft));
        if (!refused) {
            const size_t row = ggml_row_size(type, K);
            ggml_backend_tensor_get(w, read, 3 * row, 2 * row);
            CHECK(memcmp(read, (const char *) weight + 3 * row, 2 * row) == 0, "%s: a part was read wrong", ggml_type_name(type));
        } else {
            printf("%s in %s cannot be read back, and says so\n", ggml_type_name(type), ggml_backend_buft_name(buft));
        }
        free(read);
    }

    struct ggml_context * work  = context();
    struct ggml_tensor *  x     = ggml_new_tensor_2d(work, GGML_TYPE_F32, K, n);
    struct ggml_tensor *  y     = ggml_add(work, ggml_mul_mat(work, w, x), ggml_new_tensor_2d(work, GGML_TYPE_F32, M, 1));
    struct ggml_cgraph *  graph = ggml_new_graph_custom(work, 16, false);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t rest = ggml_backend_alloc_ctx_tensors(work, side.backend);
    CHECK(rest, "no buffer for the graph");
    ggml_backend_tensor_set(x, columns, 0, ggml_nbytes(x));
    ggml_backend_tensor_set(y->src[1], columns, 0, ggml_nbytes(y->src[1]));
    CHECK(ggml_backend_dev_supports_op(side.dev, y->src[0]), "%s is held and then refused", ggml_type_name(type));
    CHECK(ggml_backend_graph_compute(side.backend, graph) == GGML_STATUS_SUCCESS, "%s n=%d", ggml_type_name(type), n);
    ggml_backend_tensor_get(y, result, 0, ggml_nbytes(y));
    ggml_backend_buffer_free(rest);
    ggml_free(work);
    ggml_backend_buffer_free(held);
    ggml_free(ctx);
}

// Every type, in the default buffer type and in each extra one, at widths of decoding, verification and prefill.
static void products(struct side tri, struct side cpu, bool converted) {
    static float columns[K * MAX_N], mine[M * MAX_N], theirs[M * MAX_N];
    float *      values = malloc(sizeof(float) * K * M);
    char *       weight = malloc(sizeof(float) * K * M);
    int          repacked = 0;
    for (int i = 0; i < K * MAX_N; i++) {
        columns[i] = random_float();
    }
    for (int i = 0; i < N_TYPES; i++) {
        for (int j = 0; j < K * M; j++) {
            values[j] = random_float();
        }
        ggml_quantize_chunk(TYPES[i], values, weight, 0, M, K, NULL);
        ggml_backend_buffer_type_t * tri_extra = extra_types(tri.dev);
        ggml_backend_buffer_type_t * cpu_extra = extra_types(cpu.dev);
        for (int layout = -1; layout < 0 || tri_extra[layout]; layout++) {
            ggml_backend_buffer_type_t own = layout < 0 ? ggml_backend_dev_buffer_type(tri.dev) : tri_extra[layout];
            if (layout >= 0 && !would_hold(tri.dev, own, TYPES[i])) {
                continue;
            }
            // The layout decides the rounding, so ggml-cpu gets the weight in its own buffer type of the same kind.
            ggml_backend_buffer_type_t like = NULL;
            for (int c = 0; !like && cpu_extra[c] && (layout >= 0 || converted); c++) {
                like = would_hold(cpu.dev, cpu_extra[c], TYPES[i]) ? cpu_extra[c] : NULL;
            }
            like = layout < 0 && !like ? ggml_backend_dev_buffer_type(cpu.dev) : like;
            CHECK(like, "%s holds %s and ggml-cpu has no such layout", ggml_backend_buft_name(own), ggml_type_name(TYPES[i]));
            repacked += layout >= 0;
            for (const int * n = (const int[]){ 1, 2, 5, 16, MAX_N, 0 }; *n; n++) {
                multiply(tri, own, TYPES[i], weight, columns, *n, mine);
                multiply(cpu, like, TYPES[i], weight, columns, *n, theirs);
                CHECK(memcmp(mine, theirs, sizeof(float) * M * *n) == 0, "%s in %s, n=%d differs from ggml-cpu",
                      ggml_type_name(TYPES[i]), ggml_backend_buft_name(own), *n);
            }
        }
    }
    printf("products: %d types, %d of them also repacked\n", N_TYPES, repacked);
    free(values);
    free(weight);
}

// A view of a repacked weight: it reads as the file's bytes, cannot be written, and is not multiplied where ggml-cpu would
// be wrong (a part of the interleaved rows) or stop the process (inputs of four dimensions).
static void views(struct side tri) {
    enum { FIRST = 4, ROWS = 16 };
    const size_t row    = ggml_row_size(GGML_TYPE_Q4_0, K);
    float *      values = malloc(sizeof(float) * K * M);
    char *       weight = malloc(row * M);
    char *       read   = malloc(row * M);
    for (int j = 0; j < K * M; j++) {
        values[j] = random_float();
    }
    ggml_quantize_chunk(GGML_TYPE_Q4_0, values, weight, 0, M, K, NULL);
    int seen = 0;
    for (ggml_backend_buffer_type_t * type = extra_types(tri.dev); *type; type++) {
        if (!would_hold(tri.dev, *type, GGML_TYPE_Q4_0)) {
            continue;
        }
        struct ggml_context * ctx  = context();
        struct ggml_tensor *  w    = ggml_new_tensor_2d(ctx, GGML_TYPE_Q4_0, K, M);
        ggml_backend_buffer_t held = ggml_backend_alloc_ctx_tensors_from_buft(ctx, *type);
        CHECK(held, "no buffer of type %s", ggml_backend_buft_name(*type));
        ggml_backend_tensor_set(w, weight, 0, row * M);
        struct ggml_tensor * part = ggml_view_2d(ctx, w, K, ROWS, row, FIRST * row);
        CHECK(ggml_backend_view_init(part) == GGML_STATUS_SUCCESS, "a view");

        int before = errors_said;
        ggml_backend_tensor_get(part, read, 0, ROWS * row);
        CHECK(errors_said > before || memcmp(read, weight + FIRST * row, ROWS * row) == 0, "a view reads other bytes than written");
        before = errors_said;
        ggml_backend_tensor_set(part, weight, 0, ROWS * row);
        CHECK(errors_said > before, "a view was written and nothing was said");
        before = errors_said;
        ggml_backend_tensor_get(w, read, 0, row * M);
        CHECK(errors_said > before || memcmp(read, weight, row * M) == 0, "a refused write changed the weight");

        CHECK(!ggml_backend_dev_supports_op(tri.dev, ggml_mul_mat(ctx, part, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, K, 2))),
              "a part of interleaved rows would be multiplied");
        CHECK(!ggml_backend_dev_supports_op(tri.dev, ggml_mul_mat(ctx, w, ggml_new_tensor_4d(ctx, GGML_TYPE_F32, K, 2, 1, 3))),
              "ggml-cpu would stop at an assertion");
        CHECK(ggml_backend_dev_supports_op(tri.dev, ggml_mul_mat(ctx, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, K, 2))),
              "a whole weight is refused");
        ggml_backend_buffer_free(held);
        ggml_free(ctx);
        seen++;
    }
    printf("views: %d layouts\n", seen);
    free(values);
    free(weight);
    free(read);
}

// A graph of many products, long enough to be stopped; the memory of the weight is the caller's own, wrapped.
static enum ggml_status long_graph(struct side side, int steps, float * memory, float * result) {
    struct ggml_context * ctx = context();
    struct ggml_tensor *  w   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, K, K);
    ggml_backend_buffer_t wrapped = ggml_backend_dev_buffer_from_host_ptr(side.dev, memory, sizeof(float) * K * K, sizeof(float) * K * K);
    CHECK(wrapped && ggml_backend_buffer_get_base(wrapped) == memory, "host memory is not used in place");
    CHECK(ggml_backend_tensor_alloc(wrapped, w, memory) == GGML_STATUS_SUCCESS, "a tensor in host memory");
    struct ggml_tensor * x     = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, K, 4);
    struct ggml_tensor * y     = x;
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 1024, false);
    for (int i = 0; i < steps; i++) {
        y = ggml_rms_norm(ctx, ggml_mul_mat(ctx, w, y), 1e-5f);
    }
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t rest = ggml_backend_alloc_ctx_tensors(ctx, side.backend);
    CHECK(rest, "no buffer for the graph");
    ggml_backend_tensor_set(x, memory, 0, ggml_nbytes(x));
    const enum ggml_status status = ggml_backend_graph_compute(side.backend, graph);
    ggml_backend_tensor_get(y, result, 0, ggml_nbytes(y));
    ggml_backend_buffer_free(rest);
    ggml_backend_buffer_free(wrapped);
    ggml_free(ctx);
    return status;
}

static bool stop_after(void * left) {
    return --*(int *) left < 0;
}

static void abortion(struct side tri, struct side cpu, float * memory) {
    static float mine[K * 4], theirs[K * 4];
    ggml_backend_set_abort_callback_t set = (ggml_backend_set_abort_callback_t) ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(tri.dev), "ggml_backend_set_abort_callback");
    CHECK(set, "TRI0 takes no abort callback");
    int left = 10;
    set(tri.backend, stop_after, &left);
    CHECK(long_graph(tri, 64, memory, mine) == GGML_STATUS_ABORTED, "the graph was not stopped; %d calls were left", left);
    set(tri.backend, NULL, NULL);
    CHECK(long_graph(tri, 64, memory, mine) == GGML_STATUS_SUCCESS, "the stream works no more after a stop");
    CHECK(long_graph(cpu, 64, memory, theirs) == GGML_STATUS_SUCCESS, "ggml-cpu");
    CHECK(memcmp(mine, theirs, sizeof(mine)) == 0, "the result differs from ggml-cpu");
    printf("abort: stopped, then completed\n");
}

static void * compute_often(void * memory) {
    static const int rounds = 8;
    float *          first = malloc(sizeof(float) * K * 4), *again = malloc(sizeof(float) * K * 4);
    for (int i = 0; i < rounds; i++) {
        struct side tri = open_side("TRI0");
        CHECK(long_graph(tri, 8, memory, i ? again : first) == GGML_STATUS_SUCCESS, "round %d", i);
        CHECK(i == 0 || memcmp(first, again, sizeof(float) * K * 4) == 0, "round %d gave another result", i);
        ggml_backend_free(tri.backend);
    }
    free(first);
    free(again);
    return NULL;
}

// Everything from the first look at the device to its removal.
static void session(float * memory, bool converted) {
    ggml_backend_reg_t reg = ggml_backend_reg_by_name("TRI");
    CHECK(reg && ggml_backend_reg_dev_count(reg) == 1, "the plugin is not loaded");
    struct side                   tri = open_side("TRI0"), cpu = open_side("CPU");
    struct ggml_backend_dev_props props;
    ggml_backend_dev_get_props(tri.dev, &props);
    CHECK(props.type == GGML_BACKEND_DEVICE_TYPE_GPU && props.caps.buffer_from_host_ptr, "the device's properties");
    CHECK(0 < props.memory_free && props.memory_free <= props.memory_total, "%zu of %zu bytes are free", props.memory_free, props.memory_total);

    products(tri, cpu, converted);
    views(tri);
    abortion(tri, cpu, memory);

    // Streams come and go beside each other, as for a target and a draft model, here also in two threads at once.
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, compute_often, memory) == 0, "no thread");
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    static float last[K * 4];
    CHECK(long_graph(tri, 8, memory, last) == GGML_STATUS_SUCCESS, "the first stream suffers from the others");

    ggml_backend_free(tri.backend);
    ggml_backend_free(cpu.backend);
    ggml_backend_unload(reg);
    CHECK(!ggml_backend_dev_by_name("TRI0"), "TRI0 is still there after it was unloaded");
}

int main(int argc, char ** argv) {
    CHECK(argc == 2 || (argc == 3 && !strcmp(argv[2], "converted")), "usage: host HOST_FOLDER [converted]");
    ggml_log_set(on_log, NULL);
    float * memory = aligned_alloc(4096, sizeof(float) * K * K);
    for (int i = 0; i < K * K; i++) {
        memory[i] = random_float();
    }
    ggml_backend_load_all_from_path(argv[1]);
    session(memory, argc == 3);
    // A host may unload a backend and load it again.
    CHECK(ggml_backend_load(getenv("GGML_BACKEND_PATH")), "the plugin cannot be loaded a second time");
    session(memory, argc == 3);
    free(memory);
    printf("all is well\n");
    return 0;
}
