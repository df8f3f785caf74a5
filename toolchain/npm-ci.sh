#!/bin/sh
# npm-ci.sh FOLDER [OPTION…]: installs what the folder's package-lock.json names, install scripts off. Goes there instead of
# --prefix, with which npm leaves out the machine's own settings: its certificates and its mirror.
cd "$1" || exit 1
shift
exec npm ci --ignore-scripts "$@"
