#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every metadata block of both sets, on drives of all shapes, is what the
# independent formatter of tests/data/tools makes of the same zones.
. "$(dirname "$0")/../functions.sh"
requires_program python3

tools=$top_srcdir/tests/data/tools

# same RESERVED FORMAT-OPTION CREATE-OPTION...
same ()
{
  local reserved=$1 option=$2
  shift 2
  "$SHINGLE" emu create "$tmp/drive" --force "$@" >/dev/null
  "$SHINGLE" format "$tmp/drive" ${option:+"$option"} --reserved="$reserved" >/dev/null 2>"$tmp/warnings"
  "$SHINGLE" check "$tmp/drive" >/dev/null
  "$SHINGLE" emu export "$tmp/drive" --raw="$tmp/raw" --zones="$tmp/zones" >/dev/null
  PYTHONDONTWRITEBYTECODE=1 python3 "$tools/check_drive.py" "$tmp/raw" "$tmp/zones" fresh "$reserved" \
    >"$tmp/verdict" || fail "$*: $(cat "$tmp/verdict")"
  echo "$*: $(cat "$tmp/verdict")"
}

# The worked examples of the format, A to E.
same 16 --label=A --size=512M --zone-size=16M --conventional=8
same 16 --label=B --size=128M --zone-size=4M --conventional=16
same 16 --label=C --size=512M --zone-size=64M --conventional=4
same 16 --label=D --size=320M --zone-size=1M --conventional=16
same 16 --label=E --size=1536M --zone-size=256M --conventional=4
# --seq of A.
for reserved in 1 7 8 9 20; do
  same $reserved --label=A --size=512M --zone-size=16M --conventional=8
done
# Version 1, default labels, all block sizes, host-aware, a runt, all conventional.
same 16 --metadata-version=1 --size=512M --zone-size=16M --conventional=8
same 16 '' --size=512M --zone-size=16M --conventional=8 --serial=0123456789abcdef0123456789abcdef
same 16 '' --size=512M --zone-size=16M --conventional=8 --format=4Kn
same 16 '' --size=512M --zone-size=16M --conventional=8 --format=512n
same 16 '' --size=512M --zone-size=16M --conventional=8 --model=host-aware
same 16 '' --size=515M --zone-size=16M --conventional=8
contains "$(cat "$tmp/warnings")" 'zone \(32\) is shorter than the others'
same 16 '' --size=128M --zone-size=4M --conventional=all
# The first conventional zone is not zone 0.
same 4 '' --size=128M --zone-size=4M --conventional=5-12
