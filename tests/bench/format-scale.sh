#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Time and resident memory of format, check, info and zones on sparse emulated
# drives of 3.5 to 28 TB with zones of 256 MiB, 1 % conventional; also with every
# chunk mapped to a full zone.  Medians of ROUNDS (default 3).
. "$(dirname "$0")/../functions.sh"
requires_program python3

# As little as possible is imported: what the child has resident just before its
# exec counts too, and is the least that can be seen (about 9 MiB).
cat >"$tmp/measure.py" <<'PYTHON'
import os, sys, time
rounds, argv = int(sys.argv[1]), sys.argv[2:]
seconds, rss = [], []
null = os.open('/dev/null', os.O_RDWR)
for _ in range(rounds):
    begin = time.monotonic()
    child = os.posix_spawn(argv[0], argv, os.environ,
                           file_actions=[(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)])
    _, status, usage = os.wait4(child, 0)
    seconds.append(time.monotonic() - begin)
    rss.append(usage.ru_maxrss / 1024)
    if status:
        sys.exit('failed: %s' % argv)
print('%8.2f s %6.1f MiB' % (sorted(seconds)[rounds // 2], max(rss)), end='')
PYTHON
measure () { python3 -S -E "$tmp/measure.py" "${ROUNDS:-3}" "$SHINGLE" "$@"; }

# measure_all NAME [format]
measure_all ()
{
  printf '%-18s' "$1"
  if [ -n "${2:-}" ]; then
    measure format "$tmp/drive" --force
  else
    printf '%21s' ''
  fi
  measure check "$tmp/drive"
  measure info "$tmp/drive"
  measure zones "$tmp/drive"
  echo
}

printf '%-18s %20s %20s %20s %20s\n' drive format check info zones
for terabytes in 3.5 7 14 28; do
  zones=$(python3 -c "print(int($terabytes * 10**12 / (256 << 20)))")
  "$SHINGLE" emu create "$tmp/drive" --force --size=$((zones * 256))M --zone-size=256M \
    --conventional=$((zones / 100)) >/dev/null
  measure_all "$terabytes TB empty" format
  "$top_builddir/tests/bench/map-all" "$tmp/drive"
  measure_all "$terabytes TB mapped"
done
