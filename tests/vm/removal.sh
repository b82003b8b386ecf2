# SPDX-License-Identifier: BSD-3-Clause
# Taking a drive of scsi_debug away and bringing it back.

drive_removed () {
  HOST=$(ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter*/host* | head -n 1)
  HOST=${HOST##*/}
  echo 1 > "$(scsi_device "$SG")/delete"
}
drive_returns () {
  echo "- - -" > "/sys/class/scsi_host/$HOST/scan"
  drive_find
  echo "the drive is back as $SG, $BLK"
}

# resumes TEXT LOG [TIMES]: the log says how the volume goes on, soon; for the
# TIMES-th time.
resumes () {
  local n
  for n in $(seq 30); do
    [ "$(grep -cF "$1" "$2")" -lt "${3:-1}" ] || return 0
    sleep 1
  done
  tail -n 20 "$2"
  fail "the log does not say: $1"
}

# removal_under_writes FILE: 32 writes at a time to FILE; the drive is removed
# under them.  Each must be answered, and fio must see an error.
removal_under_writes () {
  local fio begin status=0
  step "removal under 32 writes"
  timeout 100 fio --name=remove --filename="$1" --ioengine=libaio --direct=1 --rw=randwrite --bs=16k \
    --iodepth=32 --offset=32m --size=64m --time_based --runtime=60 --continue_on_error=none \
    --output=/tmp/fio.remove &
  fio=$!
  sleep 3
  kill -0 $fio || fail "fio ended before the removal"
  drive_removed
  begin=$SECONDS
  wait $fio || status=$?
  echo "fio: status $status, $((SECONDS - begin)) s after the removal"
  [ $status != 124 ] || fail "requests are left without an answer"
  [ $status != 0 ] || fail "no error was reported"
}
