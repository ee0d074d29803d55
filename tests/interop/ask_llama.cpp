// Asks llama.cpp what a GGUF file means: token ids, texts of ids, embeddings, logits; and has it quantize one.
//
//     ask_llama ids FILE           token ids of each text, two lines for it: with and without what is put around every text
//     ask_llama embeddings FILE    the embedding of each text, pooled as the file says
//     ask_llama logits FILE        for each line of token ids the logits behind every token
//     ask_llama quantize FILE      for each line `FTYPE OUT MATRIX` what llama-quantize makes of it: the file OUT, by the
//                                  importance in the old form in the file MATRIX (`-` for none); `done`, or why not
//
// A line of the input is a text in hexadecimal digits (nothing that a text says can break it), for logits a line of ids.
// A line of the output is numbers with spaces between, floats with all their digits.

#include "llama.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

static std::string from_hex(const std::string & line) {
    std::string text;
    for (size_t i = 0; i + 1 < line.size(); i += 2) {
        text.push_back(static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16)));
    }
    return text;
}

static std::vector<llama_token> ids_of(const llama_vocab * vocab, const std::string & text, bool around) {
    // Texts of special tokens are those tokens, as in the `tokenizers` library.
    std::vector<llama_token> ids(text.size() + 16);
    int n = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), ids.data(), static_cast<int>(ids.size()), around, true);
    if (n < 0) {
        ids.resize(static_cast<size_t>(-n));
        n = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), ids.data(), static_cast<int>(ids.size()), around, true);
    }
    ids.resize(static_cast<size_t>(n < 0 ? 0 : n));
    return ids;
}

static void print_ids(const std::vector<llama_token> & ids) {
    for (size_t i = 0; i < ids.size(); i++) {
        printf(i ? " %d" : "%d", ids[i]);
    }
    printf("\n");
}

static void print_floats(const float * floats, int n, const char * before) {
    for (int i = 0; i < n; i++) {
        printf("%s%.9g", i ? " " : before, static_cast<double>(floats[i]));
    }
}

// One text at a time, each in a context of its own.
static bool run(llama_model * model, std::vector<llama_token> ids, bool embeddings) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = 512;
    params.n_threads = params.n_threads_batch = 1;
    params.embeddings = embeddings;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context * context = llama_init_from_model(model, params);
    if (context == nullptr || ids.empty() || ids.size() > 512) {
        return false;
    }
    const llama_vocab * vocab = llama_model_get_vocab(model);
    llama_batch batch = llama_batch_init(512, 0, 1);
    for (size_t i = 0; i < ids.size(); i++) {
        batch.token[i] = ids[i];
        batch.pos[i] = static_cast<llama_pos>(i);
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    batch.n_tokens = static_cast<int32_t>(ids.size());
    const bool only_encodes = llama_model_has_encoder(model) || llama_get_memory(context) == nullptr;
    bool done = (only_encodes ? llama_encode(context, batch) : llama_decode(context, batch)) == 0;
    if (done && embeddings) {
        const float * pooled = llama_get_embeddings_seq(context, 0);
        done = pooled != nullptr;
        if (done) {
            print_floats(pooled, llama_model_n_embd(model), "");
            printf("\n");
        }
    } else if (done) {
        for (size_t i = 0; i < ids.size(); i++) {
            print_floats(llama_get_logits_ith(context, static_cast<int32_t>(i)), llama_vocab_n_tokens(vocab), i ? " " : "");
        }
        printf("\n");
    }
    llama_batch_free(batch);
    llama_free(context);
    return done;
}

// An importance matrix in the old form: the number of entries, each a name, a number of calls and its values.
static std::vector<std::pair<std::string, std::vector<float>>> read_matrix(const std::string & path) {
    std::vector<std::pair<std::string, std::vector<float>>> entries;
    std::ifstream file(path, std::ios::binary);
    const auto number = [&file] {
        int32_t n = 0;
        file.read(reinterpret_cast<char *>(&n), sizeof(n));
        return n;
    };
    for (int32_t left = number(); left > 0 && file; left--) {
        std::string name(static_cast<size_t>(number()), ' ');
        file.read(name.data(), static_cast<std::streamsize>(name.size()));
        const int32_t calls = number();
        std::vector<float> values(static_cast<size_t>(number()));
        file.read(reinterpret_cast<char *>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
        if (calls > 0) {
            for (float & value : values) {
                value /= static_cast<float>(calls);
            }
        }
        entries.emplace_back(name, values);
    }
    return entries;
}

static std::string last_error;

static void keep_errors(ggml_log_level, const char * text, void *) {
    last_error += text;
}

static void quantize(const char * file, const std::string & line) {
    std::istringstream words(line);
    int ftype = 0;
    std::string out, matrix;
    words >> ftype >> out >> matrix;
    std::vector<std::pair<std::string, std::vector<float>>> entries;
    std::vector<llama_model_imatrix_data> data;
    if (matrix != "-") {
        entries = read_matrix(matrix);
        for (const auto & [name, values] : entries) {
            data.push_back({ name.c_str(), values.data(), values.size() });
        }
        data.push_back({ nullptr, nullptr, 0 });
    }
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype = static_cast<llama_ftype>(ftype);
    params.nthread = 2;
    params.imatrix = matrix != "-" ? data.data() : nullptr;
    last_error.clear();
    if (llama_model_quantize(file, out.c_str(), &params) == 0) {
        printf("done\n");
    } else {
        const size_t at = last_error.rfind("failed to quantize: ");
        const std::string why = at == std::string::npos ? last_error : last_error.substr(at + 20);
        printf("! %s\n", why.substr(0, why.find('\n')).c_str());
    }
    fflush(stdout);
}

static void only_errors(ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: ask_llama ids|embeddings|logits|quantize FILE\n");
        return 2;
    }
    const std::string what = argv[1];
    llama_log_set(only_errors, nullptr);
    llama_backend_init();
    if (what == "quantize") {
        llama_log_set(keep_errors, nullptr);
        for (std::string line; std::getline(std::cin, line);) {
            quantize(argv[2], line);
        }
        return 0;
    }
    llama_model_params params = llama_model_default_params();
    params.vocab_only = what == "ids";
    llama_model * model = llama_model_load_from_file(argv[2], params);
    if (model == nullptr) {
        return 1;
    }
    const llama_vocab * vocab = llama_model_get_vocab(model);
    std::string line;
    while (std::getline(std::cin, line)) {
        if (what == "ids") {
            print_ids(ids_of(vocab, from_hex(line), true));
            print_ids(ids_of(vocab, from_hex(line), false));
        } else if (what == "embeddings") {
            if (!run(model, ids_of(vocab, from_hex(line), true), true)) {
                return 1;
            }
        } else {
            std::istringstream numbers(line);
            std::vector<llama_token> ids;
            for (llama_token id; numbers >> id;) {
                ids.push_back(id);
            }
            if (!run(model, ids, false)) {
                return 1;
            }
        }
    }
    llama_model_free(model);
    return 0;
}
