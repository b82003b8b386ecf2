#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Whatever is named as DEVICE and is no drive is refused with its name, the
# reason and what to do; nothing is changed or created.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit

# no TEXT DEVICE: refused for that reason
no ()
{
  refused nbdkit -U "$(own_socket)" "$SG" device="$2" --run true
  contains "$output" "$1"
}

"$SHINGLE" emu create "$tmp/drive" --size=32M --zone-size=4M >/dev/null
mkdir "$tmp/folder"
: >"$tmp/empty"
echo 'a text' >"$tmp/text"
head -c 100000 /dev/urandom >"$tmp/random"
head -c 100 "$tmp/drive" >"$tmp/truncated"
head -c 4096 "$tmp/drive" >"$tmp/truncated2"
mkfifo "$tmp/fifo"
ln -s "$tmp/missing" "$tmp/dangling"
before=$(cd "$tmp" && find . -type f -not -name '*.log' -exec cksum {} + | sort)

no "missing: No such file" "$tmp/missing"
no 'shingle emu create' "$tmp/missing"
no "dangling: No such file" "$tmp/dangling"
no "folder: is a folder" "$tmp/folder"
no "empty: is an empty file" "$tmp/empty"
no "text: is a file, but not that of an emulated drive" "$tmp/text"
no "random: is a file, but not that of an emulated drive" "$tmp/random"
no "truncated" "$tmp/truncated"
no "truncated2" "$tmp/truncated2"
no "fifo: is neither" "$tmp/fifo"
no '/dev/null is neither a SCSI generic node' /dev/null
no 'emulated' "emu:$tmp/random"
no 'missing' "emu:$tmp/missing"
no 'missing' "sg:$tmp/missing"
no "no transport is named 'iscsi'" iscsi:target
no 'NAME:ARGS' iscsi:target
no 'no such file' "$tmp/nothing.so:x"
no 'cannot be loaded' "$(cp "$tmp/random" "$tmp/junk.so"; echo "$tmp/junk.so:x")"
no 'is no transport: it does not export shingle_transport' "$SG:x"
no 'names no drive' ''
no 'colour' emu:ram:colour=blue
rm -f "$tmp/junk.so"
equal "$(cd "$tmp" && find . -type f -not -name '*.log' -exec cksum {} + | sort)" "$before" "files"
