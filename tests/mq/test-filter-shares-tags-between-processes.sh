#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two servers on one tag set never hold more than its tags together; one that is
# killed with tags in hand gives them back within a second, and the other goes on.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/lib.sh"
requires_program nbdkit fio

set_name=shingle-test-$$
cleanup rm -f "/dev/shm/shingle-tags.$set_name"
args=(-t 32 --filter="$BLKMQ" --filter=delay memory 64M delay-read=20ms tags=8 tagset="$set_name")
start_server one "${args[@]}" control="$tmp/c1"
one=$server_pid uri1=$uri
start_server two "${args[@]}" control="$tmp/c2"
two=$server_pid uri2=$uri

load () { fio --name=x --ioengine=nbd --uri="$1" --rw=randread --bs=4k --iodepth=32 \
            --time_based --runtime=60 --thread >/dev/null 2>&1; }
load "$uri1" & load1=$!
load "$uri2" & load2=$!
background_pids+=("$load1" "$load2")

both () { [ "$(queue "$tmp/c1" 'sum(u["in_use"] > 0 for u in q["tagset"]["users"])')" = 2 ]; }
wait_for 10 both || fail "they do not share"
for _ in 1 2 3 4 5 6 7 8 9 10; do
  used=$(queue "$tmp/c1" '8 - q["tagset"]["free"]')
  [ "$used" -le 8 ] || fail "$used tags of 8 in use"
done
shares=$(queue "$tmp/c1" 'min(u["in_use"] for u in q["tagset"]["users"])')
[ "$shares" -ge 2 ] || fail "one of them has $shares tags of 8"

kill_server "$two"
sleep 1
equal "$(queue "$tmp/c1" 'len(q["tagset"]["users"]), q["tagset"]["reaped_users"]')" '(1, 1)'
before=$(queue "$tmp/c1" 'q["total"]["completed"]')
sleep 0.5
after=$(queue "$tmp/c1" 'q["total"]["completed"]')
[ "$after" -gt "$before" ] || fail "the other hangs"
full () { [ "$(queue "$tmp/c1" 'q["in_flight"]')" = 8 ]; }
wait_for 5 full || fail "the other does not get the tags"
kill "$load1" "$load2" 2>/dev/null || true
stop_server "$one"
