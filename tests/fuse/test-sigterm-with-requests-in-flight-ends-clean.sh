#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# SIGTERM under load: what was answered is flushed, the process ends by itself
# with status 0, soon, and users get an error afterwards.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_program fio

new_folder folder
file=$tmp/folder/nbd
truncate -s 64M "$tmp/disk"
start_server log --filter=log --filter=delay file "$tmp/disk" logfile="$tmp/requests" \
    wdelay=20ms
for signal in TERM INT HUP; do
  "$SHINGLE" mount --foreground --pid-file="$tmp/mount.pid" "$uri" "$tmp/folder" \
      2>"$tmp/messages" &
  mount_pid=$!
  background_pids+=("$mount_pid")
  wait_for 20 test -s "$tmp/mount.pid"
  equal "$(cat "$tmp/mount.pid")" "$mount_pid" "pid in the foreground"
  timeout 60 fio --name=load --filename="$file" --size=64M --rw=randwrite --bs=4k \
      --numjobs=16 --ioengine=psync --direct=1 --time_based --runtime=50 --thread \
      --allow_file_create=0 >"$tmp/fio.log" 2>&1 &
  load=$!
  wait_for 30 grep -q '^write requests [1-9]' "$tmp/folder/stats/requests"
  kill -"$signal" "$mount_pid"
  wait_for 10 server_gone "$mount_pid" || fail "SIG$signal does not end it"
  status=0
  wait "$mount_pid" || status=$?
  equal "$status" 0 "status after SIG$signal"
  forget_server "$mount_pid"
  equal "$(cat "$tmp/messages")" "" "messages after SIG$signal"
  ! wait "$load" || fail "the load saw no error"
  [ ! -e "$file" ] || fail "still mounted"
  contains "$(tail -n 40 "$tmp/requests")" "Flush"
done
stop_server
