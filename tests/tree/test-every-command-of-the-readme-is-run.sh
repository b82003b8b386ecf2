#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every command that README.md names in a sentence or a table works as printed, with its
# words in capitals replaced; its blocks are run whole by other tests, named below.  A
# command that is not known here is a failure, so that none is added without a test.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdinfo
cd "$tmp"
readme=$top_srcdir/README.md

# block NAME FILE: that block is there, and FILE runs it
block ()
{
  grep -qx "<!-- $1 -->" "$readme" || fail "README.md has no block '$1'"
  grep -q "<!-- $1 -->" "$top_srcdir/tests/$2" || fail "tests/$2 does not run the block '$1'"
}
block try tree/test-commands-of-the-readme-work.sh
block mount fuse/test-mount-commands-of-the-readme-work.sh
block drive vm/nbd-client-examples-work.vm
# Blocks without a mark: the two commands of the start, fstab's line and the build.
unmarked=$(awk '/^<!-- [a-z]+ -->/ { marked = 1; next } /^[^ ]/ { marked = 0 }
                /^    / && !marked && !/[│┌└]/ { sub (/^ +/, ""); sub (/  +#.*/, ""); print }' "$readme")
equal "$(grep -vE '^(nbd-client  qemu|programs  )' <<<"$unmarked")" \
'examples/quickstart
tests/run
/dev/sg2  /mnt/disk  fuse.shingle  noauto,allow_other  0  0
autoreconf -fi && ./configure && make && make check' 'blocks that no test is known for'

new_drive drive
new_drive drive2
"$SHINGLE" serve drive -U "$tmp/sock" -P "$tmp/pid" --control="$tmp/control" >/dev/null
stop () { [ ! -s "$tmp/$1" ] || kill "$(cat "$tmp/$1")" 2>/dev/null || true; }
cleanup stop pid
uri="nbd+unix:///?socket=$tmp/sock"
mkdir mountpoint
unmount () { fusermount3 -u "$1" && wait_for 20 eval "! mountpoint -q '$1'"; }

# run COMMAND: with the programs of this tree, and words that stand for something
run ()
{
  local text=$1
  text=${text//DEVICE/${device:-$tmp/drive2}}
  text=${text//SOCKET/${socket:-$tmp/control}}
  text=${text//NBD-URI/\'$uri\'}
  text=${text//MOUNTPOINT/$tmp/mountpoint}
  text=${text/#shingle /$SHINGLE }
  text=${text//PLUGIN .../null}
  text=${text//--filter=blkmq/--filter=$BLKMQ}
  text=${text/ zoned / $ZONED }
  text=${text/ sg / $SG }
  echo "+ $text"
  bash -ec "$text" || fail "README.md's command does not work: $1"
}

seen=0
while read -r command; do
  seen=$((seen + 1))
  case $command in
    'shingle mount'|'shingle serve'|'shingle top'|'shingle COMMAND')
      ;;                        # no command line, but a name in a sentence
    'shingle COMMAND --help')
      for c in $("$SHINGLE" --help | sed -nE 's/^  ([a-z]+) .*/\1/p' | grep -vx shingle); do
        run "shingle $c --help" >/dev/null
      done ;;
    'shingle format DEVICE')
      "$SHINGLE" emu create blank "${small_drive[@]}" >/dev/null
      device=$tmp/blank run "$command" ;;
    'nbdkit -U SOCKET zoned DEVICE')
      socket=$tmp/sock2 run "${command/nbdkit/nbdkit -P $tmp/pid2}"
      nbdinfo --size "nbd+unix:///?socket=$tmp/sock2"
      kill "$(cat pid2)" && wait_for 20 eval "! kill -0 $(cat pid2)" ;;
    'shingle serve DEVICE')
      run "$command -U $tmp/sock3 -P $tmp/pid3"
      kill "$(cat pid3)" && wait_for 20 eval "! kill -0 $(cat pid3)" ;;
    'shingle mount DEVICE MOUNTPOINT'|'shingle mount NBD-URI MOUNTPOINT')
      [ -w /dev/fuse ] || continue
      cleanup eval "fusermount3 -uz '$tmp/mountpoint' 2>/dev/null || true"
      run "$command"
      ls -l mountpoint
      unmount "$tmp/mountpoint"
      wait_for 20 "$SHINGLE" check drive2 ;;
    'shingle top SOCKET') run "$command --once" ;;
    'shingle stat SOCKET --prometheus > FILE.prom')
      run "$command" && [ -s FILE.prom ] ;;
    'shingle zones DEVICE')
      run "$command" && run "$command --map" && run "$command --svg FILE" && [ -s FILE ] ;;
    'shingle reclaim SOCKET --pause')
      run "$command" && run "${command/--pause/--now}" && run "${command/--pause/--resume}" ;;
    'shingle doctor'|'shingle info DEVICE'|'shingle check DEVICE'|'shingle check DEVICE --repair'|\
    'shingle zones DEVICE --map'|'shingle stat SOCKET --prometheus')
      run "$command" ;;
    'shingle emu create FILE --size=1T')
      rm -f FILE
      run "$command" && "$SHINGLE" info FILE >/dev/null && rm FILE ;;
    'shingle serve /dev/sg1 /dev/sg2')
      "$SHINGLE" emu create third "${small_drive[@]}" >/dev/null
      "$SHINGLE" format third --label=third >/dev/null
      command=${command//\/dev\/sg1/$tmp/drive2}
      run "${command//\/dev\/sg2/$tmp/third} -U $tmp/sock4 -P $tmp/pid4"
      equal "$(nbdinfo --list --json "nbd+unix:///?socket=$tmp/sock4" | grep -c '"export-name"')" 2 exports
      kill "$(cat pid4)" && wait_for 20 eval "! kill -0 $(cat pid4)" ;;
    'nbdkit sg /dev/sgN')
      run "${command/\/dev\/sgN/$tmp/drive2} -U - --run 'nbdinfo --size \"\$uri\"'" ;;
    'nbdkit --filter=blkmq PLUGIN ...')
      run "$command -U - --run 'nbdinfo --size \"\$uri\"'" ;;
    'lsscsi -g'|'ls -l /sys/class/scsi_generic/*/device/block')
      ;;                        # of other packages, for drives that are there
    'losetup --direct-io=on')   ;;      # fuse/test-file-systems-work-over-loop.sh
    'mkfs.ext4 -E nodiscard')
      truncate -s 16M disk && run "$command -q -F disk" ;;
    'mkfs.xfs -K')
      ! command -v mkfs.xfs >/dev/null || { truncate -s 400M disk && run "$command -q -f disk"; } ;;
    'make install')             ;;      # tree/test-tarball-and-installation-are-complete.sh
    'examples/capture-screens') [ -x "$top_srcdir/$command" ] ;;
    'tests/install-packages build serve test')
      for kind in build serve test; do
        grep -q "$kind" "$top_srcdir/tests/packages.list" || fail "no packages for $kind"
      done ;;
    'tests/distro/run bookworm') "$top_srcdir/tests/distro/run" --help >/dev/null ;;
    *) fail "README.md names a command that no test runs: $command" ;;
  esac
done < <(grep -oE '`[^`]+`' "$readme" | tr -d '`' |
           grep -E '^(shingle|nbdkit|nbd-client|lsscsi|ls|losetup -|mkfs\.|make|tests/(install|distro)|examples/cap)' | sort -u)
[ $seen -ge 30 ] || fail "only $seen commands found in README.md"
stop pid
