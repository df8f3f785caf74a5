#!/bin/sh
# fetch-packages.sh FOLDER: unpacks the Debian packages for the nodes and etcd into FOLDER, a download of about 56 MB.
# Nothing is installed on this machine. The nodes mount FOLDER over the machine's own root, so the packages include
# their C library.
suite=forky # Debian 14, because kubelet 1.36 supports only containerd 2.0 and later.
packages="containerd crun containernetworking-plugins etcd-server
  libc6 libstdc++6 libgcc-s1 libblake3-0 libtbb12 libjson-c5 libcap2 libseccomp2 libsystemd0"
target=$1
if ! command -v apt-get > /dev/null; then
  echo "conformance: apt-get, which fetches containerd, crun, CNI plugins and etcd, is missing: use Debian" >&2
  exit 1
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# apt-get with its own package lists. This machine's sources stay unchanged.
apt_get() {
  apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
    -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
}

set -e
site=$(apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^main //p' | head -n 1)
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/files"
echo "deb $site $suite main" > "$work/sources.list"
: > "$work/status"
apt_get update
# shellcheck disable=SC2086 # a list of names
(cd "$work" && apt_get download $packages)
for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/files"; done
rm -rf "$target.new"
mkdir -p "${target%/*}"
cp -a "$work/files" "$target.new"
mv "$target.new" "$target"
