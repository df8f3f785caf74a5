#!/bin/sh
# step.sh LABEL COMMAND…: runs a command, and prints a dot every two seconds and the duration at the end. If the command
# fails, prints its output. Otherwise, prints only the names of skipped tests. Returns the command's exit status.
label=$1
shift
log=$(mktemp) || exit 1
begin=$(date +%s%N)
"$@" > "$log" 2>&1 < /dev/null &
child=$!
trap 'kill "$child" 2> /dev/null; rm -f "$log"; exit 130' INT TERM HUP

printf '%s ' "$label"
ticks=0
while kill -0 "$child" 2> /dev/null; do
  sleep 0.1
  ticks=$((ticks + 1))
  [ $((ticks % 20)) -eq 0 ] && printf '.'
done
wait "$child"
status=$?
millis=$((($(date +%s%N) - begin) / 1000000))
time=$(printf '%d.%d s' $((millis / 1000)) $((millis % 1000 / 100)))
if [ "$status" -eq 0 ]; then
  printf ' done, %s\n' "$time"
  sed -n 's|^ *﹣ \(.*\) (.*ms) # \(.*\)|  skipped: \1: \2|p' "$log"
else
  printf ' FAILED after %s\n' "$time"
  cat "$log"
fi
rm -f "$log"
exit "$status"
