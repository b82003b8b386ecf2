#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every option that a plugin, filter or command accepts is in its manual, and
# the manual names no other.  What is accepted is asked of the thing itself:
# `nbdkit X --help` prints one line `NAME=...` an option, `shingle X --help`
# one line `--NAME...`.
. "$(dirname "$0")/../functions.sh"
requires_program podchecker nbdkit

# items POD PATTERN: the options that the manual has an =item for (the debug
# flags, -D NAME.FLAG=N, are none).
items () { grep '^=item ' "$1" | grep -v -- '-D ' | grep -oE -- "$2" | sort -u; }

compare ()
{
  local what=$1 accepted=$2 described=$3
  [ -n "$accepted" ] || fail "$what: --help names no option"
  diff <(sort -u <<<"$accepted") <(sort -u <<<"$described") ||
    fail "$what: options (left) and manual (right) differ"
}

shopt -s nullglob
mapfile -t pods < <(cd "$top_srcdir" && find . -name '*.pod' -not -path './build*')
for pod in ${pods[@]+"${pods[@]}"}; do
  podchecker -warnings "$top_srcdir/$pod" 2>&1 | tee "$tmp/podchecker"
  grep -q 'pod syntax OK' "$tmp/podchecker" || fail "$pod is no valid POD"
  ! grep -qi warning "$tmp/podchecker" || fail "$pod: warnings"
done

for kind in plugin filter; do
  for object in "$top_builddir"/plugins/*/.libs/nbdkit-*-$kind.so; do
    name=$(basename "$object" "-$kind.so")
    name=${name#nbdkit-}
    pod=$top_srcdir/plugins/$name/nbdkit-$name-$kind.pod
    [ -f "$pod" ] || fail "$kind $name has no manual"
    if [ "$kind" = plugin ]; then
      help=$(nbdkit "$object" --help)
    else
      help=$(nbdkit --filter="$object" null --help | sed '/^plugin: null/,$d')
    fi
    accepted=$(sed -n "/$name/,\$p" <<<"$help" | grep -oE '^ *(\[|\(required\) )?[a-z][a-z0-9_-]*=' |
                 grep -oE '[a-z][a-z0-9_-]*=' || true)
    compare "$kind $name" "$accepted" "$(items "$pod" '[a-z][a-z0-9_-]*=' )"
  done
done

if [ -x "$SHINGLE" ]; then
  "$SHINGLE" --help | sed -nE 's/^  ([a-z]+) .*/\1/p' | while read -r command; do
    [ "$command" != shingle ] || continue
    pod=$top_srcdir/server/shingle-$command.pod
    [ -f "$pod" ] || fail "shingle $command has no manual"
    accepted=$("$SHINGLE" "$command" --help | grep -oE -- '--[a-z][a-z0-9-]*' | grep -vx -- '--help' | sort -u || true)
    described=$(items "$pod" '--[a-z][a-z0-9-]*' | grep -vx -- '--help' || true)
    diff <(echo "$accepted") <(echo "$described") ||
      fail "shingle $command: options (left) and manual (right) differ"
  done
fi
