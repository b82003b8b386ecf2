#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A clear error that names the thing, a bad status, and nothing changed.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit

new_drive good --size=64M --zone-size=1M --conventional=12
cd "$tmp"
head -c 1000 good >short
head -c 8M /dev/urandom >random
: >empty
truncate -s 16M zeroes
head -c 2M zeroes >foreign && mkfs.ext4 -q -F foreign
mkdir folder
ln -s nowhere dangling
"$SHINGLE" emu create blank --size=64M --zone-size=1M --conventional=12 >/dev/null
"$SHINGLE" emu create regular --size=64M --model=regular >/dev/null
# The files of emulated drives hold attentions and counters besides the medium.
sums ()
{
  sha256sum short random empty zeroes foreign
  for drive in good blank regular; do drive_sum $drive; done
}
sums >sums.before

# said WORD ARGUMENT...: refused, and the message holds WORD.
said ()
{
  local word=$1
  shift
  refused nbdkit -U "$(own_socket)" "$ZONED" "$@" --run true
  contains "$output" "$word"
}

said 'no drive is named'
said 'names no drive' device=
for drive in nothing short random empty zeroes foreign folder dangling blank regular; do
  said "$drive" "$drive"
done
said 'sg0|sg99' /dev/sg99
said nosuch nosuch:whatever
said "unknown option 'colour'" good colour=red
said 'reclaim_low=0.*1 to 99' good reclaim_low=0
said 'reclaim_low=100' good reclaim_low=100
said 'reclaim_high=101.*1 to 100' good reclaim_high=101
said 'reclaim_high=20 is not above' good reclaim_low=30 reclaim_high=20
said 'cache_size=1k.*1M to 1G' good cache_size=1k
said 'cache_size=2G' good cache_size=2G
said 'probe_interval=never' good probe_interval=never
said 'probe_interval=25h' good probe_interval=25h
said 'reorder_window=2s' good reorder_window=2s
said 'readonly=perhaps' good readonly=perhaps
said 'format=perhaps' good format=perhaps
said 'format=true contradicts' good format=true readonly=true
said 'tags=0' good tags=0
said 'tags=99999' good tags=99999
said 'hwqs=0' good hwqs=0
said 'sched=fast' good sched=fast
said 'prio=high' good prio=high
said 'read_expire' good read_expire=soon
said 'control' good control=/no/such/folder/socket
said 'export=' good export=
said 'emu: names no drive' emu:
said 'two names' good export=a export=b
sums >sums.after
cmp sums.before sums.after || { diff sums.before sums.after >&2; fail 'something was changed'; }

# format=true makes a blank drive serve, leaves a volume alone, and refuses
# what holds anything else.
timeout 60 nbdkit -U "$(own_socket)" "$ZONED" blank format=true \
  --run 'qemu-io -f raw "$uri" -c "write -P 5 0 64k" >/dev/null'
timeout 60 nbdkit -U "$(own_socket)" "$ZONED" blank format=true \
  --run 'qemu-io -f raw "$uri" -c "read -P 5 0 64k" >/dev/null'
checked blank
timeout 60 nbdkit -U "$(own_socket)" "$ZONED" emu:ram:size=256M,zone-size=4M,conventional=12 format=true \
  --run 'qemu-io -f raw "$uri" -c "write -P 5 0 64k" -c "read -P 5 0 64k" >/dev/null'

# not_formatted DRIVE PATTERN NBDKIT-ARGUMENT...
not_formatted ()
{
  local before drive=$1 pattern=$2
  shift 2
  before=$(drive_sum "$drive")
  refused nbdkit -U "$(own_socket)" "$@" "$ZONED" "$drive" format=true --run true
  contains "$output" "$pattern"
  equal "$(drive_sum "$drive")" "$before" "what $drive holds"
}

# Neither what a file system left nor bytes that nobody knows are lost.
"$SHINGLE" emu create other "${small_drive[@]}" --conventional=all >/dev/null
"$SHINGLE" emu export other --raw=image --zones=table >/dev/null
cp image odd
mkfs.ext4 -q -L photos image
"$SHINGLE" emu import other --force --raw=image --zones=table >/dev/null
not_formatted other 'an ext4 file system "photos"; nothing was changed'
printf x | dd of=odd bs=1 seek=$((9 * 4 * 1024 * 1024 + 100000)) conv=notrunc status=none
"$SHINGLE" emu import unknown --raw=odd --zones=table >/dev/null
not_formatted unknown 'data in 1 conventional zone \(it is zone 9\); nothing was changed'

# A server that was asked not to write does not format either.
"$SHINGLE" emu create unformatted "${small_drive[@]}" >/dev/null
for r in -r -fr --readonly --read-only; do
  not_formatted unformatted 'format=true contradicts nbdkit.s option -r' "$r"
done
