#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every command with everything that is no drive, with every option out of its range,
# and with drives that answer nonsense: it ends by its own decision, says what is wrong
# and what to do, and changes nothing.
. "$(dirname "$0")/../functions.sh"
requires_program nbdkit mkfs.ext4
cd "$tmp"

problems=0
cases=0
complain () { echo "FAILED: $*" >&2; problems=$((problems + 1)); }

# A hint: what would be right, or what to do.
newline=$'\n'
hints="--help|;|\)|'|$newline|from [^ ]+ to |not one of|neither|at least|at most|where DEVICE is"
hints="$hints|can only be|can be made|the drive has|is an LBA|comes first|has (1|no) |takes a name of"
crash='Sanitizer|runtime error:|Assertion|assertion|terminate called'

# One process a case, as they are many: what it says goes to a file, and one watcher
# kills whatever runs for a minute.
said=$(mktemp)
watch_cases ()
{
  while sleep 10; do
    [ -z "$(find "$said" -mmin +1)" ] || pkill -KILL -P $$ -x 'shingle|nbdkit|setpriv'
  done
}
watch_cases >/dev/null 2>&1 &
background_pids+=($!)
cleanup rm -f "$said"

# no WORD COMMAND...: refused; what it says names WORD and helps on.
no ()
{
  local word=$1 status=0 text=''
  shift
  cases=$((cases + 1))
  "$@" >"$said" 2>&1 </dev/null || status=$?
  IFS= read -r -d '' text <"$said" || true
  text=${text%"$newline"}
  if [ "$status" -eq 0 ]; then
    complain "not refused: $*: $text"
  elif [ "$status" -ge 124 ] || [[ $text =~ $crash ]]; then
    complain "status $status: $*: $text"
  elif [[ ${text//_/-} != *"${word//_/-}"* ]]; then
    complain "does not name '$word': $*: $text"
  elif ! [[ $text =~ $hints ]]; then
    complain "says not what to do: $*: $text"
  fi
}

# What must stay as it is: every file's content, every other thing's kind.
# The file of a drive that was looked at counts commands, so its medium is compared.
state ()
{
  find . \( -name 'state.*' -o -name good -o -name other \) -prune -o -type f -exec cksum {} + \
         -o ! -type f -printf '%y %p %l\n' | sort
  for drive in good other; do "$SHINGLE" emu show $drive | sed '/^counters/,$d'; drive_sum $drive; done
}
state_is_kept ()
{
  state >state.after
  diff state.before state.after >&2 || complain "$1 changed something"
}

# -- what is no drive, and drives that are broken -------------------------------------

small=(--size=48M --zone-size=1M --conventional=6)
"$SHINGLE" emu create good "${small[@]}" >/dev/null
"$SHINGLE" format good --reserved=4 >/dev/null
"$SHINGLE" emu create other "${small[@]}" >/dev/null
"$SHINGLE" format other --reserved=4 >/dev/null
# One in three parts, with a tracked cache: every file of it short, foreign or missing.
"$SHINGLE" emu create parts "${small[@]}" --segment=16M --cache=tracked >/dev/null
"$SHINGLE" format parts --reserved=4 >/dev/null
"$SHINGLE" emu export good --raw=image --zones=table >/dev/null

# broken NAME: a copy of the drive in parts under that name
broken () { local f; for f in parts*; do cp --sparse=always "$f" "$1${f#parts}"; done; }
broken part-missing; rm part-missing.1
broken part-short; truncate -s 1M part-short.2
broken part-empty; : >part-empty.1
broken part-foreign; cp image part-foreign.1
broken part-swapped; cp part-swapped.1 part-swapped.2
broken part-folder; rm part-folder.2; mkdir part-folder.2
broken part-fifo; rm part-fifo.1; mkfifo part-fifo.1
broken cache-foreign; echo 'a text of mine' >cache-foreign.cache
for cut in 1000 70000 131072 20M; do
  head -c $cut good >cut-$cut
done
# The heads are in two slots at 0 and 64 KiB, the zone table from 132 KiB on.
damage () { cp --sparse=always good "$1"; head -c "$3" /dev/urandom | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
damage bad-head 16 80000
damage bad-zones $((132 * 1024)) 200

: >empty
head -c 300000 /dev/urandom >random
truncate -s 1M zeroes
echo 'a text' >text
tar cf archive text
truncate -s 8M ext4 && mkfs.ext4 -q -F ext4
mkdir folder
ln -s nowhere dangling
mkfifo fifo
python3 -c 'import socket; socket.socket (socket.AF_UNIX).bind ("socket")'
cp good unreadable
chmod 0 unreadable

broken_drives=(part-missing part-short part-empty part-foreign part-swapped part-folder part-fifo
               bad-head bad-zones cut-1000 cut-70000 cut-131072 cut-20M)
files=(empty random zeroes text archive ext4)
others=(folder fifo socket)
# Nodes of the wrong kind: /dev/null, /dev/zero, and a block device that is not there.
if mknod null c 1 3 2>/dev/null; then
  mknod zero c 1 5
  mknod block b 7 1048575
  others+=(null zero block)
fi

# Root may read everything: not without these capabilities.
unprivileged=()
if [ "$(id -u)" -eq 0 ]; then
  unprivileged=(setpriv "--bounding-set=-dac_override,-dac_read_search")
  "${unprivileged[@]}" true 2>/dev/null || unprivileged=()
fi
drives=("${broken_drives[@]}" "${files[@]}" "${others[@]}" missing dangling good/x)
if ! cat unreadable >/dev/null 2>&1 || { [ ${#unprivileged[@]} -gt 0 ] && ! "${unprivileged[@]}" cat unreadable >/dev/null 2>&1; }; then
  drives+=(unreadable)
fi
mkdir mountpoint
cleanup eval "fusermount3 -uz '$tmp/mountpoint' 2>/dev/null || true"
state >state.before

serving=(-U sock -P pid --control=control)
for d in "${drives[@]}"; do
  as=()
  [ $d != unreadable ] || as=(${unprivileged[@]+"${unprivileged[@]}"})
  shingle=(${as[@]+"${as[@]}"} "$SHINGLE")
  nbdkit=(${as[@]+"${as[@]}"} nbdkit -U "$(own_socket)")
  for command in 'format' 'format --force' 'check' 'check --repair' 'info' 'zones' 'doctor'; do
    # shellcheck disable=SC2086
    no $d "${shingle[@]}" $command $d
  done
  no $d "${shingle[@]}" emu show $d
  no $d "${shingle[@]}" emu set $d wp=1
  no $d "${shingle[@]}" emu export $d --raw=new.raw --zones=new.zones
  no $d "${shingle[@]}" serve $d "${serving[@]}"
  no $d "${shingle[@]}" serve --plugin=sg $d -U sock -P pid
  no $d "${shingle[@]}" mount $d mountpoint
  no $d "${shingle[@]}" info emu:$d
  no $d "${nbdkit[@]}" "$ZONED" $d --run true
  no $d "${nbdkit[@]}" "$ZONED" $d format=true --run true
  no $d "${nbdkit[@]}" "$SG" $d --run true
  no $d "${nbdkit[@]}" "$SG" $d raw=true --run true
  no $d "${nbdkit[@]}" --filter="$BLKMQ" "$ZONED" good device=$d --run true
done
state_is_kept 'a command with what is no drive'

for command in format check info zones 'emu show' 'emu create' serve doctor; do
  # shellcheck disable=SC2086
  {
    no '' "$SHINGLE" $command ''
    [ "$command" = doctor ] || no "'shingle" "$SHINGLE" $command
  }
done
no 'no drive' nbdkit -U "$(own_socket)" "$ZONED" '' --run true
no 'no drive' nbdkit -U "$(own_socket)" "$SG" --run true
# DEVICE, and what its message must hold
for row in 'nosuch:args nosuch' './random.so:x ./random.so' './fifo:x fifo' 'emu: emu:' 'sg: sg' \
           'emu:ram:colour=red colour' 'emu:ram:size=0 size=0' 'emu:ram:size=16E size=16E' \
           'emu:ram:size size' 'emu:ram:zone-size=3M zone-size=3M' 'sg:/dev/sg9999 sg9999' \
           '/dev/sg9999 sg9999' ': :' ':x :x'; do
  no "${row#* }" "$SHINGLE" info "${row% *}"
  no "${row#* }" nbdkit -U "$(own_socket)" "$ZONED" "${row% *}" --run true
  no "${row#* }" nbdkit -U "$(own_socket)" "$SG" "${row% *}" --run true
done
no cache-foreign "$SHINGLE" info cache-foreign

# -- the other words of a command line that name a file -------------------------------

for d in "${files[@]}" "${others[@]}" missing good/x; do
  [ $d = socket ] || for command in stat 'top --once' 'reclaim --pause'; do
    # shellcheck disable=SC2086
    no $d "$SHINGLE" $command $d
  done
  no $d "$SHINGLE" emu import new --raw=image --zones=$d
  case $d in missing|good/x) continue ;; esac
  no exists "$SHINGLE" emu create $d --size=64M
  [ $d = empty ] || {           # as good as none
    no $d "$SHINGLE" serve good "${serving[@]/pid/$d}"
    no $d "$SHINGLE" mount good mountpoint -P $d
  }
  [ $d = socket ] || {          # nobody listens: replaced, as one that a kill left
    no $d "$SHINGLE" mount good mountpoint --control=$d
    no $d nbdkit -U "$(own_socket)" "$ZONED" good control=$d --run true
  }
done
for d in "${others[@]}"; do
  no $d "$SHINGLE" emu create $d --size=64M --force
  no $d "$SHINGLE" emu import $d --raw=image --zones=table --force
  no $d "$SHINGLE" emu import new --raw=$d --zones=table
  [ $d = folder ] || no $d "$SHINGLE" mount good $d
done
no good "$SHINGLE" zones good --svg=good
no other "$SHINGLE" zones good --svg=other
no folder "$SHINGLE" zones good --svg=folder
no good "$SHINGLE" serve good -U sock -P good
no good "$SHINGLE" emu export good --raw=good --zones=new
no nowhere "$SHINGLE" zones good --svg=nowhere/x
no nowhere "$SHINGLE" mount good nowhere
no nowhere "$SHINGLE" mount good mountpoint -P nowhere/pid
no nowhere nbdkit -U "$(own_socket)" "$ZONED" good control=nowhere/x --run true
no mute "$SHINGLE" mount 'nbd+unix:///?socket=mute' mountpoint
no nbd "$SHINGLE" mount 'nbd://127.0.0.1:1' mountpoint
no 'nbd' "$SHINGLE" mount 'nbd+unix:///' mountpoint
state_is_kept 'a file in a wrong place'

# -- options --------------------------------------------------------------------------

big63=9223372036854775808
big64=18446744073709551616
no_numbers=('' -1 x 1x ' 1' 0x10 1.5 "$big64" 99999999999999999999999)

# bad_values WORD COMMAND... -- VALUE...: the last word of the command gets each value
bad_values ()
{
  local word=$1 command=() value
  shift
  while [ "$1" != -- ]; do command+=("$1"); shift; done
  shift
  for value; do
    no "$word" "${command[@]:0:${#command[@]}-1}" "${command[-1]}$value"
  done
}
bad_values reserved "$SHINGLE" format good --force --reserved= -- "${no_numbers[@]}" 0 4294967296 "$big63"
bad_values metadata-version "$SHINGLE" format good --force --metadata-version= -- "${no_numbers[@]}" 0 3
bad_values label "$SHINGLE" format good --force --label= -- '' 'longer than the thirty-one characters' a/b $'a\nb'
bad_values from "$SHINGLE" zones good --from= -- "${no_numbers[@]}" 4294967296 "$big63" 48
bad_values count "$SHINGLE" zones good --count= -- "${no_numbers[@]}" 0 4294967296 $big63
for o in type condition use; do
  bad_values $o "$SHINGLE" zones good --$o= -- '' x -1 "$big64"
done
bad_values delay "$SHINGLE" top --once nosuch --delay= -- "${no_numbers[@]}" 0 3601 $big63
for o in connections threads timeout; do
  bad_values $o "$SHINGLE" mount good mountpoint --$o= -- "${no_numbers[@]}" 0 86401 $big63
done
for o in port threads; do
  bad_values $o "$SHINGLE" serve good --print --$o= -- "${no_numbers[@]}" 0 65536 $big63
done
bad_values plugin "$SHINGLE" serve good --print --plugin= -- '' x ../zoned
bad_values nosuch "$SHINGLE" serve good "${serving[@]}" --group= -- nosuchgroup
bad_values nosuch "$SHINGLE" serve good "${serving[@]}" --user= -- nosuchuser
bad_values nosuch "$SHINGLE" serve good "${serving[@]}" --filter= -- nosuchfilter
bad_values TLS "$SHINGLE" serve good --print --ip= -- 0.0.0.0 nosuch.invalid ::

# Unknown ones, values too many and too few, twice, and a word too many.
for command in 'format good' 'check good' 'info good' 'zones good' 'emu create new' 'emu show good' \
               'emu set good wp=1' 'emu export good --raw=r --zones=z' 'mount good mountpoint' \
               'serve good' 'doctor good' 'stat x' 'top --once x' 'reclaim x'; do
  # shellcheck disable=SC2086
  {
    no colour "$SHINGLE" $command --colour=red
    no -- "$SHINGLE" $command -Z
    no -- "$SHINGLE" $command --help=me
    case $command in mount*|serve*|'emu set'*) ;; *) no word "$SHINGLE" $command word ;; esac
  }
done
for command in 'format good --label' 'format good --reserved' 'zones good --from' 'zones good --svg' \
               'emu import x --raw' 'mount good mountpoint -o' 'serve good -U' 'top -d' 'reclaim --volume'; do
  # shellcheck disable=SC2086
  no value "$SHINGLE" $command
done
for command in 'format good --force --label=a --label=b' 'format good --force --reserved=4 --reserved=5' \
               'zones good --from=1 --from=2' 'emu export good --raw=a --raw=b --zones=c' \
               'serve good --port=1 --port=2' 'serve good --control=a control=b' \
               'mount good mountpoint -C1 -C2' 'mount good mountpoint --cache-size=1M --cache_size=2M' \
               'top --delay=1 --delay=2 x' 'reclaim --volume=a --volume=b x'; do
  # shellcheck disable=SC2086
  no 'more than once' "$SHINGLE" $command
done
no 'takes no value' "$SHINGLE" check good --repair=yes
state_is_kept 'a bad option'

# What the help lists, with values that none of its kind takes.
options_of () { "$@" --help 2>/dev/null | sed -nE 's/^([a-z_]+)=.*/\1/p' | sort -u; }
for o in $(options_of nbdkit "$ZONED"); do
  case $o in
    device|control|tagset) bad=('') ;;
    export) bad=('') ;;
    fifo_batch|front_merges|*_expire|writes_starved) bad=('' x 1.5 "$big63" "$big64" "-$big64") ;;
    *) bad=('' x -1 1.5 "$big64") ;;
  esac
  bad_values $o nbdkit -U "$(own_socket)" "$ZONED" good --run true $o= -- "${bad[@]}"
  case $o in device|export|control|tagset) continue ;; esac
  bad_values $o "$SHINGLE" mount good mountpoint --$o= -- '' "$big64"
  bad_values $o "$SHINGLE" mount good mountpoint -o $o= -- x
