#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients that queue requests and close at once, that connect and leave in the
# middle of the handshake, that are killed: the server lives, another client's
# data stay right, no descriptor and no thread is left behind.
#
# The server of nbdkit before 1.34 can itself abort when replies are
# outstanding on a closed socket; requests are therefore kept inside its
# limits here: what is tested is that the plugin gives everything back.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit python3

new_drive drive
start_server nbd "$ZONED" "$tmp/drive"
descriptors () { find "/proc/$server_pid/fd" -mindepth 1 | wc -l; }
threads () { find "/proc/$server_pid/task" -mindepth 1 -maxdepth 1 | wc -l; }
nbdinfo --size "$uri" >/dev/null
sleep 0.3
fds_before=$(descriptors) threads_before=$(threads)

with_nbd "$uri" "$tmp/nbd.sock" "${SHINGLE_TEST_CONNECTIONS:-1000}" <<'PYTHON'
import os
import socket
import struct
import sys
import threading
from client import *

uri, path, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
stop = threading.Event()
trouble = []


def steady():
    """The other client: its data are its own all the time."""
    h = connect(uri)
    data = pattern(1, 64 * K)
    h.pwrite(data, 8 * M)
    while not stop.is_set():
        if h.pread(64 * K, 8 * M) != data:
            trouble.append("the other client read something else")
            return
    h.shutdown()


def handshake():
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.recv(18)
    s.sendall(struct.pack(">I", 3))
    name = b""
    s.sendall(b"IHAVEOPT" + struct.pack(">II", 7, len(name) + 6) +
              struct.pack(">I", len(name)) + name + struct.pack(">H", 0))
    while True:
        head = b""
        while len(head) < 20:
            head += s.recv(20 - len(head))
        kind, length = struct.unpack(">II", head[12:])
        while length:
            length -= len(s.recv(length))
        if kind == 1:
            return s


t = threading.Thread(target=steady)
t.start()
for i in range(rounds):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    if i % 3 == 1:
        s.recv(18)
    elif i % 3 == 2:
        s.close()
        s = handshake()
        # A write in flight and gone.
        s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, i, 16 * M + i % 64 * 4096, 4096) +
                  bytes(4096))
    s.close()
stop.set()
t.join()
if trouble:
    sys.exit("FAILED: " + trouble[0])
PYTHON

settled () { [ "$(descriptors)" -le "$fds_before" ] && [ "$(threads)" -le "$threads_before" ]; }
wait_for 20 settled ||
  fail "left behind: $(descriptors) descriptors (before: $fds_before), $(threads) threads (before: $threads_before)"
stop_server
checked drive
