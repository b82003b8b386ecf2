#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every failing call carries its error to the client; requests near 2^63 work;
# nothing is left behind.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/lib.sh"
requires_program nbdkit

start_server errors --filter="$BLKMQ" --filter=error memory 1M tags=2 control="$tmp/control" \
  error-pread=EIO error-pread-rate=100% error-pread-file="$tmp/fail" \
  error-pwrite=ENOSPC error-pwrite-rate=100% error-pwrite-file="$tmp/fail" \
  error-trim=EPERM error-trim-rate=100% error-trim-file="$tmp/fail" \
  error-zero=ENOMEM error-zero-rate=100% error-zero-file="$tmp/fail"
touch "$tmp/fail"
with_nbd "$uri" <<'END'
import errno, nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
def fails(name, fn, number):
    for i in range(20):
        try:
            fn()
        except nbd.Error as e:
            assert e.errnum == number, (name, e)
        else:
            raise Exception(name + " did not fail")
fails("pread", lambda: h.pread(512, 0), errno.EIO)
fails("pwrite", lambda: h.pwrite(b"x" * 512, 0), errno.ENOSPC)
fails("trim", lambda: h.trim(512, 0), errno.EPERM)
fails("zero", lambda: h.zero(512, 0), errno.ENOMEM)
h.flush()
END
rm "$tmp/fail"
with_nbd "$uri" <<'END'
import nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(b"y" * 512, 512)
assert h.pread(512, 512) == b"y" * 512
END
equal "$(queue "$tmp/control" 'q["in_flight"], q["queued_now"], q["tagset"]["free"]')" '(0, 0, 2)'
stop_server

start_server huge --filter="$BLKMQ" memory $(((1 << 63) - 1)) tags=2
with_nbd "$uri" <<'END'
import nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
size = h.get_size()
assert size == 2**63 - 1
for off in (size - 4096, 2**62, 2**32 - 5):
    h.pwrite(b"z" * 4096, off)
    assert h.pread(4096, off) == b"z" * 4096
h.trim(2**31, 2**62)
h.zero(2**31, 2**63 - 2**32)
h.flush()
END
stop_server
