#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Scheduler, tags and tunables change through the control socket while fio
# verifies what it wrote; each change shows, and wrong ones are refused.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/lib.sh"
requires_program nbdkit fio

start_server switch -t 32 --filter="$BLKMQ" --filter=delay memory 4M tags=4 delay-write=1ms \
  control="$tmp/control"
fio --name=x --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --size=4M --iodepth=32 --loops=1 \
  --verify=crc32c --verify_state_save=0 --thread >"$tmp/fio" 2>&1 & fio_pid=$!
background_pids+=("$fio_pid")
for i in 1 2 3 4 5 6; do
  for change in '"sched": "none", "tags": "1"' '"sched": "deadline", "tags": "16", "fifo_batch": 0' \
                '"run": "all", "async_depth": "2"' '"run": "own", "async_depth": "64", "tags": 3'; do
    contains "$(ask "$tmp/control" "{\"set\": {$change}}")" '"ok":true'
    ask "$tmp/control" '{"get": "queues"}' >/dev/null
  done
done
wait "$fio_pid" || { cat "$tmp/fio" >&2; fail "fio complains"; }
equal "$(queue "$tmp/control" 'q["options"]["sched"], q["tagset"]["tags"], q["options"]["async_depth"], q["options"]["fifo_batch"]')" \
  "('deadline', 3, 64, 0)"
for bad in '{"set": {"tags": 0}}' '{"set": {"hwqs": 3}}' '{"set": {"shoe": 3}}' '{"get": "shoe"}' '[]' 'x'; do
  contains "$(ask "$tmp/control" "$bad")" '"ok":false'
done
stop_server
