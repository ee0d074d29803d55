// Asks llama.cpp which type llama-quantize would write each tensor of a GGUF file in; nothing is quantized.
//
//     quantize_types FILE < CASES
//
// A line of CASES: FTYPE IMATRIX PURE OUTPUT EMBEDDING [PATTERN=TYPE ...], words between spaces. FTYPE is a number of
// `llama_ftype`; IMATRIX and PURE are 0 or 1; OUTPUT and EMBEDDING are types, or `-`. For each line come a line
// `TENSOR TYPE` for every tensor in llama-quantize's order, and one with `.`, or with `. needs` if it says that an
// importance matrix is needed, or `! MESSAGE` if it refuses.

#include "llama.h"
#include "ggml.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

static std::string heard;

static void hear(ggml_log_level, const char * text, void *) {
    heard += text;
}

static ggml_type type_of(std::string name) {
    for (int number = 0; number < GGML_TYPE_COUNT; number++) {
        const char * found = ggml_type_name(static_cast<ggml_type>(number));
        if (found != nullptr && name.size() == strlen(found) &&
            std::equal(name.begin(), name.end(), found, [](char a, char b) { return tolower(a) == tolower(b); })) {
            return static_cast<ggml_type>(number);
        }
    }
    fprintf(stderr, "quantize_types: no type %s\n", name.c_str());
    exit(2);
}

// A tensor's messages are one text: "[   1/  12] NAME - [shape], type = f32, " and either "size = 1.0 MiB", where it
// stays as it is, or "size = 1.0 MiB -> 0.5 MiB (TYPE)".
static void print_types() {
    size_t at = 0;
    while ((at = heard.find("] ", at)) != std::string::npos) {
        const size_t bracket = heard.rfind('[', at);
        const size_t end_of_name = heard.find(' ', at + 2);
        const size_t type_at = heard.find(", type = ", at);
        const size_t line_end = heard.find('\n', at);
        const std::string counted = heard.substr(bracket + 1, at - bracket - 1);
        if (counted.find('/') == std::string::npos || type_at == std::string::npos || type_at > line_end) {
            at += 2;
            continue;
        }
        const std::string name = heard.substr(at + 2, end_of_name - at - 2);
        const std::string rest = heard.substr(type_at + 9, line_end - type_at - 9);
        std::string type = rest.substr(rest.find_first_not_of(' '), rest.find(',') - rest.find_first_not_of(' '));
        if (rest.find("->") != std::string::npos) {
            const size_t open = rest.rfind('(');
            type = rest.substr(open + 1, rest.rfind(')') - open - 1);
        }
        printf("%s %s\n", name.c_str(), type.c_str());
        at = line_end;
    }
}

static void ask(const char * file, const std::string & line) {
    std::istringstream words(line);
    int ftype = 0, imatrix = 0, pure = 0;
    std::string output, embedding, word;
    words >> ftype >> imatrix >> pure >> output >> embedding;
    std::vector<std::pair<std::string, ggml_type>> overrides;
    while (words >> word) {
        const size_t equals = word.find('=');
        std::string pattern = word.substr(0, equals);
        // As its command line does.
        std::transform(pattern.begin(), pattern.end(), pattern.begin(), [](unsigned char c) { return tolower(c); });
        overrides.emplace_back(pattern, type_of(word.substr(equals + 1)));
    }
    std::vector<llama_model_tensor_override> patterns;
    for (const auto & [pattern, type] : overrides) {
        patterns.push_back({ pattern.c_str(), type });
    }
    patterns.push_back({ nullptr, GGML_TYPE_COUNT });
    const float one = 1.0f;
    // Which tensors it speaks of makes no difference to the types.
    const llama_model_imatrix_data data[] = { { "some.weight", &one, 1 }, { nullptr, nullptr, 0 } };

    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype = static_cast<llama_ftype>(ftype);
    params.dry_run = true;
    params.nthread = 1;
    params.pure = pure != 0;
    params.allow_requantize = true;
    params.imatrix = imatrix ? data : nullptr;
    params.tt_overrides = overrides.empty() ? nullptr : patterns.data();
    if (output != "-") {
        params.output_tensor_type = type_of(output);
    }
    if (embedding != "-") {
        params.token_embedding_type = type_of(embedding);
    }
    heard.clear();
    if (llama_model_quantize(file, "", &params) != 0) {
        const size_t at = heard.rfind("failed to quantize: ");
        const std::string why = at == std::string::npos ? heard : heard.substr(at + 20);
        printf("! %s\n", why.substr(0, why.find('\n')).c_str());
        return;
    }
    print_types();
    printf(heard.find("will require an imatrix") != std::string::npos ? ". needs\n" : ".\n");
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: quantize_types FILE < CASES\n");
        return 2;
    }
    llama_log_set(hear, nullptr);
    llama_backend_init();
    std::string line;
    while (std::getline(std::cin, line)) {
        ask(argv[1], line);
    }
    return 0;
}
