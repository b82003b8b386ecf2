# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For tests of the filter: asking its control socket.

# ask SOCKET JSON: the answer, on one line.
ask ()
{
  python3 - "$1" "$2" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b"\n")
print(s.makefile().readline(), end="")
END
}

# queue SOCKET EXPRESSION: a Python expression about q, what mq_dump tells.
queue ()
{
  ask "$1" '{"get": "queues"}' | python3 -c "
import json, sys
q = json.load(sys.stdin)['volumes'][0]['mq']
print(($2))"
}
