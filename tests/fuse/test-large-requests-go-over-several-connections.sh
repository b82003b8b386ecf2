#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Through a URI, a large request of somebody who is alone goes in parts over several
# connections, if the server allows that, and none is larger than the server takes.
# The file has the right bytes after requests of any alignment; a synchronous write is
# flushed once where the server knows no FUA; and when the server dies under a request
# in parts, its user gets an error.
source "$(dirname "$0")/../functions.sh"
source "$(dirname "$0")/lib.sh"
requires_fuse
requires_program dd cmp

new_file file
pattern 8 1 >"$tmp/a"
pattern 8 2 >"$tmp/b"

# copy FROM TO OFFSET COUNT [dd option]: a range of $tmp/FROM to the same place of
# $tmp/TO, in requests of up to 1 MiB.
copy ()
{
  dd if="$tmp/$1" of="$tmp/$2" bs=1M iflag=skip_bytes,count_bytes,fullblock skip="$3" \
    count="$4" oflag=seek_bytes seek="$3" conv=notrunc status=none "${@:5}"
}
log_has () { grep -E "$1" "$tmp/log" >/dev/null || fail "$2: $(cat "$tmp/log")"; }
log_count () { grep -cE "$1" "$tmp/log" || true; }
connections_of () { grep -E " $1 id" "$tmp/log" | grep -o 'connection=[0-9]*' | sort -u | wc -l; }

# -- in parts, and each byte where it belongs ----------------------------------------
start_server parts --filter=log --filter=fua memory 8M fuamode=emulate logfile="$tmp/log"
shingle_mount "$uri" "$tmp/file"
copy a file 0 $((8 << 20))
dd if="$tmp/file" bs=1M status=none | cmp - "$tmp/a"
[ "$(connections_of Write)" -ge 2 ] || fail "writes went over one connection only"
[ "$(connections_of Read)" -ge 2 ] || fail "reads went over one connection only"
copy b file 1000001 3333333
copy b file $(((5 << 20) - 1)) 1048577
cp "$tmp/a" "$tmp/expected"
copy b expected 1000001 3333333
copy b expected $(((5 << 20) - 1)) 1048577
cmp "$tmp/expected" "$tmp/file"
for at in 0 1 4095 65537 1048575; do
  dd if="$tmp/file" bs=1M iflag=skip_bytes,fullblock skip=$at status=none |
    cmp -i 0:$at - "$tmp/expected"
done
unmount "$tmp/file"
stop_server

# -- one flush for all parts ---------------------------------------------------------
: >"$tmp/log"
start_server flushes --filter=fua --filter=log memory 8M logfile="$tmp/log"
shingle_mount "$uri" "$tmp/file"
copy a file 0 1048576 oflag=dsync
log_has 'Write id' "no write was seen"
equal "$(log_count ' Flush id')" 1 "flushes of one synchronous write"
[ "$(grep -nE '[.]{3}Write|Write id' "$tmp/log" | tail -n 1 | cut -d: -f1)" -lt \
  "$(grep -n 'Flush id' "$tmp/log" | head -n 1 | cut -d: -f1)" ] ||
  fail "flushed before the last write: $(cat "$tmp/log")"
unmount "$tmp/file"
stop_server

# -- no larger than the server takes -------------------------------------------------
start_server small --filter=blocksize-policy memory 8M blocksize-preferred=4K \
  blocksize-minimum=1 blocksize-maximum=64K blocksize-error-policy=error
shingle_mount "$uri" "$tmp/file"
copy b file 0 $((8 << 20))
cmp "$tmp/b" "$tmp/file"
unmount "$tmp/file"
stop_server

# -- one connection, where that is all -----------------------------------------------
for options in "--connections=1" "--connections=3"; do
  start_server few memory 8M
  shingle_mount $options "$uri" "$tmp/file"
  copy b file 0 $((8 << 20))
  cmp "$tmp/b" "$tmp/file"
  unmount "$tmp/file"
  stop_server
done

# -- an error of one part is the error of all ----------------------------------------
start_server half --filter=protect memory 8M protect=900000-1048575
shingle_mount "$uri" "$tmp/file"
refused dd if="$tmp/a" of="$tmp/file" bs=1M count=1 conv=notrunc
contains "$output" "not permitted"
copy a file 1048576 1048576
cmp -n 1048576 -i 1048576 "$tmp/a" "$tmp/file"
unmount "$tmp/file"
stop_server

# -- the server dies under a request --------------------------------------------------
start_server slow --filter=delay memory 8M rdelay=20
shingle_mount "$uri" "$tmp/file"
dd if="$tmp/file" of=/dev/null bs=1M count=1 2>"$tmp/dd.err" &
reader=$!
sleep 1
kill_server
wait_for 20 server_gone "$reader" || fail "a reader hangs after the kill of the server"
! wait "$reader" || fail "a reader got no error after the kill of the server"
contains "$(cat "$tmp/dd.err")" "Input/output error"
unmount "$tmp/file"
