#!/usr/bin/env bash
# Installs braid into a fresh folder and builds a consumer against it: by find_package, by pkg-config, and with
# add_subdirectory against the source tree; where nvcc is found, a program with kernels as well.
set -euo pipefail
source_dir=$1 build_dir=$2 compiler=$3 nvcc=${4:-}  # the last one where braid has its CUDA backend
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/prefix" >"$work/install.log"

cmake -S "$here" -B "$work/by_cmake" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/by_cmake" >/dev/null
"$work/by_cmake/consumer"

pc=$(dirname "$(find "$work/prefix" -name braid.pc)")
sed -i "s|^prefix=.*|prefix=$work/prefix|" "$pc/braid.pc"
# shellcheck disable=SC2046
PKG_CONFIG_PATH=$pc "$compiler" -std=c++20 "$here/main.cpp" -o "$work/by_pkg_config" \
  $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs braid)
"$work/by_pkg_config"

# The library is static: what it is built on has to be linked as well, both ways.
mkdir "$work/cores"
cat >"$work/cores/main.cpp" <<'CPP'
#include <braid/detail/cores.hpp>
int main() { return braid::detail::cores_of_process().usable >= 1 ? 0 : 1; }
CPP
cat >"$work/cores/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(cores LANGUAGES CXX)
find_package(braid REQUIRED)
add_executable(cores main.cpp)
target_link_libraries(cores PRIVATE braid::braid)
CMAKE
cmake -S "$work/cores" -B "$work/cores/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/cores/build" >/dev/null
"$work/cores/build/cores"
# shellcheck disable=SC2046
"$compiler" -std=c++20 "$work/cores/main.cpp" -o "$work/cores/by_pkg_config" \
  $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs braid)
"$work/cores/by_pkg_config"

# A program with kernels, as docs/guide/cuda.md says; without a GPU it starts and says that there is none.
if [ -n "$nvcc" ]; then
  mkdir "$work/cuda"
  cat >"$work/cuda/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES CXX CUDA)
find_package(braid REQUIRED)
find_package(CUDAToolkit REQUIRED)
add_executable(app "$source_dir/bench/cuda/compile.cu")
target_compile_options(app PRIVATE \$<\$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
target_link_libraries(app PRIVATE braid::braid CUDA::cudart_static)
CMAKE
  cmake -S "$work/cuda" -B "$work/cuda/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CUDA_COMPILER="$nvcc" \
    -DCMAKE_CUDA_ARCHITECTURES=90 -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
  cmake --build "$work/cuda/build" >/dev/null
  if ! said=$("$work/cuda/build/app" 2>&1); then grep -q 'CUDA' <<<"$said"; fi
fi

mkdir "$work/sub"
cat >"$work/sub/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(sub LANGUAGES CXX)
add_subdirectory("$source_dir" braid)
add_executable(sub "$here/main.cpp")
target_link_libraries(sub PRIVATE braid::braid)
CMAKE
cmake -S "$work/sub" -B "$work/sub/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" >/dev/null
cmake --build "$work/sub/build" >/dev/null
"$work/sub/build/sub"
