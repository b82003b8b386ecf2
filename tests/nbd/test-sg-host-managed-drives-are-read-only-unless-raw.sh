#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A host-managed drive is served read-only, its unwritten zones as holes.  With
# raw=true writes pass as they are: in order they work, else the drive refuses
# them, the client sees EIO and the log says why.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdinfo qemu-io

map () { nbdinfo --map "$uri" | awk '{ print $1, $2, $4 }'; }

"$SHINGLE" emu create "$tmp/smr" "${small_drive[@]}" >/dev/null
start_server smr "$SG" "$tmp/smr"
nbdinfo --is read-only "$uri"
refused qemu-io -f raw -c 'write 0 4k' "$uri"
equal "$(map)" $'0 50331648 data\n50331648 218103808 hole,zero' "map of an empty drive"
stop_server

start_server smr "$SG" "$tmp/smr" raw=true
contains "$(nbdinfo "$uri")" 'block_size_minimum: 512$'
! nbdinfo --is read-only "$uri" || fail "read-only though raw"
qemu-io -f raw "$uri" -c 'write -P 7 48M 1M' -c 'write -P 8 49M 64k' -c 'write -P 9 8M 4k' \
  -c 'write -f -P 5 56M 4M' -c 'flush' >"$tmp/io"
! grep -i failed "$tmp/io" || fail "writes in order are refused"
for write in '48M 4k' '50M 4k' '53M 4k' '49216k 1k'; do
  output=$(qemu-io -f raw -c "write -P 1 $write" "$uri" 2>&1 || true)
  contains "$output" 'Input/output error'
done
grep -q 'writes must follow each other from its write pointer on' "$tmp/smr.log" ||
  fail "the log does not explain: $(tail -3 "$tmp/smr.log")"
grep -q 'write not at the write pointer (05/21/04)' "$tmp/smr.log"
equal "$(map)" "0 51445760 data
51445760 7274496 hole,zero
58720256 4194304 data
62914560 205520896 hole,zero" "map after writes"
qemu-io -f raw "$uri" -c 'read -P 7 48M 1M' -c 'read -P 8 49M 64k' -c 'read -P 0 51445760 64k' \
  -c 'read -P 5 56M 4M' >"$tmp/io" || fail "reads back: $(cat "$tmp/io")"
! grep -i failed "$tmp/io"
stop_server

# Nothing written by the server itself: the drive is as the writes left it.
start_server smr "$SG" "$tmp/smr"
equal "$(map | head -1)" "0 51445760 data" "map after a restart"
stop_server

refused nbdkit "$SG" "$tmp/smr" raw=true readonly=true
contains "$output" 'contradict'
