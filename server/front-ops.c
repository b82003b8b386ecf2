/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The FUSE operations.  Data operations fill the calling thread's slot and
 * submit it; io_done answers, on whichever thread the backend completes.
 */
#include "front-internal.h"

#include <config.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "stack/opstats.h"

/* Since Linux 6.2; older kernels ignore it, and libfuse before 3.15 cannot
   send it, hence reply_open. */
#ifndef FOPEN_PARALLEL_DIRECT_WRITES
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif
#ifndef FOPEN_NOFLUSH
#define FOPEN_NOFLUSH (1 << 5)
#endif

#define ATTR_TIMEOUT_S 1.0
#define ENTRY_TIMEOUT_S 3600.0  /* the tree never changes */
#define MAX_BACKGROUND 256

static struct front *
req_front (fuse_req_t req)
{
  return fuse_req_userdata (req);
}

/*--- session ----------------------------------------------------------------*/

static void
op_init (void *userdata, struct fuse_conn_info *conn)
{
  const unsigned wanted =
    FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_ATOMIC_O_TRUNC
    | FUSE_CAP_PARALLEL_DIROPS;

  conn->want |= conn->capable & wanted;
  conn->want &= ~(unsigned) (FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE
                             | FUSE_CAP_SPLICE_MOVE);
  conn->max_write = SLOT_DATA_BYTES;
  conn->max_read = SLOT_DATA_BYTES;
  conn->max_background = MAX_BACKGROUND;
  conn->congestion_threshold = MAX_BACKGROUND / 4 * 3;
#ifdef HAVE_FUSE_NO_INTERRUPT
  /* No request of ours can be cut short, so the kernel need not ask. */
  conn->no_interrupt = 1;
#endif
}

/*--- nodes ------------------------------------------------------------------*/

static void
fill_attr (struct front *f, const struct node *n, struct stat *st)
{
  memset (st, 0, sizeof *st);
  st->st_ino = front_ino (f, n);
  st->st_uid = f->uid;
  st->st_gid = f->gid;
  st->st_nlink = 1;
  st->st_blksize = SLOT_PAGE;
  st->st_atim = st->st_mtim = st->st_ctim = f->started;
  switch (n->type) {
  case NODE_FOLDER:
    st->st_mode = S_IFDIR | 0555;
    st->st_nlink = 2;
    break;
  case NODE_TEXT:
    st->st_mode = S_IFREG | 0444;
    break;
  case NODE_VOLUME:
    st->st_mode = S_IFREG | (n->backend->read_only ? 0440 : 0660);
    st->st_size = n->backend->size;
    st->st_blksize = n->backend->block_bytes;
    st->st_blocks = n->backend->ops->allocated
      ? MIN (n->backend->ops->allocated (n->backend), n->backend->size) / 512
      : n->backend->size / 512;
    break;
  }
}

static void
op_lookup (fuse_req_t req, fuse_ino_t parent, const char *name)
{
  struct front *f = req_front (req);
  struct fuse_entry_param e = {
    .attr_timeout = ATTR_TIMEOUT_S,
    .entry_timeout = ENTRY_TIMEOUT_S,
  };
  unsigned i;

  for (i = 1; i < f->nr_nodes; ++i) {
    const struct node *n = &f->nodes[i];

    if (n->parent == parent && strcmp (n->name, name) == 0) {
      e.ino = front_ino (f, n);
      fill_attr (f, n, &e.attr);
      fuse_reply_entry (req, &e);
      return;
    }
  }
  fuse_reply_err (req, ENOENT);
}

static void
op_getattr (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
  struct front *f = req_front (req);
  struct stat st;

  fill_attr (f, front_node (f, ino), &st);
  fuse_reply_attr (req, &st, ATTR_TIMEOUT_S);
}

/* The size of a volume is what it is; times may be set and stay what they are. */
static void
op_setattr (fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
            struct fuse_file_info *fi)
{
  const struct node *n = front_node (req_front (req), ino);
  const int fixed = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID;

  if ((to_set & fixed)
      || ((to_set & FUSE_SET_ATTR_SIZE)
          && (n->type != NODE_VOLUME || (uint64_t) attr->st_size != n->backend->size)))
    fuse_reply_err (req, EPERM);
  else
    op_getattr (req, ino, fi);
}

