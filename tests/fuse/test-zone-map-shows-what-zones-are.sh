#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shingle zones --map and --svg against the list of the same drive.
source "$(dirname "$0")/../functions.sh"
requires_program python3

new_drive drive --size=256M --zone-size=4M --conventional=12
nbdkit -U "$(own_socket)" "$ZONED" "$tmp/drive" \
  --run 'qemu-io -f raw -c "write 0 6M" -c "write 64M 4M" "$uri"' \
    >/dev/null 2>&1 || skip "needs qemu-io"
"$SHINGLE" emu set "$tmp/drive" zone=40:offline zone=41:read-only
COLUMNS=80 "$SHINGLE" zones "$tmp/drive" --map --svg "$tmp/map.svg" > "$tmp/map"
"$SHINGLE" zones "$tmp/drive" --json > "$tmp/zones.json"
python3 - "$tmp/map" "$tmp/zones.json" "$tmp/map.svg" <<'PYTHON'
import json, re, sys
import xml.dom.minidom
lines = open(sys.argv[1]).read().splitlines()
drawn = "".join(m.group(1) for l in lines if (m := re.match(r" *\d+ (\S+)$", l)))
zones = json.load(open(sys.argv[2]))
assert len(drawn) == len(zones) == 64, (len(drawn), len(zones))
letters = {"metadata": "M", "data": "D", "buffer": "B"}
for letter, z in zip(drawn, zones):
    if z["condition"] == "offline":
        assert letter == "X", z
    elif z["condition"] == "read-only":
        assert letter == "R", z
    elif z["use"] in letters:
        assert letter.upper() == letters[z["use"]], (letter, z)
        if "write_pointer_bytes" in z:
            assert letter.islower(), (letter, z)
        if z["condition"] == "full":
            assert letter.isupper(), (letter, z)
    else:
        assert letter == (":" if z["type"].startswith("conv") else "."), (letter, z)
assert drawn.count("D") >= 1 and drawn.count("d") >= 1 and "M" in drawn, drawn
svg = xml.dom.minidom.parse(sys.argv[3])
assert len(svg.getElementsByTagName("title")) == 64
PYTHON
refused "$SHINGLE" zones "$tmp/drive" --svg "$tmp/no/such/folder"

# Many zones share a letter; hundreds of thousands are no problem.
"$SHINGLE" emu create "$tmp/large" --size=15T --zone-size=256M --conventional=100 >/dev/null
COLUMNS=100 "$SHINGLE" zones "$tmp/large" --map > "$tmp/map"
contains "$(cat "$tmp/map")" "Each letter stands for 16 zones"
[ "$(wc -l < "$tmp/map")" -lt 80 ] || fail "the map is $(wc -l < "$tmp/map") lines long"
