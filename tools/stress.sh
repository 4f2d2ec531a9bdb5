#!/usr/bin/env bash
# Keeps the machine busy while a command runs, to find tests that depend on time:
#   tools/stress.sh 6 make test
# starts 6 busy loops and a process that writes to the disk and syncs. Without a command, runs until Ctrl-C.
set -euo pipefail

loops=${1:?usage: tools/stress.sh LOOPS [COMMAND…]}
shift
folder=$(mktemp -d)
pids=()
end() {
  kill "${pids[@]}" 2>/dev/null || true
  wait "${pids[@]}" 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT
trap 'exit 130' INT TERM

for ((i = 0; i < loops; i++)); do
  (while :; do :; done) &
  pids+=($!)
done
(while :; do dd if=/dev/zero of="$folder/block" bs=1M count=64 conv=fsync status=none; done) &
pids+=($!)

if (($#)); then "$@"; else wait; fi
