#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# prio=CLASS:... gives a connection its class by export name, address, uid and TLS;
# the first rule that matches wins; rules that are none are refused.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/lib.sh"
requires_program nbdkit nbdcopy

# classes URI ARGUMENT...: requests by class, after one copy.
classes ()
{
  local uri_suffix=$1
  shift
  start_server rules --filter="$BLKMQ" pattern 1M control="$tmp/control" "$@"
  timeout 60 nbdcopy "nbd+unix://$uri_suffix?socket=$tmp/rules.sock" null:
  queue "$tmp/control" '" ".join(c for c in ("rt", "be", "idle") if q["classes"][c]["completed"])'
  stop_server
}

me=$(id -u)
equal "$(classes /)" be
equal "$(classes / prio=idle)" idle
equal "$(classes /fast prio=rt:export=fast)" rt
equal "$(classes /slow prio=rt:export=fast)" be
equal "$(classes /fast1 'prio=rt:export=f*' prio=idle)" rt
equal "$(classes / "prio=idle:uid=$me")" idle
equal "$(classes / "prio=idle:uid=$((me + 1))" prio=rt)" rt
equal "$(classes /x "prio=rt:uid=$me" prio=idle:export=x)" rt
equal "$(classes / prio=idle:addr=127.0.0.1)" be
equal "$(classes / prio=idle:tls=no)" idle
equal "$(classes / prio=idle:tls=yes)" be

for bad in prio=fast prio=rt: prio=rt:export prio=rt:shoe=1 prio=rt:uid=me prio=rt:addr=1.2.3 \
           prio=rt:addr=1.2.3.4/33 prio=hot:export=x prio=rt:tls=perhaps; do
  refused nbdkit -U "$(own_socket)" --filter="$BLKMQ" null "$bad" --run true
  contains "$output" 'prio'
done
