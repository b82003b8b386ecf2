#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a client is told of an export, its extents and its errors are the same
# with and without the filter, over plugins with and without each ability.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdinfo

told ()
{
  local plugin=$1
  shift
  timeout 60 nbdkit -U "$(own_socket)" "$@" --run 'nbdinfo --json "$uri" | grep -v "\"uri\":"'
  case $plugin in
    null | memory | data)
      timeout 60 nbdkit -U "$(own_socket)" "$@" --run 'nbdinfo --map "$uri"' ;;
  esac
}

same ()
{
  local without with
  without=$(told "$1" "$@")
  with=$(told "$1" --filter="$BLKMQ" "$@" tags=4)
  [ "$without" = "$with" ] || {
    diff <(echo "$without") <(echo "$with") >&2 || true
    fail "nbdkit $*: the filter shows"
  }
}

truncate -s 3000001 "$tmp/odd"
for filter in nozero noextents nocache fua multi-conn; do
  same memory 1M --filter="$filter"
done
same memory 1M --filter=fua fuamode=emulate
same memory 1M --filter=fua fuamode=native
same memory 1M --filter=nozero zeromode=emulate
same memory 1M --filter=multi-conn multi-conn-mode=disable
same null 1G
same data '( @0x100000 "x" @0x200000 )'
same file "$tmp/odd"
same file "$tmp/odd" -r
same memory 1M --filter=blocksize-policy blocksize-minimum=4k blocksize-preferred=64k blocksize-maximum=1M
same pattern 9223372036854771712
same sparse-random 1G seed=1
