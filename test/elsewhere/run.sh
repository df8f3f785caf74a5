#!/bin/sh
# `make test-elsewhere` simulates other machines on this one. Each step runs the few tests that once failed under the
# conditions of another machine. Needs root and the outputs of `make build lab image`.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
cd "$root"
as_nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
status=0

try() { # LABEL COMMAND…
  label=$1
  shift
  toolchain/step.sh "Elsewhere: $label" "$@" || status=1
}

# A script in its own mount and network namespaces. Its first argument is the work folder.
inside() { # LABEL SCRIPT
  try "$1" unshare --mount --propagation private --net sh -euc "$2" sh "$work"
}

# The image's root is assembled from files that only their owner can read, and another user runs it.
umask_077() {
  umask 077
  cp -r dist "$work/dist"
  deploy/image/assemble-root.sh "$work/root" "" "$work/dist"
  chmod 755 "$work"
  hidden=$(find "$work/root" ! -type l ! -perm -o=r)
  [ -z "$hidden" ] || { echo "Not readable by all users: $hidden"; return 1; }
  $as_nobody "$work/root/usr/local/bin/kube-ipvs" --version
}

folders() {
  mkdir -p "$work/with space" && cp Makefile "$work/with space"
  make -C "$work/with space" help > "$work/printed" 2>&1 && return 1
  grep -q 'The path of this folder has a space' "$work/printed" || { cat "$work/printed"; return 1; }
  chosen=$(TMPDIR="$work/with space" toolchain/temporary-folder.sh)
  case $chosen in *' '*) echo "TMPDIR: $chosen"; return 1 ;; esac
}

# Uses a copy that everybody can read, regardless of the clone's file modes.
not_root() {
  umask 022
  chmod 755 "$work"
  mkdir -p "$work/clone/node_modules"
  cp "$(node -p process.execPath)" "$work/clone/node" && chmod 755 "$work/clone/node"
  cp -r --no-preserve=mode package.json src test "$work/clone"
  for package in fast-check pure-rand yaml; do
    cp -r --no-preserve=mode "node_modules/$package" "$work/clone/node_modules"
  done
  cd "$work/clone"
  $as_nobody env HOME="$work" ./node --test test/unit/base/*.test.ts test/unit/lab/lab.test.ts
}

case ${1-} in
  umask_077 | folders | not_root) # Run by this script in a separate process.
    "$1"
    exit
    ;;
esac

work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

inside "64 MB in /dev/shm, one processor, noexec TMPDIR" '
  mount -t tmpfs -o size=64m,noexec tmpfs /dev/shm
  mkdir "$1/noexec" && mount -t tmpfs -o noexec tmpfs "$1/noexec"
  export TMPDIR="$1/noexec"
  cpu=$(sed -n "s/^Cpus_allowed_list:.*[^0-9]//p" /proc/self/status) # The last one, which is not 0 if there are several.
  taskset -c "$cpu" node test/lab/boot.ts -- sh -c "head -c 100M /dev/zero > /dev/shm/pages"
'

inside "no IPv6, and no address except 127.0.0.1" '
  ip link set lo up
  for link in all default lo; do echo 1 > /proc/sys/net/ipv6/conf/$link/disable_ipv6; done
  exec node --test --test-timeout=60000 test/unit/daemon/http/http-listener.test.ts \
    test/unit/kernel/listening-sockets.test.ts test/unit/daemon/userspace/histories.test.ts \
    test/unit/daemon/userspace/begin-userspace.test.ts
'

# Tests a clone in a folder with mode 0700. This clone is mounted there.
inside "a clone in a 0700 folder" '
  mkdir -m 700 "$1/private" "$1/private/clone"
  mount --bind . "$1/private/clone"
  cd "$1/private/clone"
  exec node --test test/shim/core-dumps.test.ts
'

try "a locale that is not installed" \
  env LC_ALL=xx_XX.UTF-8 node --test test/unit/cli/completion.test.ts

try "umask 077 and an image for another user" "$0" umask_077
try "a folder with a space" "$0" folders
try "a non-root user" "$0" not_root
exit "$status"
