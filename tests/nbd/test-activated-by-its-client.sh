#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Socket activation (as systemd does it) and serving on standard input.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdcopy

new_drive drive
head -c 4M /dev/urandom >"$tmp/in"
timeout 60 nbdcopy --flush "$tmp/in" -- [ nbdkit --exit-with-parent -f "$ZONED" "$tmp/drive" ]
timeout 60 nbdcopy -- [ nbdkit --exit-with-parent -f "$ZONED" "$tmp/drive" ] "$tmp/out"
cmp -n 4194304 "$tmp/in" "$tmp/out"
checked drive
with_nbd "$ZONED" "$tmp/drive" "$tmp/in" <<'PYTHON'
import sys
from client import *
h = nbd.NBD()
h.connect_command(["nbdkit", "-s", "--exit-with-parent", sys.argv[1], sys.argv[2]])
wanted = open(sys.argv[3], "rb").read()
expect(h.pread(len(wanted), 0), wanted, "content over standard input")
h.pwrite(b"x" * 4096, 0)
h.shutdown()
PYTHON
released () { "$SHINGLE" check "$tmp/drive"; }
wait_for 5 released
