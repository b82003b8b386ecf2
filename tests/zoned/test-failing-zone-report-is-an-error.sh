#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A drive that fails its first, second or a later REPORT ZONES for good: a clear
# error from every command, no crash, and the drive as it was.
. "$(dirname "$0")/../functions.sh"

"$SHINGLE" emu create "$tmp/drive" --size=3000M --zone-size=1M --conventional=64 >/dev/null
"$SHINGLE" format "$tmp/drive" >/dev/null
for skip in 0 1 2; do
  for command in 'format --force' check zones info; do
    "$SHINGLE" emu set "$tmp/drive" fault=none fault="report-zones:skip=$skip:sense=04/44/00:count=0" >/dev/null
    # shellcheck disable=SC2086
    if output=$(timeout 60 "$SHINGLE" $command "$tmp/drive" 2>&1); then
      [ "$command" = info ] || [ $skip -gt 0 ] || fail "$command worked without zones: $output"
    else
      contains "$output" '(zone report|report zones|REPORT ZONES)'
    fi
  done
done
"$SHINGLE" emu set "$tmp/drive" fault=none >/dev/null
