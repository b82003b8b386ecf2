#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The sample transport of examples/ is loaded by path and by name, serves a
# disk, and its own refusals reach the user.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdinfo nbdcopy

dir=$top_builddir/examples/.libs
so=$dir/shingle-ram-transport.so
equal "$(nbdkit -U "$(own_socket)" "$SG" "$so:size=3M" --run 'nbdinfo --size "$uri"')" 3145728
equal "$(SHINGLE_PLUGINDIR=$dir nbdkit -U "$(own_socket)" "$SG" ram:size=1G \
  --run 'nbdinfo --size "$uri"')" \
  1073741824
equal "$(cd "$dir" && nbdkit -U "$(own_socket)" "$SG" ./shingle-ram-transport.so:size=512 \
  --run 'nbdinfo --size "$uri"')" 512
head -c 3M /dev/urandom >"$tmp/in"
start_server ram "$SG" "$so:size=3M"
nbdcopy "$tmp/in" "$uri"
nbdcopy "$uri" "$tmp/out"
cmp "$tmp/in" "$tmp/out"
stop_server
refused nbdkit "$SG" "$so:size=1000"
contains "$output" 'ram:size=1000: the size must be a multiple of 512'
refused nbdkit "$SG" "$so:length=1"
contains "$output" 'write size=N'

# It needs nothing of the tree but the one public header.
if command -v cc >/dev/null; then
  cc -Wall -Werror -shared -fPIC -I"$top_srcdir/include" -o "$tmp/shingle-own-transport.so" \
    "$top_srcdir/examples/shingle-ram-transport.c"
  equal "$(SHINGLE_PLUGINDIR=$tmp nbdkit -U "$(own_socket)" "$SG" own:size=2M \
    --run 'nbdinfo --size "$uri"')" \
    2097152

  # A transport of another version, and broken ones, are refused by name.
  bad ()
  {
    sed "$2" "$top_srcdir/examples/shingle-ram-transport.c" >"$tmp/bad.c"
    cc -shared -fPIC -I"$top_srcdir/include" -o "$tmp/bad.so" "$tmp/bad.c"
    refused nbdkit "$SG" "$tmp/bad.so:size=1M"
    contains "$output" "$1"
  }
  bad 'version 7 of the transport interface; this program has version 1' 's/SH_TRANSPORT_API,/7,/'
  bad 'its table is too short .8 bytes' 's/sizeof (struct sh_transport_ops),/8,/'
  bad 'name, open, close or execute is missing' 's/^  .execute = ram_execute,//'

  # One of the first version, whose table ends behind `limits`, is loaded.
  sed 's/sizeof (struct sh_transport_ops),/offsetof (struct sh_transport_ops, reopen),/' \
    "$top_srcdir/examples/shingle-ram-transport.c" >"$tmp/old.c"
  cc -shared -fPIC -I"$top_srcdir/include" -o "$tmp/old.so" "$tmp/old.c"
  equal "$(nbdkit -U "$(own_socket)" "$SG" "$tmp/old.so:size=2M" \
    --run 'nbdinfo --size "$uri"')" 2097152
fi
