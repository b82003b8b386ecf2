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
add_node (struct front *f, fuse_ino_t parent, const char *name, enum node_type type)
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
  snprintf (n->name, sizeof n->name, "%s", name);
  return n;
}

static int
add_volume (struct front *f, fuse_ino_t parent, unsigned i)
{
  const struct served *served = &f->served[i];
  struct node *n = add_node (f, parent, parent ? served->name : "", NODE_VOLUME);

  if (!n)
    return -1;
  n->backend = f->backends[i];
  n->served = served;
  n->client = opstats_client_begin (served->opstats, "this mount");
  return 0;
}

/*--- stats/ -----------------------------------------------------------------*/

/* The number of the folder's inode; 0: no memory. */
static fuse_ino_t
add_folder (struct front *f, fuse_ino_t parent, const char *name)
{
  const struct node *n = add_node (f, parent, name, NODE_FOLDER);

  return n ? front_ino (f, n) : 0;
}

static int
add_files (struct front *f, fuse_ino_t parent, const struct stats_file *files,
           const struct served *served, unsigned hwq)
{
  for (; files->name; ++files) {
    struct node *n = add_node (f, parent, files->name, NODE_TEXT);

    if (!n)
      return -1;
    n->served = served;
    n->render = files->render;
    n->hwq = hwq;
  }
  return 0;
}

static int
add_hwqs (struct front *f, fuse_ino_t parent, const struct served *served)
{
  unsigned i;

  for (i = 0; i < served->nr_hwqs; ++i) {
    char name[16];
    fuse_ino_t folder;

    snprintf (name, sizeof name, "hwq%u", i);
    folder = add_folder (f, parent, name);
    if (folder == 0 || add_files (f, folder, stats_hwq_files, served, i) == -1)
      return -1;
  }
  return 0;
}

/* One volume's files lie in stats/ itself, those of several in stats/NAME. */
static int
add_stats (struct front *f)
{
  const fuse_ino_t top = add_folder (f, FUSE_ROOT_ID, "stats");
  unsigned i;

  if (top == 0)
    return -1;
  for (i = 0; i < f->nr_backends; ++i) {
    const struct served *served = &f->served[i];
    const fuse_ino_t folder = f->nr_backends == 1 ? top
      : add_folder (f, top, served->name);

    if (folder == 0 || add_files (f, folder, stats_files, served, 0) == -1
        || add_hwqs (f, folder, served) == -1)
      return -1;
  }
  return 0;
}

int
front_tree_build (struct front *f, bool is_file, struct sh_error *err)
{
  unsigned i;
  int r = 0;

  if (is_file)
    r = add_volume (f, 0, 0);
  else {
    if (add_folder (f, 0, "") == 0)
      r = -1;
    for (i = 0; r == 0 && i < f->nr_backends; ++i)
      r = add_volume (f, FUSE_ROOT_ID, i);
    if (r == 0)
      r = add_stats (f);
  }
  return r == 0 ? 0 : sh_fail (err, ENOMEM, "no memory for the tree of files");
}

static char *
render (const struct node *n, const struct view *view, size_t *len)
{
  char *text = NULL;
  FILE *out = open_memstream (&text, len);

  if (!out)
    return NULL;
  n->render (n, &view->volumes[0], out);
  if (fclose (out) != 0) {
    free (text);
    return NULL;
  }
  return text;
}

/* By way of what the control socket would tell, so that both say the same. */
char *
front_text (const struct node *n, size_t *len)
{
  struct json_object *answer = json_object_new_object ();
  struct json_object *volumes = json_object_new_array ();
  struct view *view;
  char *text;

  json_object_array_add (volumes, served_stats (n->served));
  json_object_object_add (answer, "volumes", volumes);
  view = view_parse (answer, 0);
  json_object_put (answer);
  text = view ? render (n, view, len) : NULL;
  free (view);
  return text;
}
