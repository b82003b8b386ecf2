# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts that run inside the test machine (tests/vm/*.vm).
# The programs under test are this tree's: $VM_SOURCE, built in $VM_BUILD.
set -e -o pipefail

fail () { echo "FAIL: $*"; exit 1; }
skip () { echo "skipped: $*"; exit 77; }
step () { echo "== $* ($SECONDS s)"; }
long_form () { [ -n "${VM_ALL:-}" ]; }

# must_fail COMMAND...: the command fails; what it said is in $OUTPUT.
must_fail () {
  if OUTPUT=$("$@" 2>&1); then
    echo "$OUTPUT"
    fail "succeeded but must not: $*"
  fi
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for () {
  local n=$(($1 * 20)); shift
  while ! "$@" >/dev/null 2>&1; do
    n=$((n - 1))
    [ $n -gt 0 ] || fail "in vain: $*"
    sleep 0.05
  done
}

# ---- the drive --------------------------------------------------------------

# drive [SETTING=VALUE...]: a host-managed drive of scsi_debug; its contents are
# RAM of the test machine.  $SG and $BLK are its nodes afterwards.
drive () {
  drive_gone
  modprobe sd_mod
  modprobe sg
  modprobe scsi_debug zbc=managed zone_size_mb=16 zone_nr_conv=12 dev_size_mb=768 \
    sector_size=512 max_queue=64 delay=0 "$@"
  drive_find
}

# One TEST UNIT READY.  (sg_turs of sg3-utils 1.48 sends none.)
ask_ready () { sg_raw "$1" 00 00 00 00 00 00 >/dev/null 2>&1; }

# Names the nodes of the (first) drive there is.  A kernel without zoned block
# devices makes no block node for it.
drive_find () {
  local dev
  wait_for 10 drive_present
  dev=$(echo $DRIVES | cut -d' ' -f 1)
  BLK=$(ls "$dev/block" 2>/dev/null) || BLK=none
  BLK=/dev/$BLK
  SG=/dev/$(ls "$dev/scsi_generic")
  # The first command may be answered with UNIT ATTENTION.
  wait_for 20 ask_ready "$SG"
}
DRIVES='/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/[0-9]*:*'
drive_present () { ls -d $DRIVES/scsi_generic/* && { [ -n "$VM_UML" ] || ls -d $DRIVES/block/*; }; }
drive_gone () {
  [ ! -d /sys/module/scsi_debug ] || modprobe -r scsi_debug || fail "the drive is still in use"
}
# scsi_device SG: the device itself in sysfs, which each kernel has.
scsi_device () { echo "/sys/class/scsi_generic/${1##*/}/device"; }
drive_sysfs () { echo "/sys/block/${BLK##*/}"; }
drive_scheduler () {
  grep -q mq-deadline "$(drive_sysfs)/queue/scheduler" || modprobe mq-deadline
  echo mq-deadline > "$(drive_sysfs)/queue/scheduler"
}
# drive_option NAME VALUE: a setting of scsi_debug that may change at run time, some of
# them only while no command is under way.
drive_option () {
  local file=/sys/bus/pseudo/drivers/scsi_debug/$1
  [ -e "$file" ] || file=/sys/module/scsi_debug/parameters/$1
  wait_for 20 eval "echo '$2' 2>/dev/null > '$file'"
}

# ---- counting commands ------------------------------------------------------

TRACE=/sys/kernel/tracing

# From here on each command that reaches a SCSI drive is recorded, whoever sent
# it: the kernel's block layer and SG_IO pass the same event.
count_start () {
  echo 0 > $TRACE/tracing_on
  echo "${1:-32768}" > $TRACE/buffer_size_kb
  echo > $TRACE/trace
  echo 1 > $TRACE/events/scsi/scsi_dispatch_cmd_start/enable
  echo 1 > $TRACE/tracing_on
}

# Ends the recording and sums it up for count_of and count_table.
count_stop () {
  echo 0 > $TRACE/tracing_on
  echo 0 > $TRACE/events/scsi/scsi_dispatch_cmd_start/enable
  ! grep -qs '^overrun: [1-9]' $TRACE/per_cpu/cpu*/stats ||
    fail "the recording ran over: give count_start more room"
  awk -v block="$(cat "$(drive_sysfs)/queue/logical_block_size")" \
    -f "$VM_SOURCE/tests/vm/count.awk" $TRACE/trace > /tmp/counts
  echo 1 > $TRACE/buffer_size_kb
}

# count_of writes|write_bytes|reads|read_bytes|syncs|resets|reports|tests|other
count_of () { awk -v k="$1" '$1 == k {print $2}' /tmp/counts; }

count_header () {
  printf '%-34s %8s %12s %8s %12s %6s %7s %6s\n' work writes written reads read sync resets tests
}
count_table () {
  printf '%-34s %8s %12s %8s %12s %6s %7s %6s\n' "$1" "$(count_of writes)" \
    "$(count_of write_bytes)" "$(count_of reads)" "$(count_of read_bytes)" \
    "$(count_of syncs)" "$(count_of resets)" "$(count_of tests)"
}

# format_volume [OPTIONS]: our format on the drive.
format_volume () { "$SHINGLE" format "$SG" "$@" > /tmp/format.out || fail "format: $(cat /tmp/format.out)"; }

# check_volume: our check finds nothing wrong with what is on the drive.
check_volume () { "$SHINGLE" check "$SG" > /tmp/check.out 2>&1 || { cat /tmp/check.out; fail "the volume is not clean"; }; }

# ---- the kernel's dm-zoned --------------------------------------------------

# dmz_up NAME: activates the formatted drive.  An unformatted one would crash
# this kernel, so the superblock is looked at first.
dmz_up () {
  local magic conv=0
  magic=$(dd if="$BLK" bs=4096 count=1 iflag=direct status=none | od -An -tx4 -N4 | tr -d ' ')
  [ "$magic" = 445a4244 ] || fail "$BLK is not formatted; it is not activated"
  modprobe dm-zoned
  drive_scheduler
  dmsetup create "$1" --table "0 $(blockdev --getsz "$BLK") zoned $BLK"
  dmsetup mknodes
  [ -b "/dev/mapper/$1" ] || fail "/dev/mapper/$1 has not appeared"
}
dmz_down () { dmsetup remove --retry "$1"; }

# ---- our server -------------------------------------------------------------

SHINGLE=$VM_BUILD/server/shingle
plugin () { built "$VM_BUILD/plugins/$1/.libs/nbdkit-$1-plugin.so"; }
filter () { built "$VM_BUILD/plugins/$1/.libs/nbdkit-$1-filter.so"; }
built () { [ -f "$1" ] || fail "not built: $1"; echo "$1"; }

# serve NAME ARGUMENTS...: nbdkit in the background on the socket /tmp/NAME.sock;
# $SERVER is its process.
serve () {
  local name=$1; shift
  rm -f "/tmp/$name.sock" "/tmp/$name.pid"
  nbdkit -f -U "/tmp/$name.sock" -P "/tmp/$name.pid" "$@" > "/tmp/$name.out" 2>&1 &
  SERVER=$!
  wait_for 30 served "$name" $SERVER
  [ -S "/tmp/$name.sock" ] || { cat "/tmp/$name.out"; fail "nbdkit does not start"; }
}
served () { [ -s "/tmp/$1.pid" ] || ! kill -0 "$2" 2>/dev/null; }
serve_zoned () { local name=$1; shift; serve "$name" "$(plugin zoned)" device="$SG" "$@"; }

# Asks the server to end and waits until it has (its last commit is done then).
serve_end () {
  local status=0
  kill -TERM "$SERVER"
  wait "$SERVER" || status=$?
  [ $status = 0 ] || { cat /tmp/*.out; fail "the server ended with status $status"; }
}

# connect NAME [CONNECTIONS] [NBD-CLIENT OPTIONS]: the kernel's client; $NBD.
# It waits longer than its 30 s for an answer: a machine that stands still that long
# would end the connection, and nbdkit 1.32 itself (raw_send_socket).
connect () {
  local name=$1 connections=${2:-1}
  shift; [ $# = 0 ] || shift
  modprobe nbd max_part=0
  NBD=/dev/nbd0
  nbd-client -unix "/tmp/$name.sock" $NBD -C "$connections" -t 300 "$@" > /tmp/nbd-client.out 2>&1 ||
    { cat /tmp/nbd-client.out; fail "nbd-client does not connect"; }
  wait_for 10 connected
}
connected () { [ "$(blockdev --getsize64 $NBD)" -gt 0 ]; }
disconnect () {
  nbd-client -d $NBD > /dev/null
  wait_for 20 disconnected
}
disconnected () { [ ! -e "/sys/block/${NBD##*/}/pid" ]; }

# nbd_waits SECONDS: the kernel's client waits so long for an answer.  (It tells the
# time in ticks, 100 to 1000 a second; user-mode Linux does not tell it.)
nbd_waits () {
  local ticks
  [ -z "$VM_UML" ] || return 0
  ticks=$(cat "/sys/kernel/debug/nbd/${NBD##*/}/timeout")
  case $ticks in
    $(($1 * 100)) | $(($1 * 250)) | $(($1 * 300)) | $(($1 * 1000))) ;;
    *) fail "the kernel waits $ticks ticks for an answer, not $1 s" ;;
  esac
}

# ---- the kernel's log -------------------------------------------------------

# Nothing that speaks of a fault, of whatever part, since the script began.
log_clean () {
  local found
  found=$(dmesg | grep -E "$LOG_FAULTS" | grep -vE "${LOG_ALLOWED:-^\$}" || true)
  [ -z "$found" ] || { echo "$found"; fail "the kernel complains"; }
}
LOG_FAULTS='WARNING|\bBUG:|[Oo]ops|Call Trace|hung task|blocked for more|I/O error'
LOG_FAULTS+='|critical|[Uu]naligned write|Sense Key|device-mapper:.*([Ee]rror|[Ff]ail|[Ii]nvalid)'
LOG_FAULTS+='|dm-zoned.*([Ee]rror|[Ff]ail|dying|[Ii]nvalid)'
LOG_FAULTS+='|(EXT4-fs|XFS|BTRFS|F2FS-fs).*([Ee]rror|[Cc]orrupt|[Ww]arning)'

# ---- stamped blocks ---------------------------------------------------------

stamps () { python3 "$VM_SOURCE/tests/vm/stamps.py" "$@"; }
