#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every decision of Linux 6.12's mq-deadline that was recorded in
# data/mq-deadline is made by core/mq/deadline.c as well, and a decision that
# was changed in the record is found.
. "$(dirname "$0")/../functions.sh"

replay=$top_builddir/tests/unit/deadline-replay
data=$top_srcdir/tests/data/mq-deadline

"$replay" "$data"/*.events || fail "a recorded decision differs"

# A record that lacks a decision: the next one must be named.
awk '$2 == "pop" && !done { done = 1; next } { print }' \
  "$data/reads-sorted.events" >"$tmp/changed.events"
if "$replay" "$data/reads-sorted.events" "$tmp/changed.events" >"$tmp/out"; then
  fail "a missing decision was not noticed"
fi
grep -q 'reads-sorted.events: .* no difference' "$tmp/out"
grep -q 'changed.events:[0-9]*: ' "$tmp/out"

# What is no trace is refused with its line.
printf '# fifo_batch=16\nnonsense\n' >"$tmp/bad.events"
if "$replay" "$tmp/bad.events" >"$tmp/out"; then fail "nonsense was accepted"; fi
grep -q 'bad.events:2: ' "$tmp/out"
if "$replay" "$tmp/missing.events" >"$tmp/out"; then fail "a missing file was accepted"; fi
