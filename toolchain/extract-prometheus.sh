#!/bin/sh
# extract-prometheus.sh: puts prometheus and promtool from the Debian package (20 MB) into build/toolchain/bin, for
# tests. The package is only unpacked, because its installation would start a server on this machine.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$here/../build/toolchain
PATH=$target/bin:$PATH
command -v prometheus > /dev/null && command -v promtool > /dev/null && exit 0

if ! command -v apt-get > /dev/null; then
  echo "setup: missing: prometheus; apt-get is not available to fetch it: use Debian 12, or put prometheus and promtool in PATH" >&2
  exit 1
fi

fetch() {
  cd "$1" && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; }
}

unpack() {
  folder=$(mktemp -d) || exit 1
  trap 'rm -rf "$folder"' EXIT
  mkdir -p "$target/bin"
  (fetch "$folder") && dpkg-deb -x "$folder"/prometheus_*.deb "$folder/files" \
    && mv -f "$folder/files/usr/bin/prometheus" "$folder/files/usr/bin/promtool" "$target/bin/"
}

if [ "$1" = --now ]; then
  unpack
elif ! "$here/step.sh" "Fetching Prometheus" "$0" --now; then
  echo "setup: apt-get could not fetch prometheus; see above: the package sources and the network must work" >&2
  exit 1
fi