static void
op_statfs (fuse_req_t req, fuse_ino_t ino)
{
  struct front *f = req_front (req);
  struct statvfs st = { .f_bsize = SLOT_PAGE, .f_frsize = SLOT_PAGE, .f_namemax = 255 };
  uint64_t bytes = 0;
  unsigned i;

  for (i = 0; i < f->nr_backends; ++i)
    bytes += f->backends[i]->size;
  st.f_blocks = bytes / SLOT_PAGE;
  st.f_files = f->nr_nodes;
  fuse_reply_statfs (req, &st);
}

static void
op_readdir (fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
            struct fuse_file_info *fi)
{
  struct front *f = req_front (req);
  char *buf = malloc (size);
  size_t used = 0, need;
  unsigned i;

  if (!buf) {
    fuse_reply_err (req, ENOMEM);
    return;
  }
  /* Entry 0 is ".", 1 is "..", 2 + i is node i; off is the next entry. */
  for (i = off; i < f->nr_nodes + 2; ++i) {
    const struct node *n = i < 2 ? front_node (f, ino) : &f->nodes[i - 2];
    const char *name = i == 0 ? "." : i == 1 ? ".." : n->name;
    struct stat st;

    if (i >= 2 && (n->name[0] == '\0' || n->parent != ino))
      continue;
    fill_attr (f, n, &st);
    need = fuse_add_direntry (req, buf + used, size - used, name, &st, i + 1);
    if (need > size - used)
      break;
    used += need;
  }
  fuse_reply_buf (req, buf, used);
  free (buf);
}

/*--- open and close ---------------------------------------------------------*/

static int
reply_open (fuse_req_t req, uint64_t fh, unsigned open_flags)
{
  const struct fuse_open_out out = { .fh = fh, .open_flags = open_flags };

  return fuse_reply_buf (req, (const char *) &out, sizeof out);
}

/* What the file says stays the same while it is open. */
struct text {
  size_t len;
  char *bytes;
};

static void
text_free (struct text *t)
{
  free (t->bytes);
  free (t);
}

static void
open_text (fuse_req_t req, const struct node *n)
{
  struct text *t = calloc (1, sizeof *t);

  if (!t || !(t->bytes = front_text (n, &t->len))) {
    free (t);
    fuse_reply_err (req, ENOMEM);
  }
  else if (reply_open (req, (uintptr_t) t, FOPEN_DIRECT_IO | FOPEN_NOFLUSH) != 0)
    text_free (t);
}

/* O_TRUNC means as little as it does on a block device. */
static void
op_open (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
  struct front *f = req_front (req);
  const struct node *n = front_node (f, ino);
  const bool reads_only = (fi->flags & O_ACCMODE) == O_RDONLY;

  if (n->type == NODE_TEXT) {
    if (reads_only)
      open_text (req, n);
    else
      fuse_reply_err (req, EACCES);
  }
  else if (n->backend->read_only && !reads_only)
    fuse_reply_err (req, EROFS);
  else
    reply_open (req, 0,
                (f->options.cache ? FOPEN_KEEP_CACHE
                 : FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES)
                | (reads_only ? FOPEN_NOFLUSH : 0));
}

static void
op_release (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
  if (front_node (req_front (req), ino)->type == NODE_TEXT)
    text_free ((struct text *) (uintptr_t) fi->fh);
  fuse_reply_err (req, 0);
}

/*--- data -------------------------------------------------------------------*/

static const enum opstat_op stat_ops[BACKEND_NR_OPS] = {
  [BACKEND_READ] = OPSTAT_READ,
  [BACKEND_WRITE] = OPSTAT_WRITE,
  [BACKEND_FLUSH] = OPSTAT_FLUSH,
  [BACKEND_DISCARD] = OPSTAT_TRIM,
  [BACKEND_ZERO] = OPSTAT_ZERO,
};

static void
answer (struct slot *s, int errnum)
{
  if (errnum != 0)
    fuse_reply_err (s->req, errnum);
  else if (s->io.piped) {
    if (loop_reply_pipe (s, sizeof s->head + s->io.count))
      fuse_reply_none (s->req);
    else
      fuse_reply_err (s->req, EIO);
  }
  else if (s->io.op == BACKEND_READ)
    fuse_reply_buf (s->req, s->data, s->io.count);
  else if (s->io.op == BACKEND_WRITE)
    fuse_reply_write (s->req, s->io.count);
  else
    fuse_reply_err (s->req, 0);
}

