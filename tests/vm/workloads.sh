# SPDX-License-Identifier: BSD-3-Clause
# The work that kernel dm-zoned and Shingle are compared by (tests/vm/compare.vm):
# each runs on a volume's block device $1, freshly formatted before the first.
# Commands are counted from the work's start until a sync after it.

FIO=(fio --ioengine=libaio --direct=1 --name=work --minimal --norandommap --randseed=42
     --output=/tmp/fio.out)

work_mkfs () { mkfs.ext4 -F -q "$1"; }
work_sequential () {
  "${FIO[@]}" --filename="$1" --rw=write --bs=256k --iodepth=8 --offset=300m --size=256m --end_fsync=1
}
work_overwrite () {
  "${FIO[@]}" --filename="$1" --rw=randwrite --bs=4k --iodepth=16 --offset=300m --size=256m \
    --io_size="${2:-2m}"
}
work_fsync () {
  "${FIO[@]}" --filename="$1" --rw=randwrite --bs=4k --iodepth=1 --offset=300m --size=32m \
    --io_size=8m --fsync=8
}
work_read () {
  "${FIO[@]}" --filename="$1" --rw=randread --bs=4k --iodepth=16 --offset=300m --size=256m \
    --io_size=8m
}

# measure SIDE WORK DEVICE [ARGUMENT]: runs it, leaves the counts in
# /tmp/counts.SIDE.WORK and the wall time (ms) in /tmp/time.SIDE.WORK.
measure () {
  local side=$1 work=$2 begin
  shift 2
  echo 3 > /proc/sys/vm/drop_caches
  count_start
  begin=$(date +%s%N)
  "work_$work" "$@" || { cat /tmp/fio.out; fail "$side: $work failed"; }
  sync
  echo $((($(date +%s%N) - begin) / 1000000)) > "/tmp/time.$side.$work"
  count_stop
  cp /tmp/counts "/tmp/counts.$side.$work"
  count_table "$side: $work ($(cat "/tmp/time.$side.$work") ms)"
  grep '^other:' /tmp/counts | tr '\n' ' ' || true
}

# result SIDE WORK WHAT: a figure of a finished measurement.
result () {
  if [ "$3" = ms ]; then cat "/tmp/time.$1.$2"
  else awk -v k="$3" '$1 == k {print $2}' "/tmp/counts.$1.$2"
  fi
}
