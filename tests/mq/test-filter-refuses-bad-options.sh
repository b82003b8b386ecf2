#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An option out of range is refused by name before anything is served, in the
# foreground and in the background.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit

for bad in tags=0 tags=10241 tags=many tags= tags=-1 hwqs=0 hwqs=1025 reserved_tags=65 sched=cfq \
           run=some depth=0 async_depth=0 async_depth=x fifo_batch=1.5 read_expire=soon \
           writes_starved= zoned_writes=qd2 tagset= tagset=a/b tagset=.. tagset=; do
  refused nbdkit -U "$(own_socket)" --filter="$BLKMQ" null "$bad" --run true
  contains "$output" "${bad%%=*}"
done
refused nbdkit -U "$(own_socket)" --filter="$BLKMQ" null control=/no/such/folder/socket --run true
contains "$output" 'control'
refused nbdkit --filter="$BLKMQ" -U "$tmp/s" -P "$tmp/p" null tags=0
[ ! -e "$tmp/p" ] || fail "a server was left in the background"

# What is no tag set is not joined.
name=shingle-test-$$
cleanup rm -f "/dev/shm/shingle-tags.$name"
echo nonsense >"/dev/shm/shingle-tags.$name"
refused nbdkit -U "$(own_socket)" --filter="$BLKMQ" null tagset="$name" --run true
contains "$output" "shingle-tags.$name"
equal "$(cat "/dev/shm/shingle-tags.$name")" nonsense

# Kernel habits: what is out of range for a scheduler's number is brought into it.
timeout 60 nbdkit -U "$(own_socket)" --filter="$BLKMQ" null fifo_batch=-3 front_merges=7 --run true
