#!/usr/bin/env bash
# Measure speclsp on this machine's GPU, into gpu-report/gpu-report.md and gpu-report.json
# (`make gpu-report`).  An interrupted report goes on where it was.
#
#   tools/gpu_report.sh [--quick] [--size 1.5b] …   options of `python -m benchmarks gpu-report`
#   tools/gpu_report.sh --pack FILE.tar.xz [MODEL.gguf …]
#                                                   pack what a machine without a network needs
#
# llama.cpp is compiled once for what is found (CUDA, ROCm, Vulkan, Metal): its libraries serve both
# speclsp and the llama-server that it is compared with.  Where no GPU's tools are found, or where they
# fail, the installed build is measured, without llama-server.
#
# A packed copy is unpacked and run on the other machine, which needs Python, CMake, a C++ compiler
# and the GPU's tools, and no network:
#
#   tar xf FILE.tar.xz && speclsp/tools/gpu_report.sh --quick
#
# It measures the models that were packed, or, where none were, made ones.
#
# CMAKE_ARGS="-DGGML_CUDA=on"    how llama.cpp is compiled; by what is found where it is not set
# LLAMA_SERVER=FILE              a llama-server that is there already, with its libraries beside it:
#                                nothing is compiled
# GPU_REPORT=FOLDER              where the report is written; gpu-report by default
# PYTHON=python3.12              .venv's by default, else python3
# PYTHON_VERSION=3.12            whose packages are packed; by default this Python's
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
carried=$root/carried
report=${GPU_REPORT:-$root/gpu-report}
python=${PYTHON:-$root/.venv/bin/python}
command -v "$python" >/dev/null || python=${PYTHON:-python3}
# What the lossless tests, the models and llama-cpp-python need beside speclsp's own.
more=(pytest pytest-asyncio pytest-timeout hypothesis gguf typing-extensions diskcache jinja2)
# Of llama.cpp's sources, what llama-server and the libraries are compiled from.
sources=(CMakeLists.txt cmake ggml src include common vendor licenses LICENSE
    tools/CMakeLists.txt tools/server tools/mtmd)

say() { echo "gpu_report: $*" >&2; }

pack() {
    local file=$1 folder site version wheel
    shift
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' RETURN
    site=$folder/speclsp/carried/site
    mkdir -p "$site"
    version=$(sed -n 's/^llama-cpp-python==\([^ ]*\).*/\1/p' "$root/requirements.lock")
    (cd "$root" && git archive HEAD speclsp benchmarks fixtures tests tools pyproject.toml README.md \
        LICENSE Makefile requirements.lock) | tar -x -C "$folder/speclsp"
    grep -E '^[A-Za-z0-9_.-]+==' "$root/requirements-dev.lock" | sed 's/ *\\$//' >"$folder/locked"
    "$python" - "$root/pyproject.toml" >"$folder/wanted" <<'PYTHON'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    print(*(one for one in tomllib.load(file)["project"]["dependencies"] if "llama" not in one), sep="\n")
PYTHON
    say "fetching packages${PYTHON_VERSION:+ for Python $PYTHON_VERSION}"
    "$python" -m pip download --quiet --disable-pip-version-check --only-binary :all: \
        ${PYTHON_VERSION:+--python-version "$PYTHON_VERSION"} \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform any \
        --dest "$folder/wheels" -c "$folder/locked" -r "$folder/wanted" "${more[@]}"
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
        --wheel-dir "$folder/wheels" "$root"
    for wheel in "$folder"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$site"; done
    # The copy's own modules are beside it, and nothing is downloaded there.
    rm -rf "$site/speclsp" "$site"/hf_xet*
    say "fetching the sources of llama-cpp-python $version"
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps \
        --no-binary llama-cpp-python --dest "$folder" "llama-cpp-python==$version"
    tar -x -C "$folder" -f "$folder/llama_cpp_python-$version.tar.gz"
    cp -R "$folder/llama_cpp_python-$version/llama_cpp" "$site/"
    mkdir "$site/llama_cpp_python-$version.dist-info"
    cp "$folder/llama_cpp_python-$version/PKG-INFO" "$site/llama_cpp_python-$version.dist-info/METADATA"
    tar -c -C "$folder" -f "$folder/speclsp/carried/llama_cpp_python-$version.tar" \
        "${sources[@]/#/llama_cpp_python-$version/vendor/llama.cpp/}"
    mkdir "$folder/speclsp/carried/models"
    [ $# = 0 ] || ln -s "$@" "$folder/speclsp/carried/models/"
    # Weights hardly get smaller: the least effort, on all cores.
    tar -chf - -C "$folder" speclsp | xz -T0 "-$([ $# = 0 ] && echo 6 || echo 0)" >"$file"
    say "$file has $(du -k "$file" | cut -f1) KiB"
}

# Which flags llama.cpp is compiled with for this machine's GPU; nothing where none is found.
flags() {
    if [ -n "${CMAKE_ARGS:-}" ]; then
        echo "$CMAKE_ARGS"
    elif [ "$(uname)" = Darwin ]; then
        echo "-DGGML_METAL=on"
    elif command -v nvcc >/dev/null && nvidia-smi >/dev/null 2>&1; then
        # Its own architectures alone: all of them take six to ten times as long.
        echo "-DGGML_CUDA=on -DCMAKE_CUDA_ARCHITECTURES=$(nvidia-smi \
            --query-gpu=compute_cap --format=csv,noheader | tr -d . | sort -u | paste -s -d ';' -)"
    elif command -v hipconfig >/dev/null; then
        echo "-DGGML_HIP=on"
    elif command -v glslc >/dev/null; then
        echo "-DGGML_VULKAN=on"
    fi
}

if [ "${1:-}" = --pack ]; then
    : "${2:?--pack needs the FILE to write}"
    shift
    paths=()
    for path in "$@"; do paths+=("$(cd "$(dirname "$path")" && pwd)/$(basename "$path")"); done
    pack "${paths[@]}"
    exit
fi

sources_here=
if [ -d "$carried" ]; then
    # Packages and sources that came with the copy.
    export PYTHONPATH=$carried/site${PYTHONPATH:+:$PYTHONPATH}
    sources_here=$(find "$carried" -maxdepth 1 -name 'llama_cpp_python-*.tar')
fi
PATH=$PATH:/usr/local/cuda/bin:/opt/rocm/bin
server=${LLAMA_SERVER:-}
if [ -z "$server" ]; then
    found=$(flags)
    if [ -n "$found" ] || [ -n "$sources_here" ]; then
        say "compiling llama.cpp with: ${found:-nothing for a GPU, since no tools for one were found}"
        server=$(CMAKE_ARGS="$found -DBUILD_SHARED_LIBS=ON" SPECLSP_PEERS=$root/.peers/gpu \
            PYTHON=$python "$root/tools/peers/build_llama_server.sh" ${sources_here:+"$sources_here"}) ||
            say "it failed: the installed build is measured"
    else
        say "no tools for a GPU were found (nvcc, hipconfig, glslc): the installed build is measured"
    fi
fi
if [ -n "$server" ]; then
    # llama-cpp-python loads its libraries from here instead of its own.
    LLAMA_CPP_LIB_PATH=$(cd "$(dirname "$server")" && pwd)
    export LLAMA_CPP_LIB_PATH
fi
cd "$root"
for model in "$carried"/models/*.gguf; do
    [ ! -e "$model" ] || set -- --model "$model" "$@"
done
exec "$python" -m benchmarks gpu-report "$report" ${server:+--llama-server "$server"} "$@"
