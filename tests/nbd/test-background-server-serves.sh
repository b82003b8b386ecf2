#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# In the background (after the fork, in another folder, no terminal) and named
# by a relative path: the same as in the foreground, threads included, and a
# clean volume after SIGTERM.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit qemu-io

new_drive drive
cd "$tmp"
stop_background ()
{
  [ ! -s "$tmp/pid" ] || kill "$(cat "$tmp/pid")" 2>/dev/null || true
}
cleanup stop_background
timeout 60 nbdkit -U "$tmp/sock" -P "$tmp/pid" "$ZONED" drive
wait_for 10 test -s "$tmp/pid"
uri="nbd+unix:///?socket=$tmp/sock"
for round in 1 2 3; do
  timeout 60 qemu-io -f raw "$uri" -c "write -P $round 1M 8M" -c flush -c "read -P $round 1M 8M" >/dev/null
done
pid=$(cat "$tmp/pid")
kill "$pid"
wait_for 5 test ! -e "/proc/$pid" || fail "the server does not end"
checked drive

rm "$tmp/sock" "$tmp/pid"
timeout 60 nbdkit -U "$tmp/sock" -P "$tmp/pid" "$ZONED" emu:drive
wait_for 10 test -s "$tmp/pid"
timeout 60 qemu-io -f raw "$uri" -c "read -P 3 1M 8M" >/dev/null

# What cannot be served is said at once, with a bad status.
refused nbdkit -U "$tmp/sock2" -P "$tmp/pid2" "$ZONED" nothing-here
contains "$output" nothing-here
