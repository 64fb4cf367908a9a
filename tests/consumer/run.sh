#!/usr/bin/env bash
# run.sh BUILD_DIR
#
# Proves that Perdura can be used from outside: installs BUILD_DIR to a temporary prefix, which is
# not the one it was configured for, then builds and runs a program through each of find_package,
# also of a project in C alone, pkg-config and (in a whole campaign) add_subdirectory; the documents'
# example of a test; a job of MPI; one inside a shared object that is loaded while a program runs;
# one with transactions that GCC compiles; one under Valgrind; and another one on the heap of the
# preload library; the program of README.md and the examples, as the READMEs say. A guest's host is
# configured, and must be as before. A whole campaign also builds, installs and uses the shared
# library.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d "$build/consumer.XXXXXX")
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" >"$work/install.log"
pc=$(find "$prefix" -name perdura.pc)

build_with_cmake() {  # NAME [OPTION…]
  local name=$1
  shift
  cmake -S "$here/$name" -B "$work/$name" "$@"
  cmake --build "$work/$name" --parallel "$(nproc)"
}

echo "== find_package"
build_with_cmake find_package -DCMAKE_PREFIX_PATH="$prefix"
"$work/find_package/program" "$work/find_package.pd"

# Not beside a shared library.
if [[ -e $prefix/include/perdura/testing.hpp ]]; then
  echo "== testing"
  mkdir "$work/example"
  awk '/^```cpp$/ {inside = 1; next} /^```$/ && inside {exit} inside' \
    "$here/../../docs/testing-your-code.md" >"$work/example/example.inc"
  build_with_cmake testing -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLE_DIR="$work/example"
  "$work/testing/program"
fi

if [[ -e $prefix/include/perdura/mpi.hpp ]]; then
  echo "== MPI"
  build_with_cmake mpi -DCMAKE_PREFIX_PATH="$prefix"
  (cd "$work/mpi" && ./program 40 2)  # a job of one
fi

