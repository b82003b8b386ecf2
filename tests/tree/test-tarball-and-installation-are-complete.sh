#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What `make dist` would pack is every file of the sources and nothing that was
# built; what `make install` puts anywhere is what a user needs, and `make
# uninstall` takes all of it away.  (`make distcheck` is the long form.)
. "$(dirname "$0")/../functions.sh"
requires_program make file

quiet_make () { make -s -C "$top_builddir" "$@" >"$tmp/make.log" 2>&1 || { cat "$tmp/make.log" >&2; fail "make $*"; }; }

# -- the tarball's files ---------------------------------------------------------

# (configure, Makefile.in and their helpers belong to a tarball; man pages do not.)
quiet_make distdir am__skip_length_check=:
mv "$top_builddir"/shingle-[0-9]*[0-9] "$tmp/dist"
chmod -R u+w "$tmp/dist"
cd "$tmp/dist"
find . -type f -printf '%P\n' | sort >"$tmp/packed"
built=$(grep -E '\.(o|lo|la|a|so|1|8|log|trs|pyc)$' "$tmp/packed" || true)
[ -z "$built" ] || fail "built files in the tarball: $built"
built=$(find . -type f -exec file {} + | grep -E ': +ELF' || true)
[ -z "$built" ] || fail "programs in the tarball: $built"
if git -C "$top_srcdir" -c safe.directory='*' rev-parse >/dev/null 2>&1 && [ -e "$top_srcdir/.git" ]; then
  missing=$(git -C "$top_srcdir" -c safe.directory='*' ls-files | sort | comm -23 - "$tmp/packed")
  [ -z "$missing" ] || fail "not in the tarball: $missing"
fi

# -- the installation ------------------------------------------------------------

root=$tmp/root
quiet_make install DESTDIR="$root"
cd "$root"
find . -type f -printf '%P\n' >"$tmp/installed"
for pattern in 'bin/shingle$' 'plugins/nbdkit-zoned-plugin\.so$' 'plugins/nbdkit-sg-plugin\.so$' \
    'filters/nbdkit-blkmq-filter\.so$' 'sbin/mount\.fuse\.shingle$' \
    'bash-completion/completions/shingle$' 'include/shingle/transport\.h$' \
    'man1/nbdkit-(zoned|sg)-plugin\.1$' 'man1/nbdkit-blkmq-filter\.1$'; do
  grep -qE "$pattern" "$tmp/installed" || fail "not installed: $pattern"
done
"$SHINGLE" --help | sed -nE 's/^  ([a-z]+) .*/\1/p' | while read -r command; do
  [ "$command" = shingle ] || grep -q "man1/shingle-$command\.1$" "$tmp/installed" ||
    fail "no manual of shingle $command is installed"
done
! grep -E '\.l?a$' "$tmp/installed" || fail "libtool's files are installed"
! grep -rlIF "$top_builddir" . || fail "names of the build folder are installed"
quiet_make uninstall DESTDIR="$root"
left=$(find . -type f)
[ -z "$left" ] || fail "left by uninstall: $left"
