#!/bin/sh
# install-packages.sh GROUP…: installs the missing packages of packages.txt with apt. A package is not missing if its
# command or file exists, regardless of how it was installed. If the installation fails, one line names the missing
# packages and an alternative.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin

case $(uname -m) in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) architecture=$(uname -m) ;;
esac

is_there() {
  case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" > /dev/null ;;
  esac
}

missing=
groups=" $* "
while read -r group on package brings _; do
  case $group in '#'* | '') continue ;; esac
  case $groups in *" $group "*) ;; *) continue ;; esac
  [ "$on" = any ] || [ "$on" = "$architecture" ] || continue
  is_there "$brings" || missing="$missing $package"
done < "$here/packages.txt"
missing=${missing# }
[ -n "$missing" ] || exit 0

if ! command -v apt-get > /dev/null; then
  echo "setup: missing: $missing; apt-get is not available to install it: use Debian 12, or install these manually" >&2
  exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "setup: missing: $missing; only root can install it: run as root, or first: sudo apt-get install $missing" >&2
  exit 1
fi

# shellcheck disable=SC2086 # a list of names
export DEBIAN_FRONTEND=noninteractive
if ! "$here/step.sh" "Installing $missing" \
  sh -c 'apt-get update -q && apt-get install -y -q --no-install-recommends "$@"' sh $missing; then
  echo "setup: apt-get could not install: $missing; see above: the package sources and the network must work" >&2
  exit 1
fi
