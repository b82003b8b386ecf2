#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Several device= parameters are several exports; a name that is not there, and
# names that clash, are refused; also from a daemon, with relative paths.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdinfo

cd "$tmp"
"$SHINGLE" emu create a --model=regular --size=8M >/dev/null
"$SHINGLE" emu create b --size=32M --zone-size=4M --conventional=2 >/dev/null
nbdkit -U "$tmp/s" -P "$tmp/p" "$SG" a device=emu:b export=second
cleanup rm -f "$tmp/p"
pid=$(cat "$tmp/p")
uri="nbd+unix://?socket=$tmp/s"
list=$(nbdinfo --list "$uri")
contains "$list" 'export="a"'
contains "$list" 'export="second"'
contains "$list" 'host-managed drive of 33554432 bytes, 8 zones of 4096 KiB, 512-byte blocks, read-only'
equal "$(nbdinfo --size "$uri")" 8388608
equal "$(nbdinfo --size "nbd+unix:///second?socket=$tmp/s")" 33554432
refused nbdinfo --size "nbd+unix:///third?socket=$tmp/s"
kill "$pid"
wait_for 5 eval '! kill -0 '"$pid"

refused nbdkit "$SG" a device=b export=a
contains "$output" "two exports would be named 'a'"
refused nbdkit "$SG" export=x a
contains "$output" 'there is none'
refused nbdkit "$SG"
contains "$output" 'no drive is named'
refused nbdkit "$SG" a colour=blue
contains "$output" "unknown option 'colour'"
refused nbdkit "$SG" a raw=perhaps
contains "$(nbdkit "$SG" --dump-plugin)" 'sg_transports=sg emu loadable'
