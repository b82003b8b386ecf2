#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Drives that the kernel's dm-zoned wrote: check finds nothing wrong, info says
# what they are, and a repair changes no block that is read.
. "$(dirname "$0")/../functions.sh"
requires_program python3 zstd

images=$top_srcdir/tests/data/images

# field JSON-PATH
field () { python3 -c 'import json, sys
v = json.load(sys.stdin)
for k in sys.argv[1].split("."): v = v[int(k) if k.isdigit() else k]
print(v)' "$1" <"$tmp/info"; }

for image in "$images"/*/; do
  name=$(basename "$image")
  zstd -dqf --sparse "$image/device.img.zst" -o "$tmp/raw"
  "$SHINGLE" emu import "$tmp/drive" --force --raw="$tmp/raw" --zones="$image/zones.txt" >/dev/null
  "$SHINGLE" check "$tmp/drive" >"$tmp/log" || { cat "$tmp/log"; fail "check of $name"; }
  cat "$tmp/log"
  ! grep -q '^error' "$tmp/log" || fail "errors in $name"
  contains "$(cat "$tmp/log")" ': clean$'

  "$SHINGLE" info "$tmp/drive" --json --used >"$tmp/info"
  equal "$(field volume.version)" 2
  equal "$(field volume.label)" "$name"
  equal "$(field drive.model)" host-managed
  equal "$(field zones.count)" "$(grep -vc '^#' "$image/zones.txt")"
  equal "$(field zones.conventional)" "$(grep -c CONV "$image/zones.txt")"
  chunks=$(awk 'END { print $1 + $2 }' "$image/manifest.txt")
  equal "$(field volume.size_bytes)" $((chunks * 4096)) "size of $name"
  valid=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/tests/data/tools" python3 - "$tmp/raw" "$image/zones.txt" <<'PYTHON'
import os, sys
from check_drive import *
zones = read_table(sys.argv[2])
v = Vol([(os.open(sys.argv[1], os.O_RDONLY), 0, len(zones), zones)], zones[0].len, direct=False).load()
print(4096 * sum(v.weight(z) for z in v.zones))
PYTHON
)
  equal "$(field volume.valid_bytes)" "$valid" "valid bytes of $name"
  "$SHINGLE" zones "$tmp/drive"

  "$SHINGLE" check "$tmp/drive" --repair >"$tmp/log"
  cat "$tmp/log"
  "$SHINGLE" check "$tmp/drive" >"$tmp/log"
  ! grep -Eq '^(error|note)' "$tmp/log" || fail "$name after repair: $(cat "$tmp/log")"
  mkdir -p "$tmp/$name"
  cp "$image"/manifest.txt "$tmp/$name/"
  [ ! -f "$image/later.txt" ] || cp "$image/later.txt" "$tmp/$name/"
  "$SHINGLE" emu export "$tmp/drive" --raw="$tmp/$name/device.img" --zones="$tmp/$name/zones.txt" >/dev/null
  PYTHONDONTWRITEBYTECODE=1 python3 "$top_srcdir/tests/data/tools/verify_image.py" "$tmp/$name" >"$tmp/verdict" ||
    fail "$name: $(cat "$tmp/verdict")"
  cat "$tmp/verdict"
  contains "$(cat "$tmp/verdict")" 'bad 0 .*check \[\]'
  rm -rf "${tmp:?}/$name"
done
