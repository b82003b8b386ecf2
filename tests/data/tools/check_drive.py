"""check_drive.py RAW ZONES [fresh]: judges a raw drive image and its zone table with dmzlib.

Prints the superblock in use and dmzlib's list of problems; exit status 1 when there are any.
With `fresh`, every metadata block of both sets must also be what dmzlib's own formatter makes."""
import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from dmzlib import *

NAMES = {v: k for k, v in COND.items()}
TYPES = {'CONV': CONV, 'SWR': SWR, 'SWP': SWP}

def read_table(path):
    zones = []
    for line in open(path):
        if line[0] == '#':
            continue
        start, length, kind, cond, wp = line.split()
        z = Zone()
        z.start, z.len = int(start), int(length)
        z.type, z.cond = TYPES[kind], NAMES[cond]
        z.wp = z.start if wp == '-' else int(wp)
        z.cap = z.len
        zones.append(z)
    return zones

def check_fresh(v, zones, wanted):
    full = [z for z in zones if z.len == zones[0].len]
    l = layout([full], zones[0].len, wanted)
    bad = []
    if len(full) != len(zones):         # the runt has a bitmap and nothing else
        extra = l['zbm'] * (len(zones) - len(full))
        l['nr_bitmap'] += extra
        l['nr_meta'] += extra
        assert du(l['nr_meta'], l['zone_blocks']) == l['meta_zones']
    s = v.sb
    for which, block in ((0, l['sb0']), (1, l['sb1'])):
        want = mksb(l, block, 1, s['version'], s['label'], s['dmz_uuid'], s['dev_uuid'])
        if v.meta(which, 0) != want:
            bad.append('superblock %d differs' % which)
        for i in range(1, l['nr_meta']):
            byte = b'\xff' if i <= l['nr_map'] else b'\0'
            if v.meta(which, i) != byte * BLK:
                bad.append('set %d block %d differs' % (which, i))
                break
    return bad

def main(raw, table, fresh=None, wanted='16'):
    zones = read_table(table)
    fd = os.open(raw, os.O_RDONLY)
    v = Vol([(fd, 0, len(zones), zones)], zones[0].len, direct=False).load()
    problems = v.check()
    if fresh:
        problems += check_fresh(v, zones, int(wanted))
    s = v.sb
    print('version %d label %s chunks %d reserved %d meta %d' % (s['version'], s['label'].decode(),
          s['nr_chunks'], s['reserved'], s['nr_meta']))
    for p in problems:
        print(p)
    return 1 if problems else 0

if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
