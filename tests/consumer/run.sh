#!/usr/bin/env bash
# run.sh BUILD_DIR
#
# Proves that Perdura can be used from outside: installs BUILD_DIR to a temporary prefix, which is
# not the one it was configured for, then builds and runs a program through each of find_package,
# pkg-config and (in a whole campaign) add_subdirectory, one with transactions that GCC compiles, and
# another one on the heap of the preload library.
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

echo "== pkg-config"
mkdir "$work/pkg_config"
export PKG_CONFIG_PATH=${pc%/*}
read -ra flags < <(pkg-config --static --cflags --libs perdura)
"${CC:-cc}" -std=c11 "$here/pkg_config/program.c" "${flags[@]}" -o "$work/pkg_config/program"
LD_LIBRARY_PATH=${pc%/pkgconfig/*} "$work/pkg_config/program" "$work/pkg_config.pd"

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

# As others compile it: without our flags, and several sources at once, as our own builds do not.
if [[ ${PERDURA_CAMPAIGNS-} == whole ]]; then
  echo "== add_subdirectory"
  launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  build_with_cmake add_subdirectory -DCMAKE_UNITY_BUILD=ON "${launcher[@]}"
  "$work/add_subdirectory/program" "$work/add_subdirectory.pd"
fi
