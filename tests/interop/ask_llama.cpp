// Asks llama.cpp what a GGUF file means: token ids, texts of ids, embeddings, logits.
//
//     ask_llama ids FILE           token ids of each text, two lines for it: with and without what is put around every text
//     ask_llama embeddings FILE    the embedding of each text, pooled as the file says
//     ask_llama logits FILE        for each line of token ids the logits behind every token
//
// A line of the input is a text in hexadecimal digits (nothing that a text says can break it), for logits a line of ids.
// A line of the output is numbers with spaces between, floats with all their digits.

#include "llama.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
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

static void only_errors(ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: ask_llama ids|embeddings|logits FILE\n");
        return 2;
    }
    const std::string what = argv[1];
    llama_log_set(only_errors, nullptr);
    llama_backend_init();
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
