#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `shingle emu create`, `set` and `show`: shape, settings by either name, files,
# counters that outlive the process that counted.
. "$(dirname "$0")/../functions.sh"

d=$tmp/drive

field () { "$SHINGLE" emu show "$d" --json | python3 -c "
import json, sys
o = json.load(sys.stdin)
for k in sys.argv[1].split('/'): o = o[int(k)] if isinstance(o, list) else o[k]
print(o)" "$1"; }

out=$("$SHINGLE" emu create "$d" --size=1G --zone-size=16M --conventional=12 --format=512e)
contains "$out" 'host-managed drive of 1G, 512-byte blocks, 64 zones of 16M'
contains "$out" "$d"
equal "$(field nr_zones)" 64
equal "$(field settings/physblk_exp)" 3
equal "$(field zones/0/count)" 12
equal "$(field zones/1/count)" 52
equal "$(field zones/1/condition)" empty
equal "$(field files/0)" "$d"

# scsi_debug's names make the same drive.
"$SHINGLE" emu create "$d" --force --dev_size_mb=1024 --zone_size_mb=16 \
  --zone_nr_conv=12 --sector_size=4096 --zbc=aware --zone-cap-mb=12 >"$tmp/out"
equal "$(field settings/model)" host-aware
equal "$(field settings/size)" $((1 << 30))
equal "$(field settings/zone_cap)" $((12 << 20))
equal "$(field settings/lbs)" 4096

# What can be changed is changed, in the file.
"$SHINGLE" emu set "$d" wp=1 inq_vendor=ACME fault=read:lba=5:sense=03/11/00 zone=20:offline
equal "$(field settings/wp)" True
equal "$(field settings/inq_vendor)" ACME
equal "$(field faults/0)" read:lba=5:sense=03/11/00
"$SHINGLE" emu set "$d" fault=none zone=20:good
equal "$(field faults)" '[]'
contains "$("$SHINGLE" emu show "$d")" 'inq_vendor=ACME'

# Counters of a process that ended are there; they can be reset.
"$SHINGLE" emu create "$d" --force --size=256M --zone-size=4M --conventional=12 >"$tmp/out"
"$SHINGLE" format "$d" >"$tmp/out"
[ "$(field counters/write-16)" -gt 0 ] || fail "format wrote nothing?"
"$SHINGLE" emu set "$d" counters=0
equal "$(field counters/commands)" 0

# Large drives are made of several files, which the command names.
out=$("$SHINGLE" emu create "$tmp/big" --size=28T --zone-size=256M --conventional=1043)
for part in big big.1 big.2 big.3; do
  [ -e "$tmp/$part" ] || fail "no file $part"
  contains "$out" "$tmp/$part\$"
done
