#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 of the NBD server, or of the mounting process itself, with requests
# in flight: every caller gets an error, soon (reports.md, J1, J9).
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_program fio

new_folder folder
file=$tmp/folder/nbd
start_server slow --filter=delay memory 64M rdelay=50ms wdelay=50ms

# 32 requests in flight, until killed; the status is left in $tmp/status.
start_load ()
{
  rm -f "$tmp/status"
  {
    timeout 60 fio --name=load --filename="$file" --size=64M --rw=randrw --bs=4k \
        --numjobs=32 --ioengine=psync --direct=1 --time_based --runtime=50 \
        --allow_file_create=0 --thread >"$tmp/fio.log" 2>&1 && status=0 || status=$?
    echo "$status" >"$tmp/status"
  } &
  wait_for 30 grep -q '^write requests [1-9]' "$tmp/folder/stats/requests" ||
    fail "no load after 30 seconds"
  [ ! -e "$tmp/status" ] || { cat "$tmp/fio.log"; fail "the load ended by itself"; }
}

load_failed ()
{
  wait_for 20 test -s "$tmp/status" || fail "users hang after: $1"
  [ "$(cat "$tmp/status")" != 0 ] || fail "users got no error after: $1"
  contains "$(cat "$tmp/fio.log")" "$2"
}

shingle_mount "$uri" "$tmp/folder"
start_load
kill_server
load_failed "kill of the NBD server" "Input/output error"
refused dd if="$file" of=/dev/null bs=4k count=1 iflag=direct
contains "$output" "Input/output error"
refused dd if=/dev/zero of="$file" bs=4k count=1 conv=notrunc
unmount "$tmp/folder"

start_server slow --filter=delay memory 64M rdelay=50ms wdelay=50ms
shingle_mount "$uri" "$tmp/folder"
start_load
kill -KILL "$mount_pid"
load_failed "kill of the mounting process" "not connected|abort"
refused stat "$tmp/folder"
contains "$output" "not connected"
refused "$SHINGLE" mount "$uri" "$tmp/folder"
contains "$output" "fusermount3 -u '$tmp/folder'"
fusermount3 -u "$tmp/folder"
# nbdkit 1.32 may end itself when a client leaves while its filter delay sleeps.
kill_server

# A killed process leaves no mount behind where auto-unmount was asked for.
start_server idle memory 64M
unmounted () { [ -d "$tmp/folder" ] && ! mountpoint -q "$tmp/folder"; }
for ((i = 0; i < 10; ++i)); do
  shingle_mount --auto-unmount "$uri" "$tmp/folder"
  kill -KILL "$mount_pid"
  wait_for 60 unmounted || fail "--auto-unmount left the mount"
done
# Unmounted by hand, nothing is taken away later.
shingle_mount --auto-unmount "$uri" "$tmp/folder"
unmount "$tmp/folder"
shingle_mount "$uri" "$tmp/folder"
[ -f "$file" ] || fail "the second mount is not there"
unmount "$tmp/folder"
stop_server
