#!/bin/sh
# extract-file.sh PACKAGE FILE TARGET: extracts one file from a Debian package without installing the package.
package=$1 file=$2 target=$3
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
fetch() {
  cd "$folder" && { apt-get download -q "$package" || { apt-get update -q && apt-get download -q "$package"; }; }
}
(fetch) && mkdir -p "${target%/*}" && dpkg-deb --fsys-tarfile "$folder"/*.deb | tar -xO ".$file" > "$target"
