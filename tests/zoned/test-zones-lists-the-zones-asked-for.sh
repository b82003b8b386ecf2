#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The window of 'shingle zones', and windows that no drive has.
. "$(dirname "$0")/../functions.sh"

"$SHINGLE" emu create "$tmp/drive" --size=64M --zone-size=4M --conventional=4 >"$tmp/out"
equal "$("$SHINGLE" zones "$tmp/drive" --all | tail -n +2 | wc -l)" 16
equal "$("$SHINGLE" zones "$tmp/drive" --all --from=3 --count=2 | awk 'NR > 1 { print $1 }' | xargs)" '3 4'
equal "$("$SHINGLE" zones "$tmp/drive" --all --from=15 | awk 'NR > 1 { print $1 }')" 15
for bad in 16 99 4294967295; do
  refused "$SHINGLE" zones "$tmp/drive" --from=$bad
  contains "$output" 'has only 16 zones'
done
refused "$SHINGLE" zones "$tmp/drive" --count=0
refused "$SHINGLE" zones "$tmp/drive" --condition=tired
