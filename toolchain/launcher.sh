#!/bin/sh
# Starts the program with its own Node.js, from any folder and through links. Both are in ./lib, or in ../lib/kube-ipvs
# if the program is installed. Because of exec, signals and the exit status are those of the program. The image has no
# readlink and does not need it, because it contains no links to this script. docs/decisions/0011 gives the reasons for
# the flags and for the allocator's settings.
self=$0
if [ -h "$self" ]; then self=$(readlink -f -- "$self") || exit 1; fi
case $self in */*) folder=${self%/*} ;; *) folder=. ;; esac
lib=$folder/lib
[ -d "$lib" ] || lib=$folder/../lib/kube-ipvs
# Disables core dumps, which would contain the account's token, and the debugger that a signal would start.
ulimit -c 0
NODE_COMPILE_CACHE=${NODE_COMPILE_CACHE-$lib/compile-cache}
export NODE_COMPILE_CACHE
# Without these settings, the C library keeps freed memory in each thread, and reserves growing blocks (6 MB). The engine's
# compilers allocate up to 13 MB in blocks of 32 KB. Mapped blocks are returned to the kernel when they are freed.
export MALLOC_ARENA_MAX="${MALLOC_ARENA_MAX-1}" MALLOC_TRIM_THRESHOLD_="${MALLOC_TRIM_THRESHOLD_-131072}"
export MALLOC_MMAP_THRESHOLD_="${MALLOC_MMAP_THRESHOLD_-32768}"

# Sets limit_mb to the smallest memory limit of this process's cgroup and its parents. Empty without a limit.
find_memory_limit() {
  limit_mb=
  [ -r /proc/self/cgroup ] || return 0
  while IFS=: read -r _ controllers path; do
    case ,$controllers, in
      ,,) root=/sys/fs/cgroup file=memory.max ;;
      *,memory,*) root=/sys/fs/cgroup/memory file=memory.limit_in_bytes ;;
      *) continue ;;
    esac
    # A container may see the path on the node, although the root of its mount is its own cgroup. Missing paths are skipped.
    path=${path%/}
    while :; do
      bytes=max
      [ ! -r "$root$path/$file" ] || read -r bytes < "$root$path/$file"
      # "max", and in version 1 a 19-digit number, mean that there is no limit.
      case $bytes in
        *[!0-9]* | ????????????????*) ;;
        *) [ $((bytes / 1048576)) -ge "${limit_mb:-999999999}" ] || limit_mb=$((bytes / 1048576)) ;;
      esac
      case $path in */*) path=${path%/*} ;; *) break ;; esac
    done
  done < /proc/self/cgroup
}

# In addition to the heap, the program needs about 50 MB. The maximum is below 2 GB, so that the engine lets the heap grow more slowly.
heap_mb=${KUBE_IPVS_MAX_HEAP_MB-}
if [ -z "$heap_mb" ]; then
  find_memory_limit
  heap_mb=1024
  [ -z "$limit_mb" ] || heap_mb=$((limit_mb * 3 / 4 - 32))
  [ "$heap_mb" -ge 64 ] || heap_mb=64
  [ "$heap_mb" -le 1920 ] || heap_mb=1920
fi
heap=--max-old-space-size=$heap_mb young=--max-semi-space-size=2 threads=--v8-pool-size=1
# Omits flags that NODE_OPTIONS contains, because command-line flags would override them.
case ${NODE_OPTIONS-} in
  *max[-_]old[-_]space[-_]size* | *max[-_]heap[-_]size*) [ -n "${KUBE_IPVS_MAX_HEAP_MB-}" ] || heap= ;;
esac
case ${NODE_OPTIONS-} in *max[-_]semi[-_]space[-_]size*) young= ;; esac
case ${NODE_OPTIONS-} in *v8[-_]pool[-_]size*) threads= ;; esac
# shellcheck disable=SC2086 # an empty variable passes no flag
exec "$lib/node" $heap $young $threads --disable-sigusr1 "$lib/kube-ipvs.cjs" "$@"
