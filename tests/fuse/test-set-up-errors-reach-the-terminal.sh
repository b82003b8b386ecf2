#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The command returns success only when the file can be used, else a message
# and a failure; nothing is left behind; a server that does not answer is given
# up (reports.md, J8).
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse

new_file file
new_folder folder
pid=$tmp/pid

check_refused ()
{
  local message=$1
  shift
  refused "$SHINGLE" mount --pid-file="$pid" "$@"
  contains "$output" "$message"
  [ ! -e "$pid" ] || fail "a pid file after: $*"
  ! mountpoint -q "$tmp/folder" || fail "mounted after: $*"
}

check_refused "No such file" "nbd+unix:///?socket=$tmp/nobody" "$tmp/folder"
check_refused "No such file" [ nbdkit memory 1M ] "$tmp/nowhere"
check_refused "mkdir '$tmp/nowhere'" [ nbdkit memory 1M ] "$tmp/nowhere"
check_refused "neither a regular file nor a folder" [ nbdkit memory 1M ] /dev/null
check_refused "is a file, but there are 2" [ nbdkit memory 1M ] [ nbdkit memory 1M ] "$tmp/file"
check_refused "unknown option" [ nbdkit memory 1M ] "$tmp/folder" -o nonsense=7
check_refused "no such option: --nonsense" [ nbdkit memory 1M ] "$tmp/folder" --nonsense
check_refused "--connections=0: not a whole number from 1 to 16" -C 0 [ nbdkit memory 1M ] "$tmp/folder"
check_refused "what to mount, and where" "$tmp/folder"
check_refused "no ']'" [ nbdkit memory 1M "$tmp/folder"
check_refused "shingle: " [ nbdkit nosuchplugin ] "$tmp/folder"

# A server that listens and says nothing.
python3 - "$tmp/mute" <<'PYTHON' &
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
time.sleep(60)
PYTHON
background_pids+=($!)
wait_for 10 test -S "$tmp/mute"
check_refused "not serving after 1 seconds" --timeout=1 "nbd+unix:///?socket=$tmp/mute" "$tmp/folder"

# And when it does work: usable at once, by the time the command returns.
for _ in 1 2 3 4 5; do
  shingle_mount [ nbdkit memory 1M ] "$tmp/file"
  equal "$(stat -c %s "$tmp/file")" 1048576 "size at once"
  equal "$(cat "/proc/$mount_pid/comm")" "shingle" "the pid file's process"
  unmount "$tmp/file"
  [ ! -e "$tmp/mount.pid" ] || fail "the pid file is left"
done
