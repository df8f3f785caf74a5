#!/bin/sh
# Starts the program with the Node.js beside it, from any folder and through links: in ./lib, or in ../lib/kube-ipvs
# where it is installed. Signals and exit status are the program's own: exec. The image has no readlink, and no link
# here either. The flags, measured in docs/decisions/0011: the engine lets its heap grow by more the more it may have, and by default it
# may have what suits the machine, so the maximum is fixed: room for twice 100,000 Services. A small young generation keeps memory low;
# one helper thread of the engine in place of four saves 8 MB more, and half of the processor time at start.
self=$0
if [ -h "$self" ]; then self=$(readlink -f -- "$self") || exit 1; fi
case $self in */*) folder=${self%/*} ;; *) folder=. ;; esac
lib=$folder/lib
[ -d "$lib" ] || lib=$folder/../lib/kube-ipvs
# No core dump, which would hold the account's token; no debugger on a signal.
ulimit -c 0
NODE_COMPILE_CACHE=${NODE_COMPILE_CACHE-$lib/compile-cache}
export NODE_COMPILE_CACHE
# The C library keeps what threads freed, each its own, and takes ever larger blocks for ones to be kept: 6 MB. The engine's compilers
# take blocks of 32 KB, 13 MB of them for one large function: those go back when they are freed, where they were mapped.
export MALLOC_ARENA_MAX="${MALLOC_ARENA_MAX-1}" MALLOC_TRIM_THRESHOLD_="${MALLOC_TRIM_THRESHOLD_-131072}"
export MALLOC_MMAP_THRESHOLD_="${MALLOC_MMAP_THRESHOLD_-32768}"
exec "$lib/node" --max-old-space-size=1024 --max-semi-space-size=2 --v8-pool-size=1 --disable-sigusr1 "$lib/kube-ipvs.cjs" "$@"
