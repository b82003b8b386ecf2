#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shingle serve: what it prints works when pasted; TLS with keys; a socket left
# by a killed server is no obstacle; socket activation as systemd does it.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_program nbdinfo nbdkit

new_drive drive --size=128M --zone-size=4M --conventional=8
new_file file
export XDG_RUNTIME_DIR=$tmp
sock=$tmp/s.sock
stop () { kill "$(cat "$tmp/s.pid")"; wait_for 10 server_gone "$1"; }
serve () { timeout 60 "$SHINGLE" serve "$tmp/drive" -P "$tmp/s.pid" "$@"; }

serve -U "$sock" > "$tmp/printed"
pid=$(cat "$tmp/s.pid")
cleanup kill "$pid"
list=$(sed -n "s/^What is there: *//p" "$tmp/printed")
contains "$(eval "$list")" "export="
mount=$(sed -n "s/^As a file: *shingle mount \(.*\) MOUNTPOINT/\1/p" "$tmp/printed")
eval "shingle_mount $mount '$tmp/file'"
[ "$(stat -c %s "$tmp/file")" -gt 0 ] || fail "not mounted"
unmount "$tmp/file"
top=$(sed -n "s/^Watch it: *shingle top //p" "$tmp/printed")
contains "$(eval "'$SHINGLE' stat $top --prometheus")" '^shingle_requests_total\{.*client="[^"]'

# Killed: the next one starts all the same.
kill -KILL "$pid"
wait_for 10 server_gone "$pid"
serve -U "$sock" > /dev/null
stop "$(cat "$tmp/s.pid")"

# A failure is a failure, with nbdkit's reason.
refused "$SHINGLE" serve "$tmp/nowhere" -U "$sock" -P "$tmp/s.pid"
contains "$output" "nowhere"

if command -v psktool >/dev/null; then
  psktool -u alice -p "$tmp/keys.psk" >/dev/null 2>&1
  serve -U "$sock" --tls-psk "$tmp/keys.psk" > /dev/null
  refused nbdinfo --size "nbd+unix:///?socket=$sock"
  nbdinfo --size "nbds+unix://alice@/?socket=$sock&tls-psk-file=$tmp/keys.psk"
  shingle_mount "nbds+unix://alice@/?socket=$sock&tls-psk-file=$tmp/keys.psk" "$tmp/file"
  unmount "$tmp/file"
  stop "$(cat "$tmp/s.pid")"
fi

# systemd's protocol, by a client that speaks it.
contains "$(nbdinfo -- [ "$SHINGLE" serve "$tmp/drive" --control=- ])" "export-size"
