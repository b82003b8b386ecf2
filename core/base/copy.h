/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying to memory that plays a medium: nobody reads it again soon. */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* From here on the copy goes past the caches.  memcpy does so for copies larger
   than the cache alone, and for those below reads each line of the target before
   it writes it: twice the time for 1 MiB to memory that is not in the cache. */
#define COPY_PAST_CACHE_BYTES 16384u

/* As memcpy.  What was copied is visible to other threads by the same rules. */
static inline void
copy_to_medium (void *to, const void *from, size_t len)
{
#ifdef __SSE2__
  if (len >= COPY_PAST_CACHE_BYTES && ((uintptr_t) to & 15) == 0) {
    __m128i *d = to;
    const __m128i *s = from;
    size_t i;

    for (i = len / 64; i > 0; --i, d += 4, s += 4) {
      const __m128i a = _mm_loadu_si128 (s), b = _mm_loadu_si128 (s + 1);
      const __m128i c = _mm_loadu_si128 (s + 2), e = _mm_loadu_si128 (s + 3);

      _mm_stream_si128 (d, a);
      _mm_stream_si128 (d + 1, b);
      _mm_stream_si128 (d + 2, c);
      _mm_stream_si128 (d + 3, e);
    }
    _mm_sfence ();              /* streaming stores are weakly ordered */
    memcpy (d, s, len % 64);
    return;
  }
#endif
  memcpy (to, from, len);
}

#endif
