#!/usr/bin/env bash
# Runs `make test` six times and prints a line for each run; fails if any run fails.
#   tools/repeat_tests.sh [LOG FOLDER]
# Every second run competes with six busy loops and a disk writer. The first two runs are in the usual order, the
# others in random orders, one of them with two workers and one with eight.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=${1:-$(mktemp -d)}
mkdir -p "$logs"
worst=0
printf '%3s  %-28s %-6s %8s %8s  %s\n' run options load wall CPU result
run() { # number, loops, options of pytest
  local log=$logs/run-$1.txt status=0 command=(make test "TESTS=$3")
  (($2)) && command=(tools/stress.sh "$2" "${command[@]}")
  # Only the CPU time of the tests counts, so their line is the one that run_tests.py prints.
  local begun=$SECONDS
  "${command[@]}" >"$log" 2>&1 || status=$?
  local cpu
  cpu=$(sed -n 's/^CPU time: //p' "$log" | tail -n 1)
  printf '%3d  %-28s %-6s %7ds %8s  %s\n' "$1" "${3:-usual order}" "$2" $((SECONDS - begun)) "${cpu:-?}" \
    "$(grep -E '^=* ?[0-9]+ (passed|failed)' "$log" | tail -n 1 | tr -d '=')$( ((status)) && echo " EXIT $status")"
  grep -E '^(FAILED|ERROR|LEFT BEHIND)' "$log" || true
  ((status)) && worst=1
  return 0
}

run 1 0 ""
run 2 6 ""
run 3 0 "--shuffle 3"
run 4 6 "--shuffle 4"
run 5 0 "--shuffle 5 -n 2"
run 6 6 "--shuffle 6 -n 8"
echo "Logs are in $logs"
exit $worst
