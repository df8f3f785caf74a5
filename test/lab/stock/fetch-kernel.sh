#!/bin/sh
# fetch-kernel.sh FOLDER SUITE ARCHITECTURE: puts the kernel of a Debian release into FOLDER: vmlinuz, its modules, the
# modules without those that Enterprise Linux 10 does not ship, and an initramfs. For another architecture, also a root
# with the programs that tests need. Packages are unpacked, not installed.
set -eu
target=$1 suite=$2 architecture=$3
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
[ ! -e "$target/initramfs" ] || exit 0

site=$(apt-get indextargets --format '$(COMPONENT) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
  sed -n 's/^main [^ ]* \(.*debian\/*\)$/\1/p' | head -n 1)
work=$target.new
rm -rf "$target" "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/initramfs.d/bin"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main" > "$work/sources.list"
: > "$work/status"
cd "$work"
apt_get() {
  apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Debug::NoLocking=1 \
    -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
    -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User= \
    -o APT::Install-Recommends=false "$@"
}
apt_get update
# Prints the packages with their dependencies.
resolve() { apt_get --print-uris -y install "$@" | sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p"; }
# Downloads packages and unpacks them into a folder.
unpack() {
  folder=$1
  shift
  apt_get download "$@"
  mkdir -p "$folder"
  for package in *.deb; do dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$folder"; done
  rm ./*.deb
}
# The metapackage depends on packages whose names contain the version.
# shellcheck disable=SC2046 # lists of names
unpack files busybox-static $(resolve "linux-image-$architecture" | grep '^linux-[a-z]*-[0-9]')
if [ "$architecture" != "$(dpkg --print-architecture)" ]; then
  unpack root base-files
  # shellcheck disable=SC2046 # lists of names
  unpack root $(resolve dash libstdc++6 coreutils util-linux mount grep sed mawk procps kmod iproute2 iptables ipset \
    ipvsadm nftables | grep -vx base-files)
  for program in iptables ip6tables; do
    for ending in '' -save -restore; do ln -sf "$program-nft$ending" "root/usr/sbin/$program$ending"; done
  done
fi

# Since Debian 14, vmlinuz is in the folder of the modules.
mv "$(find files -name 'vmlinuz*')" vmlinuz
modules=$(find files -path '*/lib/modules/*' -prune)
release=${modules##*/}
mkdir -p usual/lib without-xtables/lib
mv "${modules%/*}" usual/lib/modules
cp -al usual/lib/modules without-xtables/lib/modules
find without-xtables -name '*.ko*' | grep -E '/(xt_[^/]*|(ip|ip6|arp|eb|x)_?tables?(_[^/]*)?|ip6?t_[^/]*|nft_compat|ip_set[^/]*|br_netfilter)\.ko' |
  xargs rm
for root in usual without-xtables; do depmod -b "$work/$root" "$release"; done

# The initramfs loads the modules that mount the root, in the order of their dependencies.
cp "$(find files -name busybox -type f -perm /111)" initramfs.d/bin/
cp "$here/initramfs.sh" initramfs.d/init
for module in virtio_pci 9pnet_virtio 9p overlay; do
  modprobe -d "$work/usual" -S "$release" --show-depends "$module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r module; do
  name=${module##*/}
  case $module in
    *.xz) xz -dc "$module" ;;
    *.zst) zstd -dc "$module" ;;
    *) cat "$module" ;;
  esac > "initramfs.d/${name%%.*}.ko"
  echo "/${name%%.*}.ko"
done > initramfs.d/modules
(cd initramfs.d && find . | cpio -o -H newc --quiet | gzip -1) > initramfs
echo "$release" > release
rm -rf files cache lists initramfs.d
mv "$work" "$target"
