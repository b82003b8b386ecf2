#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""agree.py DIR: `shingle info` and `zones` (JSON) against what sg_inq,
sg_readcap, sg_vpd, sg_rep_zones (raw) and blkzone said of the same drive."""
import json, re, struct, sys

where = sys.argv[1]
info = json.load(open(where + '/info.json'))
zones = json.load(open(where + '/zones.json'))
text = {n: open('%s/%s.txt' % (where, n)).read() for n in ('inq', 'readcap', 'zbc', 'blkzone')}
wrong = 0


def same(what, ours, theirs):
    global wrong
    if ours != theirs:
        wrong += 1
        if wrong < 20:
            print('%s: we say %r, the other tool %r' % (what, ours, theirs))


def found(name, pattern):
    return re.search(pattern, text[name]).group(1).strip()


drive = info['drive']
same('vendor', drive['vendor'].strip(), found('inq', r'Vendor identification: (.*)'))
same('product', drive['product'].strip(), found('inq', r'Product identification: (.*)'))
same('revision', drive['revision'].strip(), found('inq', r'Product revision level: (.*)'))
same('serial', drive['serial'], found('inq', r'Unit serial number: (.*)'))
same('model', drive['model'] == 'host-managed', 'host managed' in text['inq'])
sector = int(found('readcap', r'Logical block length=(\d+)'))
same('sector', drive['logical_block_bytes'], sector)
same('physical', drive['physical_block_bytes'],
     sector << int(found('readcap', r'per physical block exponent=(\d+)')))
same('size', drive['size_bytes'], int(found('readcap', r'Device size: (\d+) bytes')))
# A decimal number, from sg3-utils 1.48 on a hexadecimal one, or words for "no limit".
most = found('zbc', r'Maximum number of open sequential write required zones: (.*)')
most = int(most, 0) if most[0].isdigit() else 0
same('open zones', info['zones']['max_open'], 0 if most == 0xffffffff else most)

# SCSI's report: a header of 64 bytes, 64 bytes a zone.
raw = open(where + '/report.bin', 'rb').read()
count = struct.unpack_from('>I', raw)[0] // 64
types = {1: 'conventional', 2: 'sequential write required'}
conditions = {0: 'not write pointer', 1: 'empty', 2: 'implicitly open', 3: 'explicitly open',
              4: 'closed', 13: 'read-only', 14: 'full', 15: 'offline'}
same('zones in the report', len(zones), count)
same('zones of info', info['zones']['count'], count)
seen = {}
for i, ours in enumerate(zones):
    at = 64 + 64 * i
    kind, cond = raw[at] & 15, raw[at + 1] >> 4
    length, start, wp = struct.unpack_from('>QQQ', raw, at + 8)
    name = 'zone %d ' % i
    same(name + 'number', ours['zone'], i)
    same(name + 'start', ours['start_bytes'], start * sector)
    same(name + 'length', ours['length_bytes'], length * sector)
    same(name + 'type', ours['type'], types[kind])
    same(name + 'condition', ours['condition'], conditions[cond])
    if cond in (2, 3, 4):
        same(name + 'write pointer', ours.get('write_pointer_bytes'), wp * sector)
    same(name + 'open or closed', 'write_pointer_bytes' in ours, cond in (2, 3, 4))
    seen[conditions[cond]] = seen.get(conditions[cond], 0) + 1
same('conditions', info['zones']['conditions'], seen)

# blkzone: 512-byte sectors; the write pointer is relative to the start.
pattern = re.compile(r'start: 0x(\w+), len 0x(\w+), cap 0x(\w+), wptr 0x(\w+).*zcond:\s*(\d+)')
lines = [pattern.search(l).groups() for l in text['blkzone'].splitlines()]
same('zones of blkzone', len(zones), len(lines))
for ours, (start, length, cap, wp, cond) in zip(zones, lines):
    name = 'blkzone, zone %d ' % ours['zone']
    same(name + 'start', ours['start_bytes'], int(start, 16) * 512)
    same(name + 'length', ours['length_bytes'], int(length, 16) * 512)
    same(name + 'capacity', ours['capacity_bytes'], int(cap, 16) * 512)
    same(name + 'condition', ours['condition'], conditions[int(cond)])
    if int(cond) in (2, 3, 4):
        same(name + 'write pointer', ours.get('write_pointer_bytes', 0) - ours['start_bytes'],
             int(wp, 16) * 512)
print('%d zones (%s): %d differences'
      % (count, ', '.join('%d %s' % (n, c) for c, n in sorted(seen.items())), wrong))
sys.exit(1 if wrong else 0)
