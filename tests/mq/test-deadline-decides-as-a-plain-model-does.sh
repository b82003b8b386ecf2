#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Random runs of an independent model of the scheduler (all tunables, classes,
# merges, several requests in flight) are decided alike by core/mq/deadline.c.
# SHINGLE_MODEL_RUNS: how many (default 40).
. "$(dirname "$0")/../functions.sh"
requires_program python3

replay=$top_builddir/tests/unit/deadline-replay
for ((seed = 1; seed <= ${SHINGLE_MODEL_RUNS:-40}; ++seed)); do
  python3 "$top_srcdir/tests/mq/deadline-model.py" "$seed" >"$tmp/$seed.events"
done
"$replay" "$tmp"/*.events >"$tmp/out" || { grep -v 'no difference' "$tmp/out"; fail "decisions differ"; }
grep -q 'rqmerge' "$tmp"/*.events || fail "no run joined requests"

# A request merged whole while it was being inserted was never queued itself.
cat >"$tmp/whole.events" <<'END'
# fifo_batch=16
100 insert R 8 8 0
110 rqmerge R 16 8 0
120 pop R 8 16 0
130 complete R 8 16 0
140 pop - 0 0 0
END
"$replay" "$tmp/whole.events" >/dev/null || fail "a merge at insertion is not understood"
sed -i 's/pop R 8 16/pop R 8 8/' "$tmp/whole.events"
! "$replay" "$tmp/whole.events" >/dev/null || fail "a wrong length was not noticed"
