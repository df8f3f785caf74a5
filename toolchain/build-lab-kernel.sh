#!/bin/sh
# build-lab-kernel.sh [--without-xtables] [--folder]: builds a lab kernel with nf_tables, which is user-mode Linux from
# Debian's kernel source, and prints its folder. The folder is LAB_KERNEL or, by default, one per version in the user's
# cache. A build takes about ten minutes of CPU time. --without-xtables builds a kernel without iptables and ipset, as in
# the Enterprise Linux 10 family. --folder only prints the folder.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
config=$here/../test/lab/kernel/config
steps=$here/step.sh
PATH=$PATH:/usr/sbin:/sbin

# Uses the newer of the two sources in the package archive. 6.12 is Debian 13's kernel, backported to 12.
version=6.1
apt-cache show linux-source-6.12 > /dev/null 2>&1 && version=6.12
target=${LAB_KERNEL:-${XDG_CACHE_HOME:-$HOME/.cache}/kube-ipvs/lab-kernel-$version}
left_out_options='^-'
if [ "$1" = --without-xtables ]; then
  shift
  target=$target-without-xtables
  left_out_options='^CONFIG_(NETFILTER_XT|NFT_COMPAT|IP_SET|IP6?_NF_)'
fi
[ "$1" = --folder ] && echo "$target" && exit

# The kernel was already built with this configuration.
wanted=$(grep -vE "$left_out_options" "$config")
[ "$wanted" = "$(cat "$target/config" 2> /dev/null)" ] && exit

if [ "$(uname -m)" != x86_64 ]; then
  echo "lab-kernel: user-mode Linux exists only for amd64, and this is $(uname -m)" >&2
  exit 1
fi
"$here/install-packages.sh" lab-kernel-build || exit
archive=/usr/src/linux-source-$version.tar.xz
if [ ! -e "$archive" ]; then
  "$steps" "Installing linux-source-$version" \
    env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "linux-source-$version" || exit
fi

mkdir -p "$target" && echo "$wanted" > "$target/wanted" && build=$(mktemp -d "$target/build.XXXXXX") || exit
trap 'rm -rf "$build"' EXIT
trap 'exit 130' INT TERM HUP
"$steps" "Unpacking $archive" tar -C "$build" --strip-components=1 -xf "$archive" || exit
cd "$build" || exit
"$steps" "Configuring the lab kernel" \
  env KCONFIG_ALLCONFIG="$target/wanted" make -s ARCH=um alldefconfig || exit
# Options that a version does not know, or whose requirements are missing, are silently dropped.
left_out=$(grep -E '^CONFIG_[A-Z0-9_]+=[^n]' "$target/wanted" | grep -vxFf .config)
[ -z "$left_out" ] || echo "lab-kernel: not in Linux $version:" $left_out
"$steps" "Compiling the lab kernel, $(nproc) at a time" make -s ARCH=um -j"$(nproc)" linux || exit

release=$(make -s ARCH=um kernelrelease)
mkdir -p "$target/modules/$release" "$build/root/lib"
# These files tell modprobe that all modules are built in.
cp modules.builtin modules.builtin.modinfo "$target/modules/$release/"
: > "$target/modules/$release/modules.order"
ln -s "$target/modules" "$build/root/lib/modules"
depmod -b "$build/root" "$release" &&
  strip -o "$target/linux" linux &&
  mv "$target/wanted" "$target/config" &&
  echo "Lab kernel $release: $target"
