#!/bin/sh
# temporary-folder.sh: prints a folder for temporary files. Tests run programs in it, and a lab kernel gets its path as
# a parameter, so it allows execution and its path has no space or comma. Uses $TMPDIR if it is suitable.
for folder in "${TMPDIR:-/tmp}" /tmp /var/tmp "$(dirname "$0")/../build"; do
  case $folder in *[[:space:],]*) continue ;; esac
  probe=$(mktemp "$folder/kube-ipvs-XXXXXX" 2> /dev/null) || continue
  printf '#!/bin/sh\n' > "$probe"
  chmod 700 "$probe"
  "$probe" 2> /dev/null
  status=$?
  rm -f "$probe"
  [ "$status" -eq 0 ] && cd "$folder" && pwd && exit 0
done
echo "setup: no folder for temporary files that allows execution: set TMPDIR" >&2
exit 1
