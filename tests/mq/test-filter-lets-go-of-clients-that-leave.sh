#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients that connect and go, are killed with requests waiting, or hang up
# early leave no tag and no request behind, and a second client is not disturbed;
# a server that is told to stop with requests waiting stops within 5 seconds.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/lib.sh"
requires_program nbdkit fio

# (Not nbdkit's filter delay: 1.32 ends itself when a client leaves a sleeping request.)
start_server leave -t 32 --filter="$BLKMQ" "$SG" \
  emu:ram:model=regular,size=64M,time=fixed,latency-us=2000,units=4 tags=2 control="$tmp/control"

steady ()
{
  with_nbd "$uri" <<'END'
import nbd, os, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
for i in range(300):
    h.pwrite(b"%7d " % i * 512, 0)
    assert h.pread(4096, 0) == b"%7d " % i * 512
END
}
steady & steady_pid=$!

# 200 connections that say nothing, and 40 that negotiate and go.
python3 - "$tmp/leave.sock" <<'END'
import socket, sys
for i in range(200):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.close()
END
with_nbd "$uri" <<'END'
import nbd, sys
for i in range(40):
    h = nbd.NBD(); h.connect_uri(sys.argv[1]); del h
END
# Killed with 32 requests outstanding.
for i in 1 2 3; do
  timeout -s KILL 1.$i fio --name=x --ioengine=nbd --uri="$uri" --rw=randread --bs=4k \
    --iodepth=32 --time_based --runtime=30 --thread >/dev/null 2>&1 || true
done
wait "$steady_pid" || fail "the steady client was disturbed"

idle () { [ "$(queue "$tmp/control" 'q["in_flight"] + q["queued_now"], q["tagset"]["free"]')" = '(0, 2)' ]; }
wait_for 10 idle || fail "left behind: $(ask "$tmp/control" '{"get": "queues"}')"

fio --name=x --ioengine=nbd --uri="$uri" --rw=randread --bs=4k --iodepth=32 \
  --time_based --runtime=30 --thread >/dev/null 2>&1 & fio_pid=$!
busy () { [ "$(queue "$tmp/control" 'q["queued_now"] > 0')" = True ]; }
wait_for 10 busy
stop_server
wait "$fio_pid" || true
