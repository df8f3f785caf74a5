#!/bin/sh
# install-dependencies.sh: installs the packages in package-lock.json without install scripts, if they changed.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=${here%/*}
installed=$root/node_modules/.package-lock.json
[ -e "$installed" ] && ! [ "$root/package-lock.json" -nt "$installed" ] && exit 0

"$here/install-npm.sh" || exit 1
"$here/step.sh" "Installing dependencies" "$here/npm-ci.sh" "$root" || exit 1
touch "$installed"
