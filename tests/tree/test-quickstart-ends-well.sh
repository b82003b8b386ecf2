#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# examples/quickstart, with fewer files than a person gets to see: it says what
# it did in plain words, colours nothing that is no terminal, cleans up, also
# when it is interrupted.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdfuse mkfs.ext4

export TMPDIR=$tmp SHINGLE_QUICKSTART_BYTES=24M
output=$(timeout 240 "$top_srcdir/examples/quickstart" 2>&1) || fail "quickstart: $output"
contains "$output" 'fsck -fn: clean'
contains "$output" 'checksums equal|every byte equal'
contains "$output" 'power'
contains "$output" 'All done in [0-9]+ seconds'
! grep -q $'\e' <<<"$output" || fail 'colours without a terminal'
nothing_left () { ! ls -d "$tmp"/shingle-quickstart.* 2>/dev/null; }
nothing_left || fail 'something is left behind'
! grep -q "$tmp" /proc/self/mountinfo || fail 'something is still mounted'

timeout --signal=TERM 4 "$top_srcdir/examples/quickstart" >/dev/null 2>&1 || true
wait_for 120 nothing_left || fail 'something is left behind after SIGTERM'
! grep -q "$tmp" /proc/self/mountinfo || fail 'something is still mounted after SIGTERM'
