#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# filter.sh [MS [ROUNDS]]: `nbdkit memory` with the filter against the same without, 4 KiB
# random reads and writes by fio at depth 16, over 1, 2 and 8 connections.  A round is A B B A,
# MS each, so that what disturbs the machine for a while disturbs both.  The servers have one
# processor and fio another: where the kernel puts sixteen threads and their client changes
# from run to run by a factor of two, with the filter or without.
# A line each: median IOPS with and without, median of the ratios (the bar: 0.97), and
# of the ratios of IOPS per CPU time of the server, which other work on the machine does not spoil.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit fio taskset
[ "$(nproc)" -ge 2 ] || skip "needs two processors"

ms=${1:-1000} rounds=${2:-5}
start_server with --filter="$BLKMQ" memory 256M
with_uri=$uri with_pid=$server_pid
start_server without memory 256M
without_uri=$uri without_pid=$server_pid
for pid in "$with_pid" "$without_pid"; do
  taskset -a -c -p 1 "$pid" >/dev/null
done

# CPU time of a process, in ticks.
ticks () { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# run URI PID JOB CONNECTIONS: adds to ios, and to cpu the ticks of the server.
run ()
{
  local before
  before=$(ticks "$2")
  taskset -c 0 fio --name=x --ioengine=nbd --uri="$1" --rw="$3" --bs=4k --size=256M --iodepth=16 --numjobs="$4" \
    --time_based --runtime="${ms}ms" --group_reporting --thread --output-format=json \
    --output="$tmp/json" >/dev/null
  ios=$((ios + $(python3 - "$tmp/json" <<'END'
import json, sys
text = open(sys.argv[1]).read()
j = json.loads(text[text.index("{"):])["jobs"][0]
print(int(j["read"]["iops"] + j["write"]["iops"]))
END
)))
  cpu=$((cpu + $(ticks "$2") - before))
}
with () { ios=$a cpu=$ac; run "$with_uri" "$with_pid" "$job" "$connections"; a=$ios ac=$cpu; }
without () { ios=$b cpu=$bc; run "$without_uri" "$without_pid" "$job" "$connections"; b=$ios bc=$cpu; }
ratio () { awk -v a="$1" -v b="$2" 'BEGIN { print a / (b ? b : 1) }'; }

median () { sort -n | awk '{ v[NR] = $1 } END { print v[int ((NR + 1) / 2)] }'; }

printf '%-30s %10s %10s %8s %8s\n' '' with without ratio 'by CPU'
for job in randread randwrite; do
  for connections in 1 2 8; do
    : >"$tmp/a"; : >"$tmp/b"; : >"$tmp/r"; : >"$tmp/c"
    for ((i = 0; i < rounds; ++i)); do
      a=0 ac=0 b=0 bc=0
      with; without; without; with
      echo $((a / 2)) >>"$tmp/a"
      echo $((b / 2)) >>"$tmp/b"
      ratio $a $b >>"$tmp/r"
      ratio $((a * (bc + 1))) $((b * (ac + 1))) >>"$tmp/c"
    done
    printf '%-30s %10.0f %10.0f %8.3f %8.3f\n' "$job, $connections connections" "$(median <"$tmp/a")" \
      "$(median <"$tmp/b")" "$(median <"$tmp/r")" "$(median <"$tmp/c")"
  done
done
