#!/bin/sh
# build-chart-renderer.sh SOURCE TARGET: compiles the program that renders the Helm chart in tests. Go and the template
# functions come from Debian packages (85 MB), which are unpacked temporarily and not installed.
target=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
packages="golang-1.19-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev"

# Runs apt-get as on a system without any packages.
apt_get() {
  apt-get -q -y -o Debug::NoLocking=1 -o APT::Install-Recommends=false -o Dir::State::status="$folder/status" "$@"
}

# Only golang packages are needed. Their other dependencies are C libraries and tools.
names() {
  # shellcheck disable=SC2086 # a list of names
  apt_get -s install $packages | sed -n 's/^Inst \(golang[^ ]*\) .*/\1/p'
}

fetch() {
  : > "$folder/status"
  found=$(names)
  [ -n "$found" ] || { apt-get update -q && found=$(names); }
  [ -n "$found" ] || return 1
  # shellcheck disable=SC2086 # a list of names
  (cd "$folder" && apt-get download -q $found)
}

fetch || exit 1
for package in "$folder"/*.deb; do dpkg-deb -x "$package" "$folder/files" || exit 1; done
export GOROOT="$folder/files/usr/lib/go-1.19" GOPATH="$folder/files/usr/share/gocode" GOCACHE="$folder/cache"
export GO111MODULE=off CGO_ENABLED=0
mkdir -p "${target%/*}"
"$GOROOT/bin/go" build -ldflags '-s -w' -o "$target" "$1"
