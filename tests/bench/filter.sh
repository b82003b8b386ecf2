#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# filter.sh [SECONDS [ROUNDS]]: `nbdkit memory` with the filter against the same without, 4 KiB
# random reads and writes by fio at depth 16, over 1, 2 and 8 connections, in turns.
# A line each: median IOPS with and without, median of the ratios (the bar: 0.97), and
# of the ratios of IOPS per CPU time of the server, which other work on the machine does not spoil.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit fio

seconds=${1:-2} rounds=${2:-5}
start_server with --filter="$BLKMQ" memory 256M
with_uri=$uri with_pid=$server_pid
start_server without memory 256M
without_uri=$uri without_pid=$server_pid

# CPU time of a process, in ticks.
ticks () { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# run URI PID JOB CONNECTIONS: IOPS, and I/Os per tick of the server.
run ()
{
  local before after
  before=$(ticks "$2")
  fio --name=x --ioengine=nbd --uri="$1" --rw="$3" --bs=4k --size=256M --iodepth=16 --numjobs="$4" \
    --time_based --runtime="$seconds" --group_reporting --thread --output-format=json \
    --output="$tmp/json" >/dev/null
  iops=$(python3 - "$tmp/json" <<'END'
import json, sys
text = open(sys.argv[1]).read()
j = json.loads(text[text.index("{"):])["jobs"][0]
print(int(j["read"]["iops"] + j["write"]["iops"]))
END
)
  after=$(ticks "$2")
  per_tick=$(awk -v n="$iops" -v s="$seconds" -v t=$((after - before)) 'BEGIN { print n * s / (t ? t : 1) }')
}

median () { sort -n | awk '{ v[NR] = $1 } END { print v[int ((NR + 1) / 2)] }'; }

printf '%-30s %10s %10s %8s %8s\n' '' with without ratio 'by CPU'
for job in randread randwrite; do
  for connections in 1 2 8; do
    : >"$tmp/a"; : >"$tmp/b"; : >"$tmp/r"; : >"$tmp/c"
    for ((i = 0; i < rounds; ++i)); do
      run "$with_uri" "$with_pid" $job $connections
      a=$iops ac=$per_tick
      run "$without_uri" "$without_pid" $job $connections
      echo "$a" >>"$tmp/a"
      echo "$iops" >>"$tmp/b"
      awk -v a="$a" -v b="$iops" 'BEGIN { print a / b }' >>"$tmp/r"
      awk -v a="$ac" -v b="$per_tick" 'BEGIN { print a / b }' >>"$tmp/c"
    done
    printf '%-30s %10.0f %10.0f %8.3f %8.3f\n' "$job, $connections connections" "$(median <"$tmp/a")" \
      "$(median <"$tmp/b")" "$(median <"$tmp/r")" "$(median <"$tmp/c")"
  done
done
