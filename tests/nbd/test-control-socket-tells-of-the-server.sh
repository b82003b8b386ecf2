#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# control=SOCKET: what the volumes, their queues and their clients did, also
# in the background and named by a relative path; a tag set that is shared by
# two servers; the socket is gone at the end.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit qemu-io python3

new_drive drive
new_drive other
cd "$tmp"
stop_background () { [ ! -s "$tmp/pid" ] || kill "$(cat "$tmp/pid")" 2>/dev/null || true; }
cleanup stop_background
set_name=shingle-test-$$
remove_set () { rm -f "/dev/shm/shingle-tags.$set_name"; }
cleanup remove_set

timeout 60 nbdkit -U "$tmp/sock" -P "$tmp/pid" "$ZONED" drive control=control tagset="$set_name" tags=32
wait_for 10 test -S control
start_server second "$ZONED" other control="$tmp/control2" tagset="$set_name" tags=32
for u in "$uri" "nbd+unix:///?socket=$tmp/sock"; do
  timeout 60 qemu-io -f raw "$u" -c 'write -P 1 0 8M' -c 'read -P 1 0 8M' -c flush >/dev/null
done

for control in control control2; do
  "$SHINGLE" stat "$control" --json >stat.json
  python3 - <<'PYTHON'
import json
stats = json.load(open("stat.json"))
(volume,) = stats["volumes"]
assert volume["volume"]["written_bytes"] == 8 << 20, volume["volume"]
assert volume["volume"]["read_bytes"] >= 8 << 20, volume["volume"]
assert volume["volume"]["flushes"] >= 1
written = sum(c["ops"]["write"]["bytes"] for c in volume["clients"])
assert written == 8 << 20, written
assert any(c["name"].startswith("pid ") for c in volume["clients"]), volume["clients"]
assert volume["mq"], "nothing about the queue"
PYTHON
done
stop_server
[ ! -e control2 ] || fail 'the control socket is left behind'
pid=$(cat "$tmp/pid")
kill "$pid"
wait_for 5 test ! -e "/proc/$pid" || fail 'the server does not end'
[ ! -e control ] || fail 'the control socket is left behind'
checked drive
checked other
