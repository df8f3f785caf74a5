#!/bin/sh
# Starts the program beside this file (./lib) with the Node.js beside it, from any folder and through links.
# Signals and exit status are the program's own: exec. The first two flags halve the memory that a large cluster
# takes; one helper thread of the engine in place of four saves 8 MB more, and half of the processor time at start.
self=$(readlink -f -- "$0") || exit 1
lib=${self%/*}/lib
NODE_COMPILE_CACHE=${NODE_COMPILE_CACHE-$lib/compile-cache}
export NODE_COMPILE_CACHE
exec "$lib/node" --optimize-for-size --max-semi-space-size=2 --v8-pool-size=1 "$lib/kube-ipvs.cjs" "$@"
