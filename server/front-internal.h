/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the FUSE front end only. */
#ifndef SERVER_FRONT_INTERNAL_H
#define SERVER_FRONT_INTERNAL_H

#define FUSE_USE_VERSION 35
#include <fuse3/fuse_lowlevel.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#include "base/bytes.h"
#include "front.h"
#include "slots.h"
#include "stack/served.h"
#include "view.h"

#define FRONT_MIN_PIPE_BYTES (128 * KiB)        /* less is copied sooner */

/* Inode numbers are indexes into front->nodes, plus 1; never changed after
   front_mount. */
enum node_type { NODE_FOLDER, NODE_VOLUME, NODE_TEXT };

struct node {
  enum node_type type;
  fuse_ino_t parent;
  char name[68];                /* "" for the root */
  struct backend *backend;      /* NODE_VOLUME */
  const struct served *served;  /* NODE_VOLUME, NODE_TEXT */
  unsigned client;              /* NODE_VOLUME: place in served->opstats */
  /* NODE_TEXT: writes the text from what the volume tells. */
  void (*render) (const struct node *n, const struct view_volume *v, FILE *out);
  unsigned hwq;                 /* NODE_TEXT of a hardware queue: its number */
  /* NODE_VOLUME: completed writes since the last flush that began after them
     was sent; lets close() skip a flush that has nothing to do. */
  atomic_bool dirty;
};

struct loop;

struct front {
  struct front_options options;
  struct backend *backends[FRONT_MAX_BACKENDS];
  unsigned nr_backends;
  const struct served *served;  /* nr_backends */
  struct fuse_session *se;
  bool mounted;
  uid_t uid;
  gid_t gid;
  struct timespec started;      /* the files' times */
  struct node *nodes;
  unsigned nr_nodes, max_nodes;
  struct slot_pool slots;
  struct loop *loop;
  atomic_bool initialised;      /* the kernel's first request was answered */
  int wake_fd;                  /* eventfd: something changed for front_run */
  atomic_bool stopping, unmounted;
};

/* front-tree.c */
int front_tree_build (struct front *f, bool is_file, struct sh_error *err);
struct node *front_node (struct front *f, fuse_ino_t ino);
fuse_ino_t front_ino (const struct front *f, const struct node *n);
/* The text of a NODE_TEXT; free it.  NULL with errno. */
char *front_text (const struct node *n, size_t *len);

/* front-ops.c */
extern const struct fuse_lowlevel_ops front_ops;

/* front-stats.c: the files of stats/. */
struct stats_file {
  const char *name;             /* NULL: the end */
  void (*render) (const struct node *n, const struct view_volume *v, FILE *out);
};
extern const struct stats_file stats_files[];           /* of the volume */
extern const struct stats_file stats_hwq_files[];       /* of each hardware queue */

/* front-loop.c */
int loop_start (struct front *f, struct sh_error *err);
/* Ends the threads and waits for outstanding requests; false when some did
   not end in time. */
bool loop_finish (struct front *f);
void loop_free (struct front *f);
/* The slot that the calling loop thread is working on. */
struct slot *loop_slot (void);
/* The calling thread gives its slot away; it will be put back to the pool by
   whoever completes it. */
void loop_give_slot (struct slot *s);

/* The calling thread, if it is one of the loop's, takes the data of the next request
   to a pipe. */
void loop_expect_data (void);

/* The calling loop thread's own pipe, empty; NULL: there is none. */
struct backend_pipe *loop_pipe (void);

/* Answers with the `bytes` that are in s->io.pipe, the header included; false: there
   is no answer yet, or nobody waits for it any more. */
bool loop_reply_pipe (struct slot *s, size_t bytes);
/* Between these, answers of this thread go to the slot's descriptor. */
void loop_reply_begin (const struct slot *s);
void loop_reply_end (void);
/* The calling loop thread's number. */
unsigned loop_thread_number (void);

#endif
