/* SPDX-License-Identifier: BSD-3-Clause */
/* The files and folders that a mount shows; fixed once built. */
#include "front-internal.h"

#include <config.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/error.h"
#include "stack/opstats.h"

struct node *
front_node (struct front *f, fuse_ino_t ino)
{
  assert (ino >= FUSE_ROOT_ID && ino - FUSE_ROOT_ID < f->nr_nodes);
  return &f->nodes[ino - FUSE_ROOT_ID];
}

fuse_ino_t
front_ino (const struct front *f, const struct node *n)
{
  return n - f->nodes + FUSE_ROOT_ID;
}

/* NULL: no memory.  Pointers to nodes change. */
static struct node *
add_node (struct front *f, fuse_ino_t parent, const char *name, enum node_type type,
          struct backend *b)
{
  struct node *n;

  if (f->nr_nodes == f->max_nodes) {
    const unsigned max = f->max_nodes ? f->max_nodes * 2 : 32;
    struct node *nodes = realloc (f->nodes, max * sizeof *nodes);

    if (!nodes)
      return NULL;
    f->nodes = nodes;
    f->max_nodes = max;
  }
  n = &f->nodes[f->nr_nodes++];
  memset (n, 0, sizeof *n);
  n->type = type;
  n->parent = parent;
  n->backend = b;
  snprintf (n->name, sizeof n->name, "%s", name);
  return n;
}

static bool
name_taken (const struct front *f, fuse_ino_t parent, const char *name)
{
  unsigned i;

  for (i = 0; i < f->nr_nodes; ++i)
    if (f->nodes[i].parent == parent && strcmp (f->nodes[i].name, name) == 0)
      return true;
  return false;
}

static int
add_volume (struct front *f, fuse_ino_t parent, const char *name, struct backend *b)
{
  struct node *n = add_node (f, parent, name, NODE_VOLUME, b);

  if (!n)
    return -1;
  n->client = opstats_client_begin (f->opstats, b->name);
  return 0;
}

/* "stats" is kept for the statistics. */
static int
add_volume_to_folder (struct front *f, struct backend *b)
{
  char name[sizeof f->nodes->name];
  unsigned i;

  snprintf (name, sizeof name, "%s", b->name);
  for (i = 2; name_taken (f, FUSE_ROOT_ID, name) || strcmp (name, "stats") == 0; ++i)
    snprintf (name, sizeof name, "%.50s-%u", b->name, i);
  return add_volume (f, FUSE_ROOT_ID, name, b);
}

int
front_tree_build (struct front *f, bool is_file, struct sh_error *err)
{
  unsigned i;
  int r = 0;

  if (is_file)
    r = add_volume (f, 0, "", f->backends[0]);
  else {
    if (!add_node (f, 0, "", NODE_FOLDER, NULL))
      r = -1;
    for (i = 0; r == 0 && i < f->nr_backends; ++i)
      r = add_volume_to_folder (f, f->backends[i]);
  }
  return r == 0 ? 0 : sh_fail (err, ENOMEM, "no memory for the tree of files");
}

char *
front_text (const struct node *n, size_t *len)
{
  struct json_object *stats = n->backend->ops->stats (n->backend);
  char *text = NULL;
  FILE *out = open_memstream (&text, len);

  if (out) {
    n->render (n, stats, out);
    if (fclose (out) != 0) {
      free (text);
      text = NULL;
    }
  }
  json_object_put (stats);
  return text;
}
