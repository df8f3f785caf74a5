#!/bin/sh
# build-arm64.sh: builds the program and the tests' addon for arm64. guest.sh mounts both over those of this machine.
set -eu
project=$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd)
target=$project/build/stock
"$project/toolchain/install-packages.sh" release
"$project/toolchain/release/program.sh" "$target/program-arm64"
aarch64-linux-gnu-gcc -shared -fPIC -O2 -I "$project/node_modules/node-api-headers/include" \
  -o "$target/network_namespace.node" "$project/test/support/netns/network-namespace.c"