done
for o in $(options_of nbdkit --filter="$BLKMQ" null); do
  case $o in
    size|control|tagset) continue ;;
    fifo_batch|front_merges|*_expire|writes_starved) bad=('' x 1.5 "$big63" "$big64" "-$big64") ;;
    *) bad=('' x -1 1.5 "$big64") ;;
  esac
  bad_values $o nbdkit -U "$(own_socket)" --filter="$BLKMQ" null --run true $o= -- "${bad[@]}"
done
for o in raw readonly; do
  bad_values $o nbdkit -U "$(own_socket)" "$SG" good --run true $o= -- '' x -1 $big64
  no 'more than once' nbdkit -U "$(own_socket)" "$SG" good $o=true $o=true --run true
done
for plugin in "$ZONED" "$SG"; do
  no colour nbdkit -U "$(own_socket)" "$plugin" good colour=red --run true
  no good nbdkit -U "$(own_socket)" "$plugin" good export=good device=other export=good --run true
  no 'two names' nbdkit -U "$(own_socket)" "$plugin" good export=a export=b --run true
done
no 'more than once' nbdkit -U "$(own_socket)" "$ZONED" good cache_size=1M cache_size=2M --run true
no 'more than once' nbdkit -U "$(own_socket)" --filter="$BLKMQ" null tags=4 tags=5 --run true
state_is_kept 'a bad option of nbdkit'

# Every setting of an emulated drive, when it is made and later.
for o in $("$SHINGLE" emu --help | sed -nE 's/^  --([a-z0-9-]+)=.*/\1/p'); do
  bad=('' -9223372036854775808 "$big64")
  bad_later=(x "$big63")
  case $o in
    serial) bad=("$(printf 'x%.0s' {1..300})"); bad_later=("${bad[@]}") ;;
    inq-*) bad=('longer than sixteen'); bad_later=("${bad[@]}") ;;
  esac
  bad_values "$o" "$SHINGLE" emu create new --$o= -- "${bad[@]}"
  [ ! -e new ] || { complain "emu create --$o left a file"; rm -f new*; }
  bad_values "$o" "$SHINGLE" emu set good "${o//-/_}=" -- "${bad_later[@]}"
done
for action in $("$SHINGLE" emu --help | sed '1,/^Further keys/d' | sed -nE 's/^  ([a-z_]+) .*/\1/p'); do
  bad_values $action "$SHINGLE" emu set good $action= -- '' x -1 "$big64" a:b:c 0:0:0:0 99999:x
done
state_is_kept 'a bad setting of an emulated drive'

echo "$cases cases, $problems problems"
[ $problems -eq 0 ]
