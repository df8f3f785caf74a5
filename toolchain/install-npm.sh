#!/bin/sh
# install-npm.sh: installs npm with apt if it is missing.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
command -v npm > /dev/null && exit 0
exec "$here/install-packages.sh" npm
