#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The filter before and behind other filters, in front of plugins of every
# thread model, with few tags: what is written comes back.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdcopy cmp

head -c 8M /dev/urandom >"$tmp/data"

round_trip ()
{
  start_server stack "$@"
  timeout 120 nbdcopy "$tmp/data" "$uri"
  timeout 120 nbdcopy "$uri" "$tmp/back"
  cmp "$tmp/data" "$tmp/back" || fail "nbdkit $*: data differs"
  stop_server
}

for other in cow cache noparallel stats readahead; do
  extra=()
  [ "$other" != stats ] || extra=(statsfile="$tmp/stats")
  [ "$other" != cache ] || extra=(cache=writethrough)
  for sched in deadline none; do
    round_trip --filter="$BLKMQ" --filter="$other" memory 8M tags=2 "sched=$sched" "${extra[@]}"
    round_trip --filter="$other" --filter="$BLKMQ" memory 8M tags=3 "sched=$sched" "${extra[@]}"
  done
done
round_trip --filter="$BLKMQ" --filter=rate memory 8M tags=4 rate=800M
round_trip --filter="$BLKMQ" --filter=delay memory 8M tags=8 delay-write=1ms delay-read=1ms
round_trip --filter=retry --filter="$BLKMQ" memory 8M tags=2 retries=2

for model in serialize-all-requests serialize-requests serialize-connections; do
  round_trip --filter="$BLKMQ" --filter=noparallel memory 8M "serialize=${model#serialize-}" tags=2
done

# Twice the same object would be one queue inside itself.
refused nbdkit -U "$(own_socket)" --filter="$BLKMQ" --filter="$BLKMQ" memory 1M --run true
contains "$output" once
