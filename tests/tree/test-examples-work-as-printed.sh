#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every command line of examples/README.md works as printed, in its order, and
# every fio job of examples/fio is among them.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit nbdinfo nbdcopy nbdsh fio qemu-img

cd "$top_srcdir"
grep '^    ' examples/README.md | sed "s|^    ||; s|/tmp/|$tmp/|g; s|tagset=|tagset=$$-|" >"$tmp/commands"
[ "$(wc -l <"$tmp/commands")" -ge 15 ] || fail 'no commands found in examples/README.md'
for job in examples/fio/*.fio; do
  grep -q "fio $job" "$tmp/commands" || fail "$job is in no command"
done

# As if it were installed.
mkdir "$tmp/bin"
real=$(command -v nbdkit)
cat >"$tmp/bin/nbdkit" <<END
#!/bin/bash
args=()
for a in "\$@"; do
  case \$a in
    zoned) a=${ZONED@Q} ;;
    sg) a=${SG@Q} ;;
    --filter=blkmq) a=--filter=${BLKMQ@Q} ;;
  esac
  args+=("\$a")
done
exec ${real@Q} "\${args[@]}"
END
chmod +x "$tmp/bin/nbdkit"
ln -s "$SHINGLE" "$tmp/bin/shingle"
export PATH=$tmp/bin:/usr/bin:$PATH # nbdsh wants the python3 of Debian
cleanup rm -f "/dev/shm/shingle-tags.$$-slow-disk"

n=0
while read -r command; do
  output=$(timeout 120 bash -c "$command" 2>&1 </dev/null) || fail "$command: $output"
  n=$((n + 1))
done <"$tmp/commands"
equal "$n" "$(wc -l <"$tmp/commands")" "commands run"