echo "== pkg-config"
mkdir "$work/pkg_config"
export PKG_CONFIG_PATH=${pc%/*}
read -ra flags < <(pkg-config --static --cflags --libs perdura)
"${CC:-cc}" -std=c11 "$here/pkg_config/program.c" "${flags[@]}" -o "$work/pkg_config/program"
LD_LIBRARY_PATH=${pc%/pkgconfig/*} "$work/pkg_config/program" "$work/pkg_config.pd"

echo "== READMEs"
# block FILE LANGUAGE WORD: the code of the only such block of a document that has the word.
block() {
  awk -v begin="^\`\`\`$2\$" -v word="$3" '
    /^```$/ { if (inside && index(text, word)) { printf "%s", text; ++found }; inside = 0 }
    inside { text = text $0 "\n" }
    $0 ~ begin { inside = 1; text = "" }
    END { exit found == 1 ? 0 : 1 }' "$1"
}
export LD_LIBRARY_PATH=${pc%/pkgconfig/*}
mkdir "$work/readme"
(
  cd "$work/readme"
  block "$here/../../README.md" cpp "int main" >visits.cc
  block "$here/../../README.md" sh pkg-config | grep '^c++' >build.sh
  sh -e build.sh
  for visit in 1 2 3; do
    said=$(./visits)
    if [[ $said != "visit $visit" ]]; then
      echo "README.md's program says '$said' in its run $visit"
      exit 1
    fi
  done
  cp -r "$here/../../examples" "$here/../../apps" .
  cd examples
  block README.md sh pkg-config >build.sh
  sh -e build.sh
  expect() {  # WANTED SAID
    if [[ $2 != "$1" ]]; then
      echo "an example says '$2' where '$1' is right"
      exit 1
    fi
  }
  printf 'link a b\nlink b c\n' | bin/graph >/dev/null
  expect "a b c ok " "$(echo path a c | bin/graph | tr '\n' ' ')"
  echo "sell 10 5" | bin/orders >/dev/null
  expect "bought 2 at 10 ok " "$(echo "buy 11 2" | bin/orders | tr '\n' ' ')"
  bin/counter >/dev/null
  expect "run 2, durable as version 3" "$(bin/counter)"
  bin/inventory >/dev/null
  expect "bolt    20 in stock, 2 deliveries" "$(bin/inventory | sed -n 1p)"
  bin/kv --help >/dev/null
)
unset LD_LIBRARY_PATH

echo "== C alone"
build_with_cmake c_only -DCMAKE_PREFIX_PATH="$prefix"
"$work/c_only/program" "$work/c_only.pd"

echo "== shared object"
build_with_cmake plugin -DCMAKE_PREFIX_PATH="$prefix"
"$work/plugin/linked" "$work/linked.pd"
"$work/plugin/loads" "$work/loads.pd"
read -ra flags < <(pkg-config --static --cflags --libs perdura)
"${CXX:-c++}" -std=c++20 -shared -fPIC "$here/plugin/plugin.cc" "${flags[@]}" -o "$work/plugin.so"
"${CC:-cc}" -DPLUGIN="\"$work/plugin.so\"" "$here/plugin/host.c" -ldl -o "$work/loads_pc"
LD_LIBRARY_PATH=${pc%/pkgconfig/*} "$work/loads_pc" "$work/loads_pc.pd"

echo "== Valgrind"
if command -v valgrind >/dev/null; then
  build_with_cmake valgrind -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug
  suppressions=$(find "$prefix/share" -path '*/perdura/valgrind.supp')
  # No figure of Valgrind's own: what it does not know of it says once.
  valgrind -q --error-exitcode=9 --leak-check=full --suppressions="$suppressions" \
    "$work/valgrind/program" "$work/valgrind.pd"
  code=0
  valgrind -q --error-exitcode=9 --suppressions="$suppressions" \
    "$work/valgrind/program" "$work/valgrind_wrong.pd" wrong 2>"$work/valgrind.log" || code=$?
  if ((code != 9)) || ! grep -q "main (program.cc" "$work/valgrind.log"; then
    echo "an error of the program's own is suppressed as well"
    exit 1
  fi
else
  echo "skipped: there is no valgrind"
fi

# Only GCC knows the flag.
if "${CC:-cc}" -fgnu-tm -x c -c /dev/null -o /dev/null 2>/dev/null; then
  echo "== itm"
  read -ra flags < <(pkg-config --static --cflags --libs perdura-itm)
  "${CC:-cc}" -std=c11 -O2 "$here/itm/program.c" "${flags[@]}" -o "$work/itm_program"
  if readelf -d "$work/itm_program" | grep -F '[libitm.so'; then
    echo "GCC's own libitm is linked"
    exit 1
  fi
  LD_LIBRARY_PATH=${pc%/pkgconfig/*} "$work/itm_program" "$work/itm.pd"
  build_with_cmake itm -DCMAKE_PREFIX_PATH="$prefix"
  "$work/itm/program" "$work/itm.pd"
fi

echo "== preload"
said=$(LD_PRELOAD=$(find "$prefix" -name libperdura_malloc.so) \
  PERDURA_STATISTICS=$work/preload.json /bin/echo "a program on a durable heap" 2>&1)
echo "$said"
[[ $said == *userfault* ]] || test -s "$work/preload.json" # a sandbox may refuse userfault

echo "== FetchContent"
cmake -S "$here/fetch_content" -B "$work/fetch_content"
code=0
cmake -S "$here/c_host" -B "$work/c_host" 2>"$work/c_host.log" || code=$?
if ((code == 0)) || ! grep -q "enable_language(CXX)" "$work/c_host.log"; then
  echo "a project in C alone is not told what a guest in C++ needs"
  cat "$work/c_host.log"
  exit 1
fi

# As others compile it: without our flags, and several sources at once, as our own builds do not.
if [[ ${PERDURA_CAMPAIGNS-} == whole ]]; then
  echo "== add_subdirectory"
  launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  build_with_cmake add_subdirectory -DCMAKE_UNITY_BUILD=ON "${launcher[@]}"
  "$work/add_subdirectory/program" "$work/add_subdirectory.pd"

  echo "== shared library"
  cmake -S "$here/../.." -B "$work/shared" -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=Release \
    -DPERDURA_UNITY=ON -DPERDURA_BUILD_TESTS=OFF -DPERDURA_BUILD_TOOLS=ON -DPERDURA_BUILD_APPS=OFF \
    -DPERDURA_BUILD_EXAMPLES=ON
  cmake --build "$work/shared" --parallel "$(nproc)"
  cmake --install "$work/shared" --prefix "$work/shared_prefix" >"$work/shared_install.log"
  library=$(find "$work/shared_prefix" -name libperdura.so)
  soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  test -e "${library%/*}/$soname"
  cmake -S "$here/find_package" -B "$work/shared_use" -DCMAKE_PREFIX_PATH="$work/shared_prefix"
  cmake --build "$work/shared_use"
  "$here/exports.sh" "$library" "$work/shared_use/program"
  cmake -S "$here/c_only" -B "$work/shared_c" -DCMAKE_PREFIX_PATH="$work/shared_prefix"
  cmake --build "$work/shared_c"
  "$work/shared_c/program" "$work/shared_c.pd"
  "$work/shared_prefix/bin/perdura" check "$work/shared_c.pd"
  read -ra flags < <(PKG_CONFIG_PATH=${library%/*}/pkgconfig pkg-config --cflags --libs perdura)
  "${CC:-cc}" -std=c11 "$here/pkg_config/program.c" "${flags[@]}" -o "$work/shared_pc"
  LD_LIBRARY_PATH=${library%/*} "$work/shared_pc" "$work/shared_pc.pd"
  "${CXX:-c++}" -std=c++20 -shared -fPIC "$here/plugin/plugin.cc" "${flags[@]}" \
    -o "$work/plugin.so"
  LD_LIBRARY_PATH=${library%/*} "$work/loads_pc" "$work/loads_shared.pd"
fi
