#!/bin/sh
# build-containerfile.sh: builds deploy/image/Containerfile with Debian's buildah, without a daemon, and deletes the result.
# BASE names the base image. The default is the one in the Containerfile or, if no registry answers, a new one from
# Debian's archive. Fails if the build fails.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
project=$(CDPATH='' cd -- "$here/../.." && pwd)
work=$(mktemp -d "$project/build/containerfile-XXXXXX") || exit 1
trap 'chmod -R u+rwX "$work" 2> /dev/null; rm -rf "$work"' EXIT
export TMPDIR="$work"

buildah_() {
  command buildah --root "$work/root" --runroot "$work/run" --storage-driver vfs "$@"
}

skip() {
  echo "Containerfile: not built here: $1"
  exit 0
}

[ "$(id -u)" -eq 0 ] || skip "only root can use chroot without a user namespace"
command -v buildah > /dev/null || skip "buildah is missing: apt-get install buildah"

base=${BASE-}
if [ -z "$base" ]; then
  base=$(sed -n 's/^ARG BASE=//p' "$project/deploy/image/Containerfile")
  if ! timeout 30 skopeo inspect "docker://$base" > /dev/null 2>&1; then
    command -v debootstrap > /dev/null || skip "no registry answers for $base, and debootstrap, which can create a base, is missing: apt-get install debootstrap, or set BASE=IMAGE"
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | sed -n '/debian\.org/p' | head -n 1)
    "$here/../step.sh" "Creating a base for the Containerfile from Debian's archive" \
      debootstrap --variant=minbase bookworm "$work/base" "$mirror" || exit 1
    container=$(buildah_ from scratch) && buildah_ add -q "$container" "$work/base" / > /dev/null \
      && buildah_ commit -q "$container" localhost/base > /dev/null || exit 1
    base=localhost/base
  fi
fi
# The build uses this machine's npm registry and certificate authorities. The machine's settings are mounted where Debian
# reads them. The image does not contain them.
set --
for path in /etc/npmrc "$(npm config get userconfig 2> /dev/null)" "$(npm config get cafile 2> /dev/null)" /usr/local/share/ca-certificates; do
  if [ -e "$path" ]; then set -- "$@" --volume "$path:$path:ro"; fi
done
"$here/../step.sh" "Building the Containerfile" \
  buildah --root "$work/root" --runroot "$work/run" --storage-driver vfs \
  bud --isolation chroot "$@" --build-arg "BASE=$base" -f "$project/deploy/image/Containerfile" -t kube-ipvs "$project"
