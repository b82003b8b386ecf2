#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# In the background (threads start after the fork), under --run, --exit-with-parent,
# exitlast and exitwhen: serves, and goes when it is told to.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/lib.sh"
requires_program nbdkit nbdinfo nbdcopy

set_name=shingle-test-$$
cleanup rm -f "/dev/shm/shingle-tags.$set_name"
args=(--filter="$BLKMQ" memory 1M tags=2 tagset="$set_name" control="$tmp/control")

nbdkit -U "$tmp/s" -P "$tmp/p" "${args[@]}"
wait_for 10 test -s "$tmp/p"
pid=$(cat "$tmp/p")
cleanup kill -KILL "$pid"
timeout 30 nbdcopy "nbd+unix:///?socket=$tmp/s" null:
equal "$(queue "$tmp/control" 'q["tagset"]["name"]')" "$set_name"
kill "$pid"
wait_for 5 server_gone "$pid" || fail "does not stop"
[ ! -e "/dev/shm/shingle-tags.$set_name" ] || fail "the last user left the tag set behind"
[ ! -e "$tmp/control" ] || fail "the control socket was left behind"

timeout 60 nbdkit -U "$(own_socket)" "${args[@]}" --run 'nbdcopy "$uri" null:'
[ ! -e "/dev/shm/shingle-tags.$set_name" ] || fail "--run left the tag set behind"

bash -c 'nbdkit --exit-with-parent -U "$1/e" -P "$1/ep" "${@:2}" & while ! [ -s "$1/ep" ]; do sleep 0.05; done; timeout 30 nbdcopy "nbd+unix:///?socket=$1/e" null:' _ "$tmp" "${args[@]}"
pid=$(cat "$tmp/ep")
wait_for 5 server_gone "$pid" || fail "outlives its parent"

nbdkit -f --filter=exitlast -U "$tmp/l" -P "$tmp/lp" "${args[@]}" & pid=$!
background_pids+=("$pid")
wait_for 10 test -s "$tmp/lp"
timeout 30 nbdinfo "nbd+unix:///?socket=$tmp/l" >/dev/null
wait_for 10 server_gone "$pid" || fail "exitlast does not end it"

nbdkit -f --filter=exitwhen -U "$tmp/w" -P "$tmp/wp" "${args[@]}" exit-when-file-created="$tmp/now" exit-when-poll=1 & pid=$!
background_pids+=("$pid")
wait_for 10 test -s "$tmp/wp"
timeout 30 nbdcopy "nbd+unix:///?socket=$tmp/w" null:
touch "$tmp/now"
wait_for 10 server_gone "$pid" || fail "exitwhen does not end it"
