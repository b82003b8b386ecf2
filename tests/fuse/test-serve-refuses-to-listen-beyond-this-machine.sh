#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Without TLS `shingle serve` listens only where other machines cannot connect,
# unless told that this is wanted.
source "$(dirname "$0")/../functions.sh"

export XDG_RUNTIME_DIR=$tmp
command_line () { "$SHINGLE" serve --print --control=- --pid-file="$tmp/pid" /dev/sg0 "$@"; }

for ip in 0.0.0.0 :: 192.0.2.1 2001:db8::1 no-such-host.invalid; do
  refused "$SHINGLE" serve --print --control=- --pid-file="$tmp/pid" /dev/sg0 --ip "$ip"
  contains "$output" "needs TLS"
  contains "$output" "--insecure"
  contains "$(command_line --ip "$ip" --insecure)" "--ipaddr='?$ip'? --port=10809"
  contains "$(command_line --ip "$ip" --tls-psk keys)" "--tls=require --tls-psk=keys"
  contains "$(command_line --ip "$ip" --tls-certificates d)" "--tls=require --tls-certificates=d"
done
for ip in 127.0.0.1 127.3.4.5 ::1; do
  contains "$(command_line --ip "$ip")" "--ipaddr='?$ip'?"
done
contains "$(command_line -p 7000)" "--ipaddr=127.0.0.1 --port=7000"
contains "$(command_line)" "--unix=.*/sg0.sock"

# What goes with what.
refused "$SHINGLE" serve --print
contains "$output" "which drive"
refused "$SHINGLE" serve --print /dev/sg0 --socket s --port 7000
contains "$output" "choose one"
refused "$SHINGLE" serve --print /dev/sg0 --tls-verify-peer
refused "$SHINGLE" serve --print /dev/sg0 --tls-psk a --tls-certificates b
refused "$SHINGLE" serve --print /dev/sg0 --port 0
refused "$SHINGLE" serve --print /dev/sg0 --port 65536
refused "$SHINGLE" serve --print /dev/sg0 --plugin memory

# Options of the volumes, in both forms; the shell can take what is printed.
line=$(command_line --reclaim-low=20 readonly=true "emu:a file; rm -rf x" --user nobody --group nogroup -t 4)
eval "words=($line)"
# shellcheck disable=SC2154
printf '%s\n' "${words[@]}" > "$tmp/words"
for wanted in reclaim_low=20 readonly=true "device=emu:a file; rm -rf x" --user=nobody \
    --group=nogroup --threads=4; do
  grep -Fxq -e "$wanted" "$tmp/words" || fail "no '$wanted' in: $line"
done
