#!/bin/sh
# npm-ci.sh FOLDER [OPTION…]: installs the packages in the folder's package-lock.json without install scripts. Changes to the
# folder instead of using --prefix, because npm would ignore the machine's settings, such as certificates and a mirror.
cd "$1" || exit 1
shift
# The pinned Node.js knows only its built-in certificate authorities. Behind a proxy with its own authority, apt and git
# work because they use the machine's authorities, but npm would fail.
authorities=/etc/ssl/certs/ca-certificates.crt
if [ -r "$authorities" ]; then
  export NODE_EXTRA_CA_CERTS="${NODE_EXTRA_CA_CERTS:-$authorities}"
fi
exec npm ci --ignore-scripts "$@"
