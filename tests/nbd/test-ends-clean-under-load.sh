#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# SIGTERM with writes in flight, the death of the parent, the last client
# leaving, the end of a captive command: over within 5 seconds, and what is
# left is clean.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit fio

new_drive drive
load ()
{
  timeout 60 fio --ioengine=nbd --uri="$uri" --name=load --rw=randwrite --bs=16k --iodepth=16 \
      --numjobs=2 --size=160M --time_based --runtime=30 >/dev/null 2>&1 &
  background_pids+=($!)
  load_pid=$!
}
cd "$tmp"

for _ in 1 2 3; do
  start_server nbd "$ZONED" "$tmp/drive"
  load
  sleep 0.7
  stop_server
  wait "$load_pid" 2>/dev/null || true
  checked drive
done

# The parent dies.
(
  nbdkit --exit-with-parent -U "$tmp/parent.sock" -P "$tmp/parent.pid" "$ZONED" "$tmp/drive" &
  wait_for 20 test -s "$tmp/parent.pid"
)
pid=$(cat "$tmp/parent.pid")
wait_for 5 test ! -e "/proc/$pid" || fail "outlives its parent"
checked drive

# The last client leaves.
start_server last --filter=exitlast "$ZONED" "$tmp/drive"
qemu-io -f raw "$uri" -c "write -P 9 0 1M" >/dev/null
wait_for 5 server_gone "$server_pid" || fail "exitlast: does not end"
checked drive

# A captive command, its status, and a server that ends with it.
status=0
timeout 60 nbdkit -U "$(own_socket)" "$ZONED" "$tmp/drive" \
  --run 'qemu-io -f raw "$uri" -c "read -P 9 0 1M" >/dev/null && exit 7' || status=$?
equal "$status" 7 "status of the captive command"
checked drive
