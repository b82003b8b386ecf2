# Included by every Makefile.am.
NULL =
AM_CPPFLAGS = \
	-I$(top_srcdir)/include \
	-I$(top_srcdir)/core \
	-D_GNU_SOURCE \
	$(NULL)
AM_CFLAGS = \
	-std=gnu17 \
	-pthread \
	-fvisibility=hidden \
	$(WARN_CFLAGS) \
	$(SANITIZER_CFLAGS) \
	$(NULL)
AM_LDFLAGS = -pthread $(SANITIZER_CFLAGS)

CORE = $(top_builddir)/core

# A manual page from the POD beside the program.
.pod.1:
	$(AM_V_GEN)$(POD2MAN) --section=1 --center="Shingle" --release="shingle $(VERSION)" --name=$$(basename $*) $< $@.t && mv $@.t $@

SUFFIXES = .pod .1
