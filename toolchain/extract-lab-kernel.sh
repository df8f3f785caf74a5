#!/bin/sh
# extract-lab-kernel.sh: puts Debian 13's user-mode Linux 6.12 into build/lab/kernel, for tests on Debian 12. Its system
# calls take a third less time than those of Debian 12's own 6.1. The package and its C library are unpacked, not
# installed. If the packages (25 MB) are not available, the lab uses the installed kernel.
suite=trixie
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$here/../build/lab/kernel
[ -e "$target/linux" ] || [ -n "$LAB_KERNEL" ] || [ "$LAB" = host ] && exit 0
[ "$(uname -m)" = x86_64 ] && command -v apt-get > /dev/null || exit 0
# Debian 13 and later contain that kernel or a newer one.
[ "$(sed -n 's/^VERSION_ID="\(.*\)"$/\1/p' /etc/os-release)" = 12 ] || exit 0

fetch() {
  site=$(apt-get indextargets --format '$(COMPONENT) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' \
    | sed -n 's/^main bookworm //p' | head -n 1)
  [ -n "$site" ] || { echo "no package source for bookworm" >&2; return 1; }
  mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
  echo "deb $site $suite main" > "$1/sources.list"
  : > "$1/status"
  set -- "$1" apt-get -q -o Dir::Etc::SourceList="$1/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$1/lists" -o Dir::State::status="$1/status" -o Dir::Cache="$1/cache" \
    -o APT::Sandbox::User= -o Debug::NoLocking=1
  folder=$1
  shift
  "$@" update && (cd "$folder" && "$@" download user-mode-linux libc6)
}

# The kernel uses the C library next to it. Programs in the lab use the machine's own.
unpack() {
  new=$target.new
  rm -rf "$new" "$target"
  mkdir -p "$new"
  for package in "$1"/*.deb; do dpkg-deb -x "$package" "$1/files" || return 1; done
  # The loader's new path must be as long as the replaced one.
  LC_ALL=C sed 's|/lib64/ld-linux-x86-64\.so\.2\x00|./ld-linux-x86-64.so.2\x00\x00\x00\x00\x00\x00|' \
    "$1/files/usr/bin/linux.uml" > "$new/linux.uml" || return 1
  grep -q '\./ld-linux-x86-64' "$new/linux.uml" || { echo "the kernel names no loader" >&2; return 1; }
  cp "$1"/files/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$1"/files/usr/lib/x86_64-linux-gnu/libc.so.6 "$new/" || return 1
  mv "$1/files/usr/lib/uml/modules" "$new/modules" || return 1
  printf '%s\n' '#!/bin/sh' 'cd "${0%/*}" && exec env LD_LIBRARY_PATH=. ./linux.uml "$@"' > "$new/linux"
  chmod +x "$new/linux" "$new/linux.uml"
  mv "$new" "$target"
}

if [ "$1" = --now ]; then
  folder=$(mktemp -d) || exit 1
  trap 'rm -rf "$folder"' EXIT
  fetch "$folder" && unpack "$folder"
  exit
fi
if ! "$here/step.sh" "Fetching user-mode Linux 6.12" "$0" --now; then
  echo "setup: the lab runs on the installed user-mode Linux, which takes a third longer; see above why 6.12 could not be fetched" >&2
fi
