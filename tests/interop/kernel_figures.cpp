// Times ggml's product of matrices with a vector: `kernel_figures TYPE ROWS COLUMNS MIB ROUNDS THREADS`. Prints the best
// seconds of a pass over all matrices for each way in which ggml keeps them, and how many there are. Built by
// kernel_figures.sh against the libraries that llama.cpp's programs are made of.

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

static ggml_type type_of(const char * name) {
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        const char * known = ggml_type_name((ggml_type) type);
        if (known && strcasecmp(known, name) == 0) {
            return (ggml_type) type;
        }
    }
    fprintf(stderr, "ggml has no type %s\n", name);
    exit(2);
}

// Random rows as the type stores them; NaN would be as fast, but nobody multiplies it.
static std::vector<char> plain(ggml_type type, int64_t rows, int64_t columns) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(rows * columns);
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    std::vector<char> bytes(ggml_row_size(type, columns) * rows);
    ggml_quantize_chunk(type, values.data(), bytes.data(), 0, rows, columns, nullptr);
    return bytes;
}

// Best seconds of a pass; 0 if matrices of this type cannot be kept so.
static double measure(ggml_backend_buffer_type_t kept, ggml_backend_dev_t device, ggml_type type, int64_t rows, int64_t columns,
                      int count, int rounds, int threads, const std::vector<char> & distinct) {
    const size_t tensors = 4 * (size_t) count + 16;
    ggml_init_params sizes = { ggml_tensor_overhead() * tensors, nullptr, true };
    ggml_context * weights = ggml_init(sizes);
    std::vector<ggml_tensor *> matrices;
    for (int n = 0; n < count; n++) {
        matrices.push_back(ggml_new_tensor_2d(weights, type, columns, rows));
    }
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(weights, kept);
    if (!buffer) {
        ggml_free(weights);
        return 0;
    }
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_init_params graph_sizes = { ggml_tensor_overhead() * tensors + ggml_graph_overhead_custom(tensors, false), nullptr, true };
    ggml_context * context = ggml_init(graph_sizes);
    ggml_cgraph * graph = ggml_new_graph_custom(context, tensors, false);
    ggml_tensor * x = ggml_new_tensor_2d(context, GGML_TYPE_F32, columns, 1);
    ggml_set_input(x);
    bool fits = true;
    for (ggml_tensor * matrix : matrices) {
        ggml_tensor * product = ggml_mul_mat(context, matrix, x);
        ggml_set_output(product);
        fits = fits && ggml_backend_dev_supports_op(device, product);
        ggml_build_forward_expand(graph, product);
    }
    double best = 0;
    if (fits) {
        std::vector<char> bytes(ggml_row_size(type, columns) * rows);
        for (size_t at = 0; at < bytes.size(); at += distinct.size()) {
            memcpy(bytes.data() + at, distinct.data(), std::min(distinct.size(), bytes.size() - at));
        }
        for (ggml_tensor * matrix : matrices) {
            ggml_backend_tensor_set(matrix, bytes.data(), 0, bytes.size());
        }
        ggml_backend_t backend = ggml_backend_cpu_init();
        ggml_backend_cpu_set_n_threads(backend, threads);
        ggml_gallocr_t memory = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        ggml_gallocr_alloc_graph(memory, graph);
        std::vector<float> values(columns, 0.5f);
        for (int round = 0; round <= rounds; round++) {
            ggml_backend_tensor_set(x, values.data(), 0, values.size() * sizeof(float));
            const auto began = std::chrono::steady_clock::now();
            ggml_backend_graph_compute(backend, graph);
            const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
            // The first one touches all memory, and does not count.
            if (round > 0 && (best == 0 || seconds < best)) {
                best = seconds;
            }
        }
        ggml_gallocr_free(memory);
        ggml_backend_free(backend);
    }
    ggml_free(context);
    ggml_backend_buffer_free(buffer);
    ggml_free(weights);
    return best;
}

int main(int count_of_arguments, char ** arguments) {
    if (count_of_arguments != 7) {
        fprintf(stderr, "usage: %s TYPE ROWS COLUMNS MIB ROUNDS THREADS\n", arguments[0]);
        return 2;
    }
    const ggml_type type = type_of(arguments[1]);
    const int64_t rows = atoll(arguments[2]), columns = atoll(arguments[3]);
    const size_t bytes = ggml_row_size(type, columns) * rows;
    const int count = std::max<int>(1, (int) ((size_t) atoll(arguments[4]) * 1024 * 1024 / bytes));
    const int rounds = atoi(arguments[5]), threads = atoi(arguments[6]);
    const std::vector<char> distinct = plain(type, std::min<int64_t>(rows, 16), columns);
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    std::vector<ggml_backend_buffer_type_t> all = { ggml_backend_cpu_buffer_type() };
    auto extra = (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts");
    for (ggml_backend_buffer_type_t * one = extra ? extra(device) : nullptr; one && *one; one++) {
        all.push_back(*one);
    }
    printf("{\"matrices\": %d, \"bytes\": %zu, \"seconds\": {", count, bytes * count);
    const char * comma = "";
    for (ggml_backend_buffer_type_t kept : all) {
        const double best = measure(kept, device, type, rows, columns, count, rounds, threads, distinct);
        if (best > 0) {
            printf("%s\"%s\": %.9f", comma, ggml_backend_buft_name(kept), best);
            comma = ", ";
        }
    }
    printf("}}\n");
    return 0;
}
