#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/../functions.sh"
requires_program shellcheck

cd "$top_srcdir"
mapfile -t scripts < <(
  find tests examples .ci server plugins -type f -not -path '*/build*/*' -not -path '*/cache/*' \
       -exec awk 'FNR == 1 { if (/^#!.*(bash|\/sh)$/) print FILENAME; nextfile }' {} +)
[ ${#scripts[@]} -gt 3 ] || fail "found only ${#scripts[@]} scripts"
shellcheck --severity=warning --exclude=SC1091,SC2154,SC2034,SC2164 \
           "${scripts[@]}" tests/functions.sh
