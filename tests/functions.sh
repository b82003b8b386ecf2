# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
# Sourced by every test script: a private folder, clean-up on every exit path,
# honest skips, and the few verbs that most tests need.
#
# Names: $SHINGLE, $ZONED, $SG, $BLKMQ (what was built), $tmp (private folder,
# removed at exit), $top_srcdir, $top_builddir.

set -euo pipefail
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

: "${top_srcdir:=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"
: "${top_builddir:=$top_srcdir}"
top_srcdir=$(cd "$top_srcdir" && pwd)
top_builddir=$(cd "$top_builddir" && pwd)
export top_srcdir top_builddir
export SHINGLE=$top_builddir/server/shingle
export ZONED=$top_builddir/plugins/zoned/.libs/nbdkit-zoned-plugin.so
export SG=$top_builddir/plugins/sg/.libs/nbdkit-sg-plugin.so
export BLKMQ=$top_builddir/plugins/blkmq/.libs/nbdkit-blkmq-filter.so
export SHINGLE_SHARED=${SHINGLE_SHARED:-$top_srcdir/../shared}

tmp=$(mktemp -d "${TMPDIR:-/tmp}/shingle-test.XXXXXX")
cleanup_commands=()
background_pids=()

# cleanup COMMAND...: runs it at exit, last one first.
cleanup () { cleanup_commands+=("$(printf '%q ' "$@")"); }

