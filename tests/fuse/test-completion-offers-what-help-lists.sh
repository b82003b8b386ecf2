#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
source "$(dirname "$0")/../functions.sh"
# shellcheck source=/dev/null
source "$top_srcdir/server/shingle.bash-completion"

# offers WORD...: what bash offers for the last of these words.
offers ()
{
  COMP_WORDS=("$SHINGLE" "$@")
  COMP_CWORD=$#
  COMPREPLY=()
  _shingle
  printf '%s\n' ${COMPREPLY[@]+"${COMPREPLY[@]}"}
}

equal "$(offers mo)" mount
contains "$(offers '')" '^serve$'
contains "$(offers '')" '^--version$'
equal "$(offers mount --read)" "--read-only"
contains "$(offers stat --)" '^--prometheus$'
contains "$(offers emu cr)" '^create$'
touch "$tmp/drive.img"
equal "$(offers check "$tmp/dr")" "$tmp/drive.img"
equal "$(offers nosuchcommand --x)" ""