static void
io_done (struct backend_io *io, int errnum)
{
  struct slot *s = (struct slot *) io;
  struct front *f = s->front;
  struct node *n = s->node;

  /* Before the answer: a close that follows it must see the mark. */
  if (io->op == BACKEND_FLUSH) {
    if (errnum != 0)
      atomic_store (&n->dirty, true);
  }
  else if (io->op != BACKEND_READ && !io->fua)
    atomic_store (&n->dirty, true);

  if (io->op == BACKEND_WRITE && io->count >= FRONT_MIN_PIPE_BYTES
      && n->backend->takes_pipe)
    loop_expect_data ();
  opstats_record (n->served->opstats, n->client, stat_ops[io->op],
                  io->op == BACKEND_FLUSH ? 0 : io->count,
                  sh_now (&sh_clock_monotonic) - s->start_ns, errnum != 0);
  loop_reply_begin (s);
  answer (s, errnum);
  loop_reply_end ();
  if (!n->backend->synchronous)
    slot_put (&f->slots, s);
}

static_assert (offsetof (struct slot, io) == 0, "io_done converts back");

/* A pipe for the answer to a large read, or NULL. */
static struct backend_pipe *
answer_pipe (struct slot *s, uint64_t count)
{
  struct backend_pipe *p = loop_pipe ();

  if (!p)
    return NULL;
  s->head = (struct fuse_out_header) {
    .len = (uint32_t) (sizeof s->head + count),
    .unique = ((const struct fuse_in_header *) s->in)->unique,
  };
  p->head = &s->head;
  p->head_bytes = sizeof s->head;
  return p;
}

/* What is in the pipe goes on in it; or to its place, for a backend that has no use for
   pipes. */
static void
write_pipe (struct slot *s)
{
  struct backend_pipe *p = s->data_pipe;

  if (s->node->backend->takes_pipe)
    s->io.pipe = p;
  else {
    backend_empty_pipe (p->out, s->data, s->io.count);
    p->data_bytes -= s->io.count;
  }
}

static void
submit (fuse_req_t req, struct node *n, enum backend_op op, uint64_t count,
        uint64_t offset, bool fua)
{
  struct slot *s = loop_slot ();

  s->req = req;
  s->node = n;
  s->start_ns = sh_now (&sh_clock_monotonic);
  s->io = (struct backend_io) {
    .op = op,
    .fua = fua,
    .hint = loop_thread_number (),
    .buf = s->data,
    .count = count,
    .offset = offset,
    .done = io_done,
  };
  if (op == BACKEND_READ && count >= FRONT_MIN_PIPE_BYTES && n->backend->takes_pipe)
    s->io.pipe = answer_pipe (s, count);
  else if (op == BACKEND_WRITE && s->data_pipe)
    write_pipe (s);
  if (!n->backend->synchronous)
    loop_give_slot (s);
  backend_submit (n->backend, &s->io);
}

static void
read_text (fuse_req_t req, const struct text *t, size_t size, off_t off)
{
  if ((size_t) off >= t->len)
    fuse_reply_buf (req, NULL, 0);
  else
    fuse_reply_buf (req, t->bytes + off, MIN (size, t->len - off));
}

static void
op_read (fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
         struct fuse_file_info *fi)
{
  struct node *n = front_node (req_front (req), ino);

  if (off < 0 || size > SLOT_DATA_BYTES)
    fuse_reply_err (req, EINVAL);
  else if (n->type == NODE_TEXT)
    read_text (req, (const struct text *) (uintptr_t) fi->fh, size, off);
  else if (size == 0 || (uint64_t) off >= n->backend->size)
    fuse_reply_buf (req, NULL, 0);
  else
    submit (req, n, BACKEND_READ, MIN (size, n->backend->size - off), off, false);
}

static void
op_write (fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
          struct fuse_file_info *fi)
{
  struct node *n = front_node (req_front (req), ino);

