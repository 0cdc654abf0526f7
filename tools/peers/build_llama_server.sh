#!/usr/bin/env bash
# Build llama-server from the llama.cpp sources that llama-cpp-python's source distribution carries,
# so that `python -m benchmarks peers` compares with the same llama.cpp that speclsp runs on.  Prints the
# program's path.
#
#   tools/peers/build_llama_server.sh                  the version that requirements.lock names
#   tools/peers/build_llama_server.sh FILE.tar.gz      a source distribution that is there already
#
# CMAKE_ARGS="-DGGML_CUDA=on"   how llama.cpp is compiled, as for llama-cpp-python itself
# JOBS=4                        how many files are compiled at once; all cores by default
# SPECLSP_PEERS=FOLDER          where it is built, 1 GB; .peers beside the sources by default
# PYTHON=python3.12             whose pip fetches; .venv's by default, else python3
#
# It takes about fifteen minutes on two cores.  What is built already is not built again, unless the
# version or CMAKE_ARGS changed, which begins anew; a build that was interrupted goes on where it was.
#
# Exit status: 0 the path was printed; 2 a tool is missing; 69 the source cannot be fetched;
# 1 anything else.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${SPECLSP_PEERS:-$root/.peers}
tarball=${1:-}
lock=$root/requirements.lock
server=$folder/build/bin/llama-server
unreachable=69
missing=2

say() { echo "build_llama_server: $*" >&2; }

fail_with_log() {
    tail -15 "$1" >&2
    say "$2 The whole log is $1."
    exit "${3:-1}"
}

version=$(sed -n 's/^llama-cpp-python==\([^ ]*\).*/\1/p' "$lock")
[ -n "$version" ] || { say "$lock names no llama-cpp-python."; exit 1; }
if [ -n "$tarball" ]; then
    [ -f "$tarball" ] || { say "there is no $tarball."; exit 1; }
    source_of=$(cd "$(dirname "$tarball")" && pwd)/$(basename "$tarball")
else
    source_of="llama-cpp-python $version"
fi
wanted="$source_of, CMAKE_ARGS=${CMAKE_ARGS:-}"
if [ -x "$server" ] && [ "$(cat "$folder/built" 2>/dev/null)" = "$wanted" ]; then
    echo "$server"
    exit 0
fi

python=${PYTHON:-$root/.venv/bin/python}
command -v "$python" >/dev/null || python=${PYTHON:-python3}
for tool in "$python" cmake tar; do
    command -v "$tool" >/dev/null || {
        say "$tool is missing. Install it with your system's packages; CMake is also had by: pip install cmake"
        exit "$missing"
    }
done
# The compiler, and what CMAKE_ARGS needs.
"$python" "$root/speclsp/install_llama_cpp.py" --check || exit "$missing"

mkdir -p "$folder"
if [ -z "$tarball" ]; then
    say "fetching the sources of llama-cpp-python $version"
    # The lock's lines of this package alone: pip checks what it fetches against their sums.
    sed -n '/^llama-cpp-python==/,/^[^ ]/{/^llama-cpp-python==/p;/^ .*--hash/p;}' "$lock" |
        sed '$ s/ *\\$//' >"$folder/requirement.txt"
    "$python" -m pip download --disable-pip-version-check --no-input --no-deps \
        --no-binary llama-cpp-python --dest "$folder/download" -r "$folder/requirement.txt" \
        >"$folder/download.log" 2>&1 ||
        fail_with_log "$folder/download.log" "the sources cannot be fetched." "$unreachable"
    tarball=$(find "$folder/download" -name "llama_cpp_python-$version.tar.gz" | head -1)
    [ -n "$tarball" ] || { say "pip fetched no source distribution of $version."; exit "$unreachable"; }
fi

if [ "$(cat "$folder/unpacked" 2>/dev/null)" != "$source_of" ]; then
    say "unpacking $tarball"
    rm -rf "$folder/source" "$folder/build" "$folder/built"
    mkdir "$folder/source"
    tar -xf "$tarball" -C "$folder/source" --strip-components 1 ||
        { say "$tarball cannot be unpacked."; exit 1; }
    echo "$source_of" >"$folder/unpacked"
fi
llama_cpp=$folder/source/vendor/llama.cpp
[ -f "$llama_cpp/CMakeLists.txt" ] || { say "$tarball has no vendor/llama.cpp."; exit 1; }

# CMake's cache keeps flags that are given no more.
if [ "$(cat "$folder/configured" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$folder/build" "$folder/built"
    echo "$wanted" >"$folder/configured"
fi

generator=()
# A build folder keeps the generator that it was made with.
if [ ! -f "$folder/build/CMakeCache.txt" ] && command -v ninja >/dev/null; then
    generator=(-G Ninja)
fi
say "configuring; the log is $folder/build.log"
# The page that it serves, and encryption, are of no use here and need what may not be there.
# CMAKE_ARGS is a list of words, as for llama-cpp-python.
# shellcheck disable=SC2086
cmake ${generator[@]+"${generator[@]}"} -S "$llama_cpp" -B "$folder/build" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_BUILD_NUMBER=1 ${CMAKE_ARGS:-} >"$folder/build.log" 2>&1 ||
    fail_with_log "$folder/build.log" "CMake refuses."
say "compiling, about fifteen minutes on two cores"
cmake --build "$folder/build" --config Release --target llama-server \
    --parallel "${JOBS:-$(getconf _NPROCESSORS_ONLN)}" >>"$folder/build.log" 2>&1 ||
    fail_with_log "$folder/build.log" "llama-server cannot be compiled."
[ -x "$server" ] || fail_with_log "$folder/build.log" "the build made no $server."
echo "$wanted" >"$folder/built"
echo "$server"
