#!/bin/sh
# install-npm.sh: makes sure that there is an npm, by apt where there is none.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
command -v npm > /dev/null && exit 0
exec "$here/install-packages.sh" npm
