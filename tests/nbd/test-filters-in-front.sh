#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit's own filters before the plugin: same bytes through cow, cache,
# blocksize, noparallel and readahead, in both orders where order matters.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit qemu-io

new_drive drive
for stack in cache blocksize noparallel nozero noextents fua readahead multi-conn \
             'cache blocksize' 'blocksize cache' 'log stats'; do
  arguments=()
  for filter in $stack; do arguments+=(--filter="$filter"); done
  extra=()
  case $stack in
    blocksize*|*' blocksize') extra+=(minblock=4k) ;;
    log*) extra+=(logfile="$tmp/log" statsfile="$tmp/stats") ;;
    fua) extra+=(fuamode=force) ;;
  esac
  start_server nbd "${arguments[@]}" "$ZONED" "$tmp/drive" ${extra[@]+"${extra[@]}"}
  timeout 60 qemu-io -f raw "$uri" -c 'write -P 7 512 100k' -c 'write -z 4096 8k' -c 'discard 1M 64k' \
    -c 'write -f -P 8 2M 64k' -c 'read -P 7 512 3584' -c 'read -P 0 4096 8k' -c 'read -P 8 2M 64k' \
    -c flush >/dev/null || fail "through $stack"
  stop_server
  checked drive
done
# Writes kept in a layer above: the drive stays as it is.
before=$(drive_sum drive)
start_server nbd --filter=cow "$ZONED" "$tmp/drive" readonly=true
timeout 60 qemu-io -f raw "$uri" -c 'write -P 9 0 1M' -c 'read -P 9 0 1M' >/dev/null
stop_server
equal "$(drive_sum drive)" "$before" 'drive behind cow'
