#!/bin/sh
# assemble-root.sh FOLDER [ARCHITECTURE PROGRAM]: assembles the image's root file system in FOLDER. It consists of the
# packages in packages.txt with their dependencies, from Debian's archive, and the program from dist/. The tests and the
# release both run this script, so they use the same files. For another architecture, ARCHITECTURE is Debian's name for it
# (arm64), and PROGRAM is the folder to use instead of dist/. Packages are fetched once, into build/image/packages. Needs
# apt, but not root. WITHOUT=iptables omits this package, for nodes with rules in nf_tables.
set -eu
umask 022
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
project=$(CDPATH='' cd -- "$here/../.." && pwd)
root=${1:?usage: assemble-root.sh FOLDER [ARCHITECTURE PROGRAM]}
foreign=${2-}
dist=${3-$project/dist}
packages=$project/build/image/packages${foreign:+-$foreign}

listed() {
  awk -v word="$1" -v omitted="${WITHOUT-}" '$1 == word && $2 != omitted { print $2 }' "$here/packages.txt"
}

# Runs apt-get as on a system without any packages. Each architecture has its own lists.
apt_get() {
  if [ -n "$foreign" ]; then
    set -- -o APT::Architecture="$foreign" -o APT::Architectures="$foreign" \
      -o Dir::State::Lists="$packages/lists" -o Dir::Cache="$packages/cache" "$@"
  fi
  apt-get -q -y -o Debug::NoLocking=1 -o APT::Install-Recommends=false -o APT::Sandbox::User= \
    -o Dir::State::status="$packages/status" -o Dir::Cache::archives="$packages/none" "$@"
}

# The lines of `--print-uris` with an address and a file name.
resolve() {
  # shellcheck disable=SC2046 # a list of names
  apt_get --print-uris install $(listed with) > "$packages/uris" || return 1
  without=" $(listed without | tr '\n' ' ')"
  sed -n "s/^'\([^']*\)' \([^ ]*\) .*/\1 \2/p" "$packages/uris" | while read -r address file; do
    case $without in *" ${file%%_*} "*) ;; *) echo "$address $file" ;; esac
  done > "$packages/wanted"
  [ -s "$packages/wanted" ]
}

fetch() {
  mkdir -p "$packages/none/partial" "$packages/lists/partial" "$packages/cache"
  : > "$packages/status"
  resolve || { apt_get update && resolve; }
  missing=$(while read -r _ file; do
    package=${file%%_*}
    [ -e "$packages/$file" ] || echo "$package=$(version_of "$file")"
  done < "$packages/wanted")
  # shellcheck disable=SC2086 # a list of names
  [ -z "$missing" ] || (cd "$packages" && apt_get download $missing)
}

# The version in a file's name, where a colon is written %3a: zlib1g_1%3a1.2.13.dfsg-1_amd64.deb
version_of() {
  version=${1#*_}
  printf '%s\n' "${version%_*}" | sed 's/%3a/:/g'
}

# /bin, /sbin and /lib are links, as in Debian 12 and later, because old packages still name them.
make_folders() {
  rm -rf "$root"
  for folder in bin sbin lib lib64; do
    mkdir -p "$root/usr/$folder"
    ln -s "usr/$folder" "$root/$folder"
  done
  # The manifests' mount points must exist, because the root is read-only.
  mkdir -p "$root/etc" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/run/kube-ipvs" \
    "$root/usr/lib/modules" "$root/var/lib/kube-proxy" "$root/var/cache/kube-ipvs" "$root/var/lib/dpkg/status.d" \
    "$root/var/run"
  rmdir "$root/var/run" && ln -s ../run "$root/var/run"
  : > "$root/run/xtables.lock"
  chmod 1777 "$root/tmp"
}

# Skips documentation, but keeps copyright files. Scanners read the installed packages from status.d.
unpack_packages() {
  while read -r _ file; do
    dpkg-deb --fsys-tarfile "$packages/$file" | tar -x --keep-directory-symlink -C "$root" \
      --wildcards --exclude './usr/share/doc/*/[!c]*' --exclude './usr/share/man' --exclude './usr/share/locale' \
      --exclude './usr/share/lintian' --exclude './usr/share/bug' --exclude './usr/lib/*/gconv'
    dpkg-deb -f "$packages/$file" > "$root/var/lib/dpkg/status.d/${file%%_*}"
  done < "$packages/wanted"
}

# These steps replace the packages' own installation scripts.
configure() {
  printf 'root:x:0:0:root:/:/bin/sh\n' > "$root/etc/passwd"
  printf 'root:x:0:\n' > "$root/etc/group"
  [ "${WITHOUT-}" != iptables ] || return 0
  for family in iptables ip6tables; do
    for ending in '' -save -restore; do
      ln -sf "$family-nft$ending" "$root/usr/sbin/$family$ending"
    done
  done
}

place_program() {
  mkdir -p "$root/usr/local/bin" "$root/usr/local/lib/kube-ipvs"
  for name in kube-ipvs kube-proxy kube-ipvs-e2e; do
    cp "$dist/$name" "$root/usr/local/bin/$name"
  done
  (cd "$dist/lib" && tar -c --exclude ./compile-cache .) | tar -x -C "$root/usr/local/lib/kube-ipvs"
  # After a clone or build under umask 077, only the owner can read the files, but the container runs as a different user.
  chmod -R u=rwX,go=rX "$root/usr/local"
}

fetch
make_folders
unpack_packages
configure
place_program
