// Opens a GGUF file with llama.cpp's own loader, weights included, and prints what the loader holds, as JSON.
//
//     load_gguf FILE...             one line of JSON for each file that was loaded; exit code 1 at the first that was refused
//     load_gguf --rewrite IN OUT    writes what was loaded, with ggml's own writer
//
// Texts and values are printed as hexadecimal digits: nothing that a file says can break the JSON, and floats are exact.

#include "ggml.h"
#include "gguf.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

static void print_hex(const void * data, size_t len) {
    putchar('"');
    for (size_t i = 0; i < len; i++) {
        printf("%02x", static_cast<const unsigned char *>(data)[i]);
    }
    putchar('"');
}

// CRC-32 as zlib has it: the weights need not be printed to be compared.
static uint32_t crc32_of(const void * data, size_t len) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < len; i++) {
        crc ^= static_cast<const unsigned char *>(data)[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

static size_t width_of(enum gguf_type type) {
    switch (type) {
        case GGUF_TYPE_UINT8: case GGUF_TYPE_INT8: case GGUF_TYPE_BOOL: return 1;
        case GGUF_TYPE_UINT16: case GGUF_TYPE_INT16: return 2;
        case GGUF_TYPE_UINT32: case GGUF_TYPE_INT32: case GGUF_TYPE_FLOAT32: return 4;
        case GGUF_TYPE_UINT64: case GGUF_TYPE_INT64: case GGUF_TYPE_FLOAT64: return 8;
        default: return 0;
    }
}

static void print_key(const struct gguf_context * gguf, int64_t i) {
    const char * key = gguf_get_key(gguf, i);
    const enum gguf_type type = gguf_get_kv_type(gguf, i);
    printf("{\"key\":");
    print_hex(key, strlen(key));
    printf(",\"type\":%d,", type);
    if (type == GGUF_TYPE_STRING) {
        const char * text = gguf_get_val_str(gguf, i);
        printf("\"value\":");
        print_hex(text, strlen(text));
    } else if (type == GGUF_TYPE_ARRAY) {
        const enum gguf_type item = gguf_get_arr_type(gguf, i);
        const size_t count = gguf_get_arr_n(gguf, i);
        printf("\"of\":%d,\"count\":%zu,", item, count);
        if (item == GGUF_TYPE_STRING) {
            printf("\"texts\":[");
            for (size_t n = 0; n < count; n++) {
                const char * text = gguf_get_arr_str(gguf, i, n);
                printf(n ? "," : "");
                print_hex(text, strlen(text));
            }
            printf("]");
        } else {
            printf("\"value\":");
            print_hex(gguf_get_arr_data(gguf, i), count * width_of(item));
        }
    } else {
        printf("\"value\":");
        print_hex(gguf_get_val_data(gguf, i), width_of(type));
    }
    printf("}");
}

static void print_tensor(const struct gguf_context * gguf, struct ggml_context * weights, int64_t i) {
    const char * name = gguf_get_tensor_name(gguf, i);
    const struct ggml_tensor * tensor = ggml_get_tensor(weights, name);
    printf("{\"name\":");
    print_hex(name, strlen(name));
    printf(",\"type\":%d,\"offset\":%zu,\"ne\":[", gguf_get_tensor_type(gguf, i), gguf_get_tensor_offset(gguf, i));
    for (int dim = 0; dim < GGML_MAX_DIMS; dim++) {
        printf("%s%" PRId64, dim ? "," : "", tensor->ne[dim]);
    }
    printf("],\"bytes\":%zu,\"crc32\":%" PRIu32 "}", ggml_nbytes(tensor), crc32_of(tensor->data, ggml_nbytes(tensor)));
}

static bool load(const char * path) {
    struct ggml_context * weights = nullptr;
    struct gguf_init_params params = { /*no_alloc =*/ false, /*ctx =*/ &weights };
    struct gguf_context * gguf = gguf_init_from_file(path, params);
    if (gguf == nullptr) {
        return false;
    }
    printf("{\"version\":%u,\"alignment\":%zu,\"keys\":[", gguf_get_version(gguf), gguf_get_alignment(gguf));
    for (int64_t i = 0; i < gguf_get_n_kv(gguf); i++) {
        printf(i ? "," : "");
        print_key(gguf, i);
    }
    printf("],\"tensors\":[");
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
        printf(i ? "," : "");
        print_tensor(gguf, weights, i);
    }
    printf("]}\n");
    gguf_free(gguf);
    ggml_free(weights);
    return true;
}

static bool rewrite(const char * in, const char * out) {
    struct ggml_context * weights = nullptr;
    struct gguf_init_params params = { /*no_alloc =*/ false, /*ctx =*/ &weights };
    struct gguf_context * read = gguf_init_from_file(in, params);
    if (read == nullptr) {
        return false;
    }
    struct gguf_context * written = gguf_init_empty();
    gguf_set_kv(written, read);
    for (int64_t i = 0; i < gguf_get_n_tensors(read); i++) {
        gguf_add_tensor(written, ggml_get_tensor(weights, gguf_get_tensor_name(read, i)));
    }
    const bool done = gguf_write_to_file(written, out, /*only_meta =*/ false);
    gguf_free(written);
    gguf_free(read);
    ggml_free(weights);
    return done;
}

int main(int argc, char ** argv) {
    if (argc == 4 && strcmp(argv[1], "--rewrite") == 0) {
        return rewrite(argv[2], argv[3]) ? 0 : 1;
    }
    for (int i = 1; i < argc; i++) {
        if (!load(argv[i])) {
            return 1;
        }
    }
    return 0;
}
