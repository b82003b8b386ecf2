#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# stat as text, JSON and for Prometheus (which promtool must take), top, the
# stats/ tree, and reclaim: they agree with each other and with what was done.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_program promtool python3

new_drive drive --size=256M --zone-size=4M --conventional=16
mount_drive drive
dd if=/dev/zero of="$volume" bs=64k count=32 conv=notrunc oflag=direct status=none
dd if="$volume" of=/dev/null bs=16k count=10 iflag=direct status=none
sync "$volume"

"$SHINGLE" stat "$control" --json > "$tmp/stats.json"
python3 - "$tmp/stats.json" <<'PYTHON'
import json, sys
answer = json.load(open(sys.argv[1]))
v, = answer["volumes"]
assert answer["ok"] and v["size_bytes"] > 0 and v["device"]
assert v["volume"]["written_bytes"] == 32 << 16, v["volume"]
assert v["volume"]["errors"] == 0 and v["volume"]["random_zones"] > 0
mount = next(c for c in v["clients"] if c["name"] == "this mount")
write, read = mount["ops"]["write"], mount["ops"]["read"]
assert write["ops"] == 32 and write["bytes"] == 32 << 16 and write["errors"] == 0
assert read["ops"] == 10 and read["bytes"] == 10 << 14
assert sum(write["buckets"]) == 32 and write["latency_ns"] > 0
PYTHON

"$SHINGLE" stat "$control" --prometheus > "$tmp/metrics"
promtool check metrics < "$tmp/metrics"
contains "$(cat "$tmp/metrics")" 'shingle_requests_total\{.*op="write"\} 32$'
contains "$(cat "$tmp/metrics")" 'shingle_request_seconds_count\{.*op="read"\} 10$'
contains "$(cat "$tmp/metrics")" 'shingle_volume_written_bytes_total\{.*\} 2097152$'

contains "$("$SHINGLE" stat "$control")" '^  write +32 +2.0 +0'
contains "$("$SHINGLE" top --once "$control")" '^  write +0 +0.0 +0'
contains "$(cat "$tmp/drive.d/stats/requests")" '^write requests 32 bytes 2097152 errors 0'
contains "$(cat "$tmp/drive.d/stats/health")" '^errors 0$'
contains "$(cat "$tmp/drive.d/stats/zones")" '^reclaim_paused 0$'
contains "$(cat "$tmp/drive.d/stats/sched")" '^sched deadline$'
contains "$(cat "$tmp/drive.d/stats/tags")" '^free [1-9]'
[ "$(cat "$tmp"/drive.d/stats/hwq*/dispatched | awk '{ n += $1 } END { print n }')" -gt 0 ] ||
  fail "no hardware queue has dispatched anything"
refused sh -c "echo 1 > '$tmp/drive.d/stats/zones'"
refused rm "$tmp/drive.d/stats/zones"

"$SHINGLE" reclaim "$control" --pause
contains "$(cat "$tmp/drive.d/stats/zones")" '^reclaim_paused 1$'
contains "$("$SHINGLE" stat "$control")" 'PAUSED'
"$SHINGLE" reclaim "$control" --resume
contains "$(cat "$tmp/drive.d/stats/zones")" '^reclaim_paused 0$'
timeout 60 "$SHINGLE" reclaim "$control" --now
refused "$SHINGLE" reclaim "$control" --now --volume nobody
contains "$output" "no volume is named 'nobody'"
refused "$SHINGLE" stat "$tmp/nowhere"
contains "$output" "no server"

# The screen, in a terminal.
if command -v script >/dev/null; then
  { sleep 2; echo q; } |
    TERM=xterm timeout 20 script -qec "$SHINGLE top '$control'" /dev/null >"$tmp/screen" || true
  contains "$(tr -d '\000' <"$tmp/screen")" "sequential zones"
fi

unmount "$tmp/drive.d"
[ ! -e "$control" ] || fail "the control socket is left"
