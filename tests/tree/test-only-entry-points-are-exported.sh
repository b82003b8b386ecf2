#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit loads plugins and filters RTLD_GLOBAL: a plugin and a filter that
# both export a function of core/ would share one copy of it and of its
# variables.  So nothing leaves a loadable object but its entry point and its
# debug flags.
. "$(dirname "$0")/../functions.sh"
requires_program nm

shopt -s nullglob
objects=("$top_builddir"/plugins/*/.libs/nbdkit-*.so
         "$top_builddir"/{core,examples}/{,*/}.libs/shingle-*-transport.so)
for object in ${objects[@]+"${objects[@]}"}; do
  exported=$(nm -D --defined-only "$object" | awk '{ print $NF }' | sed 's/@.*//')
  extra=$(grep -vE '^(plugin_init|filter_init|shingle_transport|[a-z0-9]+_debug_[a-z0-9_]+)$' \
            <<<"$exported" | grep -vE '^(__asan|__ubsan|__tsan|__odr_asan|__lsan|__sanitizer)' || true)
  [ -z "$extra" ] || fail "$object exports: $extra"
  contains "$exported" '^(plugin_init|filter_init|shingle_transport)$'
done