run_cleanup ()
{
  local status=$? i pid
  trap - EXIT
  set +e
  for ((i = ${#cleanup_commands[@]} - 1; i >= 0; --i)); do
    eval "${cleanup_commands[i]}"
  done
  for pid in ${background_pids[@]+"${background_pids[@]}"}; do
    kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
  done
  rm -rf "$tmp"
  exit "$status"
}
trap run_cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'echo "${BASH_SOURCE[0]##*/}:$LINENO: failed: $BASH_COMMAND" >&2' ERR

fail () { echo "FAILED: $*" >&2; exit 1; }
skip () { echo "skipped: $*"; exit 77; }

# requires COMMAND...: skips the test where the command does not succeed.
requires () { "$@" >/dev/null 2>&1 || skip "needs: $*"; }
requires_program ()
{
  local p
  for p in "$@"; do
    command -v "$p" >/dev/null || skip "needs the program $p"
  done
}
requires_root () { [ "$(id -u)" -eq 0 ] || skip "needs root"; }

# equal A B WHAT
equal () { [ "$1" = "$2" ] || fail "${3:-values differ}: got '$1', expected '$2'"; }

# contains TEXT PATTERN: TEXT holds the extended regular expression PATTERN.
contains () { grep -Eq -- "$2" <<<"$1" || fail "no /$2/ in: $1"; }

# refused COMMAND...: it fails by its own decision, not by a signal or a
# time-out; its output is left in $output.
refused ()
{
  local status=0
  output=$(timeout 60 "$@" 2>&1 </dev/null) || status=$?
  [ "$status" -ne 0 ] || fail "not refused: $*: $output"
  [ "$status" -lt 124 ] || fail "ended with status $status: $*: $output"
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for ()
{
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.05
  done
}

# A new name for a socket in $tmp, to give to nbdkit -U: with "-" it makes a folder
# in /tmp, which stays there when it refuses its options or is killed.
own_socket () { mktemp -u "$tmp/socket.XXXXXX"; }

# start_server NAME ARGUMENT...: nbdkit in the foreground, as a job of this
# test, serving on unix socket $tmp/NAME.sock; log in $tmp/NAME.log.  Sets
# $server_pid and $uri.
start_server ()
{
  local name=$1
  shift
  rm -f "$tmp/$name.pid" "$tmp/$name.sock"
  nbdkit -f -U "$tmp/$name.sock" -P "$tmp/$name.pid" "$@" 2>>"$tmp/$name.log" &
  server_pid=$!
  background_pids+=("$server_pid")
  uri="nbd+unix:///?socket=$tmp/$name.sock"
  if ! wait_for 30 server_listens "$name" "$server_pid" || ! [ -s "$tmp/$name.pid" ]; then
    cat "$tmp/$name.log" >&2
    fail "nbdkit $* does not start"
  fi
}
server_listens () { [ -s "$tmp/$1.pid" ] || ! kill -0 "$2" 2>/dev/null; }

# stop_server [PID]: SIGTERM; a clean end within 5 seconds.
stop_server ()
{
  local pid=${1:-$server_pid} status=0
  kill -TERM "$pid"
  wait_for 5 server_gone "$pid" || { kill -KILL "$pid"; fail "nbdkit does not stop"; }
  wait "$pid" || status=$?
  forget_server "$pid"
  equal "$status" 0 "status of nbdkit at its end"
}
server_gone () { [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; }

# A pipe of 2 MiB, which holds the largest FUSE request (1031 is F_SETPIPE_SZ).
may_have_large_pipe ()
{
  python3 -c 'import fcntl, os; fcntl.fcntl(os.pipe()[1], 1031, 2 << 20)' 2>/dev/null
}

# kill_server [PID]: SIGKILL, as a crash.
kill_server ()
{
  local pid=${1:-$server_pid}
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  forget_server "$pid"
}
forget_server ()
{
  local kept=() pid
  for pid in "${background_pids[@]}"; do
    [ "$pid" = "$1" ] || kept+=("$pid")
  done
  background_pids=(${kept[@]+"${kept[@]}"})
}

# make_fs TYPE ARGUMENT...: mkfs.btrfs looks at every mount of the machine, and fails
# while another test has one above a server that it has killed; so it is tried again.
make_fs ()
{
  local type=$1 i
  shift
  for ((i = 0; i < 120; ++i)); do
    timeout 100 "mkfs.$type" "$@" 2>"$tmp/mkfs.err" && return 0
    grep -q 'cannot check mount status' "$tmp/mkfs.err" || break
    sleep 1
  done
  cat "$tmp/mkfs.err" >&2
  return 1
}

# new_drive NAME [create option...]: an emulated drive $tmp/NAME, formatted.
# Without options: 64 zones of 4 MiB, 12 of them conventional.
small_drive=(--size=256M --zone-size=4M --conventional=12)
new_drive ()
{
  local name=$1
  shift
  [ $# -gt 0 ] || set -- "${small_drive[@]}"
  "$SHINGLE" emu create "$tmp/$name" "$@" >/dev/null
  "$SHINGLE" format "$tmp/$name" >/dev/null
}

# checked NAME: `shingle check` finds nothing wrong.
checked ()
{
  "$SHINGLE" check "$tmp/$1" >"$tmp/check.log" 2>&1 || {
    cat "$tmp/check.log" >&2
    fail "shingle check complains about $1"
  }
}

# drive_sum NAME: a checksum of all that the drive's medium holds: data, zone
# conditions and write pointers (the file has counters and attentions, too).
drive_sum ()
{
  "$SHINGLE" emu export "$tmp/$1" --raw="$tmp/$1.raw" --zones="$tmp/$1.zones" >/dev/null
  cat "$tmp/$1.raw" "$tmp/$1.zones" | sha256sum
  rm -f "$tmp/$1.raw" "$tmp/$1.zones"
}

# with_nbd ARGUMENT...: runs the Python program on standard input with `nbd`
# (libnbd) and the helpers of tests/nbd/client.py at hand.  Debian's module
# belongs to /usr/bin/python3, which need not be the first on the path.
nbd_python ()
{
  local python
  for python in python3 /usr/bin/python3; do
    if (cd / && "$python" -c 'import nbd; nbd.NBD') 2>/dev/null; then
      PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/tests/nbd" timeout 300 "$python" "$@"
      return
    fi
  done
  skip "needs python3-libnbd"
}
with_nbd () { nbd_python - "$@"; }
