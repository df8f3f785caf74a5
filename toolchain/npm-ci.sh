#!/bin/sh
# npm-ci.sh FOLDER [OPTION…]: installs what the folder's package-lock.json names, install scripts off. Goes there instead of
# --prefix, with which npm leaves out the machine's own settings: its certificates and its mirror.
cd "$1" || exit 1
shift
# The pinned Node.js knows only the authorities it was built with; behind a proxy that signs by itself, apt and git work by
# those of the machine, and npm would fail.
authorities=/etc/ssl/certs/ca-certificates.crt
if [ -r "$authorities" ]; then
  export NODE_EXTRA_CA_CERTS="${NODE_EXTRA_CA_CERTS:-$authorities}"
fi
exec npm ci --ignore-scripts "$@"
