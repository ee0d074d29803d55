#!/usr/bin/env bash
# Makes the golden manifests again: generate.sh [--check] [NAME ...]. With --check, compares and writes nothing.
#
# APR_INTEROP_CACHE  where the judges are kept (default: target/interop of this repository)
# APR_GOLDEN_PYTHON  an interpreter that has the packages already
# APR_GOLDEN_LLAMA   llama.cpp's sources as the package below carries them (vendor/llama.cpp)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${APR_INTEROP_CACHE:-$(cd "$here/../.." && pwd)/target/interop}
mkdir -p "$cache"
. "$here/../interop/judges.sh"

transformers_version=4.57.6   # what the converter asks for: it takes what this fills into a config
tokenizers_version=0.22.2
sentencepiece_version=0.2.3
golden_numpy_version=2.2.6

python=${APR_GOLDEN_PYTHON:-$(made_python golden "torch==$torch_version" "transformers==$transformers_version" \
    "tokenizers==$tokenizers_version" "sentencepiece==$sentencepiece_version" "numpy==$golden_numpy_version" \
    "safetensors==$safetensors_version" protobuf==7.36.2 pyyaml==6.0.3 requests==2.34.2)}
llama=${APR_GOLDEN_LLAMA:-$(llama_converter)}
exec "$python" "$here/generate.py" "$llama" "$@"
