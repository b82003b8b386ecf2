#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every test that reports.list names exists and is run, and every entry has one.
. "$(dirname "$0")/../functions.sh"

list=$top_srcdir/tests/reports.list
cd "$top_srcdir/tests"

exists ()
{
  case $1 in
  */*) [ -x "$1" ] && grep -q "	$1 " Makefile.am ;;
  *) grep -q "START_TEST ($1)" ./*/test-*.c && grep -Eq "(tcase_add_(loop_)?test \\([a-z]+, |BOTH \\()$1[,)]" ./*/test-*.c ;;
  esac
}

entry='' nr_tests=1 nr_entries=0
entry_ends () { [ "$nr_tests" -gt 0 ] || fail "$entry has no test"; }

while IFS= read -r line; do
  case $line in
  '' | '#'*) ;;
  '  '*)
    for name in $line; do
      exists "$name" || fail "$entry: no such test: $name"
      nr_tests=$((nr_tests + 1))
    done
    ;;
  *)
    entry_ends
    entry=${line%% *} nr_tests=0 nr_entries=$((nr_entries + 1))
    [ "$(grep -c "^$entry " "$list")" -eq 1 ] || fail "$entry stands twice in the list"
    ;;
  esac
done <"$list"
entry_ends
[ "$nr_entries" -ge 80 ] || fail "only $nr_entries entries were read"
