#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Several drives, one server: names from export=, from labels, from files; the
# first is default; an unknown name is refused; two volumes of metadata
# version 1, which have no identity of their own, are served together.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdinfo

cd "$tmp"
for name in a b c d; do
  "$SHINGLE" emu create $name "${small_drive[@]}" >/dev/null
done
"$SHINGLE" format a --label=alpha >/dev/null
"$SHINGLE" format b --metadata-version=1 >/dev/null
"$SHINGLE" format c --metadata-version=1 >/dev/null
"$SHINGLE" format d --label=alpha >/dev/null

start_server nbd "$ZONED" a b c export='third one' d
list=$(nbdinfo --list "$uri")
for name in alpha b 'third one' d; do
  contains "$list" "export=\"$name\""
done
contains "$list" 'description: .*host-managed'
equal "$(nbdinfo "$uri" | grep -c '^export="alpha"')" 1 "default export is the first"

n=1
for name in alpha b third%20one d; do
  named="nbd+unix:///$name?socket=$tmp/nbd.sock"
  qemu-io -f raw "$named" -c "write -P $n 0 64k" -c flush >/dev/null
  n=$((n + 1))
done
n=1
for name in alpha b third%20one d; do
  qemu-io -f raw "nbd+unix:///$name?socket=$tmp/nbd.sock" -c "read -P $n 0 64k" >/dev/null
  n=$((n + 1))
done
qemu-io -f raw "$uri" -c "read -P 1 0 64k" >/dev/null

for name in nobody ALPHA alph alpha/ alphaa; do
  refused nbdinfo "nbd+unix:///$name?socket=$tmp/nbd.sock"
done
contains "$(cat nbd.log)" "no export is named 'nobody'"
nbdinfo --size "$uri" >/dev/null
stop_server
for name in a b c d; do checked $name; done

# Two names alike are refused before anything is served; so is the same drive twice.
refused nbdkit -f -U s1 "$ZONED" a export=x b export=x
contains "$output" "two exports would be named 'x'"
refused nbdkit -f -U s2 "$ZONED" a a
refused nbdkit -f -U s3 "$ZONED" export=x a
contains "$output" 'export=x'