  if (n->type != NODE_VOLUME || off < 0 || size > SLOT_DATA_BYTES)
    fuse_reply_err (req, EINVAL);
  else if (size == 0)
    fuse_reply_write (req, 0);
  else if ((uint64_t) off >= n->backend->size)
    fuse_reply_err (req, ENOSPC);
  else {
    assert (buf == loop_slot ()->data);
    submit (req, n, BACKEND_WRITE, MIN (size, n->backend->size - off), off,
            fi->flags & O_DSYNC);
  }
}

static void
op_fsync (fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
  struct node *n = front_node (req_front (req), ino);

  if (n->type != NODE_VOLUME)
    fuse_reply_err (req, 0);
  else {
    atomic_store (&n->dirty, false);
    submit (req, n, BACKEND_FLUSH, 0, 0, false);
  }
}

/* On each close(2) of a descriptor that could write.  Unmounting does not wait
   for this process, so that what a closed file took has to be safe by now. */
static void
op_flush (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
  struct node *n = front_node (req_front (req), ino);

  if (n->type == NODE_VOLUME && atomic_exchange (&n->dirty, false))
    submit (req, n, BACKEND_FLUSH, 0, 0, false);
  else
    fuse_reply_err (req, 0);
}

static void
op_fallocate (fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
              struct fuse_file_info *fi)
{
  struct node *n = front_node (req_front (req), ino);
  const bool keep_size = mode & FALLOC_FL_KEEP_SIZE;
  const bool punch = mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  uint64_t end;

  if (n->type != NODE_VOLUME || !n->backend->can_zero
      || (!punch && (mode & ~FALLOC_FL_KEEP_SIZE) != FALLOC_FL_ZERO_RANGE))
    fuse_reply_err (req, EOPNOTSUPP);
  else if (off < 0 || len <= 0 || ADD_OVERFLOW ((uint64_t) off, (uint64_t) len, &end))
    fuse_reply_err (req, EINVAL);
  else if (n->backend->read_only)
    fuse_reply_err (req, EROFS);
  else if (end > n->backend->size && !keep_size)
    fuse_reply_err (req, ENOSPC);
  else if ((uint64_t) off >= n->backend->size)
    fuse_reply_err (req, 0);
  else
    submit (req, n, punch ? BACKEND_DISCARD : BACKEND_ZERO,
            MIN (end, n->backend->size) - off, off, false);
}

/*--- holes ------------------------------------------------------------------*/

struct seek {
  bool want_hole;
  bool found;
  uint64_t offset;
};

static int
seek_extent (void *opaque, uint64_t offset, uint64_t length, bool hole)
{
  struct seek *s = opaque;

  if (hole != s->want_hole)
    return 0;
  s->found = true;
  s->offset = offset;
  return 1;
}

static void
op_lseek (fuse_req_t req, fuse_ino_t ino, off_t off, int whence,
          struct fuse_file_info *fi)
{
  struct node *n = front_node (req_front (req), ino);
  struct backend *b = n->backend;
  struct seek s = { .want_hole = whence == SEEK_HOLE };

  if (n->type != NODE_VOLUME || (whence != SEEK_HOLE && whence != SEEK_DATA))
    fuse_reply_err (req, EINVAL);
  else if (off < 0 || (uint64_t) off >= b->size)
    fuse_reply_err (req, ENXIO);
  else if (!b->ops->extents)
    fuse_reply_lseek (req, s.want_hole ? (off_t) b->size : off);
  else if (b->ops->extents (b, b->size - off, off, seek_extent, &s) == -1)
    fuse_reply_err (req, errno);
  else if (s.found)
    fuse_reply_lseek (req, s.offset);
  else if (s.want_hole)
    fuse_reply_lseek (req, b->size);
  else
    fuse_reply_err (req, ENXIO);
}

const struct fuse_lowlevel_ops front_ops = {
  .init = op_init,
  .lookup = op_lookup,
  .getattr = op_getattr,
  .setattr = op_setattr,
  .statfs = op_statfs,
  .readdir = op_readdir,
  .open = op_open,
  .release = op_release,
  .read = op_read,
  .write = op_write,
  .flush = op_flush,
  .fsync = op_fsync,
  .fallocate = op_fallocate,
  .lseek = op_lseek,
};
