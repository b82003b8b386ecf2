/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the sg transport: the system calls it makes, as a table that tests
 * replace, and what its two files share. */
#ifndef TRANSPORT_SG_H
#define TRANSPORT_SG_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include "shingle/transport.h"

struct sg_sys {
  int (*open) (const char *path, int flags);
  int (*close) (int fd);
  int (*stat) (const char *path, struct stat *st);
  int (*ioctl) (int fd, unsigned long request, void *arg);
  int (*flock) (int fd, int operation);
  void (*sleep_ms) (unsigned ms);
  /* One number from a text file; -1 when there is none.  For the limits that
     no ioctl tells. */
  long (*read_number) (const char *path);
  /* The name of the only entry of a folder; false when there is none. */
  bool (*only_entry) (const char *dir, char *name, size_t size);
  /* The first line of a text file, without its end; false when there is none. */
  bool (*read_line) (const char *path, char *line, size_t size);
};

extern const struct sg_sys sg_sys_linux;
/* What the transport uses; tests set it before they open, with no handle open. */
extern const struct sg_sys *sg_sys;

/* The kernel keeps a table of 16 requests for each open of /dev/sgN. */
#define SG_REQUESTS_PER_FD 16
#define SG_MAX_FDS 8

struct sg_fd {
  int fd;
  unsigned inflight;            /* commands in SG_IO on it */
};

struct sg {
  char path[PATH_MAX];          /* as named, absolute, links not followed: what it
                                   leads to may come back */
  unsigned flags;               /* SH_OPEN_* */

  /* Set by sg_node_open, again by reopen; constant while a command is in flight. */
  char node[PATH_MAX];          /* path, or where the drive was found again */
  char wwid[128];               /* as the kernel tells it; "": not known */
  bool is_block;                /* /dev/sdX: no table of 16 */
  size_t max_bytes;
  int max_segments;
  int claim_fd;                 /* holds the block node exclusively, or -1 */

  pthread_mutex_t lock;         /* protects all below; held for no system call but
                                   the opening of a further descriptor */
  pthread_cond_t freed;
  struct sg_fd fds[SG_MAX_FDS];
  unsigned nr_fds;
  unsigned inflight;            /* sum over fds */
  unsigned waiters;
  bool dead;                    /* ENODEV was seen; fds close with the last command */
  bool one_fd;                  /* a further open failed: stay with what there is */
};

/* Opens sg->node: checks what it is, claims it as sg->flags say, learns the
   limits, fills fds[0].  -1 with errno and a sentence. */
int sg_node_open (struct sg *sg, char *message, size_t message_size);
/* After a removal: opens the drive under its old name, or where the kernel now
   has the drive of the same WWID.  -1 with errno and a sentence. */
int sg_node_open_again (struct sg *sg, char *message, size_t message_size);
/* One more descriptor of the node that is open; -1 with errno. */
int sg_node_open_more (const struct sg *sg);
/* Closes every descriptor and the claim. */
void sg_node_close (struct sg *sg);

#endif
