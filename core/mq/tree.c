/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>
#include <assert.h>
#include "mq/tree.h"

static uint32_t
next_weight (struct tree *tree)
{
  uint32_t x = tree->seed ? tree->seed : UINT32_C (0x9e3779b9);

  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  tree->seed = x;
  return x;
}

/* Where the link to `node` is kept. */
static struct tree_node **
link_to (struct tree *tree, struct tree_node *node)
{
  struct tree_node *parent = node->parent;

  if (parent == NULL)
    return &tree->root;
  return parent->left == node ? &parent->left : &parent->right;
}

static void
set_left (struct tree_node *node, struct tree_node *child)
{
  node->left = child;
  if (child)
    child->parent = node;
}

static void
set_right (struct tree_node *node, struct tree_node *child)
{
  node->right = child;
  if (child)
    child->parent = node;
}

/* `node` and its parent change places; the order stays. */
static void
rotate_up (struct tree *tree, struct tree_node *node)
{
  struct tree_node *parent = node->parent;
  struct tree_node **link = link_to (tree, parent);

  node->parent = parent->parent;
  *link = node;
  if (parent->left == node) {
    set_left (parent, node->right);
    set_right (node, parent);
  }
  else {
    set_right (parent, node->left);
    set_left (node, parent);
  }
}

void
tree_add (struct tree *tree, struct tree_node *node, uint64_t key)
{
  struct tree_node **link = &tree->root, *parent = NULL;

  while (*link) {
    parent = *link;
    link = key < parent->key ? &parent->left : &parent->right;
  }
  node->parent = parent;
  node->left = node->right = NULL;
  node->key = key;
  node->weight = next_weight (tree);
  *link = node;
  while (node->parent && node->parent->weight < node->weight)
    rotate_up (tree, node);
}

void
tree_remove (struct tree *tree, struct tree_node *node)
{
  struct tree_node *child;

  while (node->left && node->right)
    rotate_up (tree, node->left->weight > node->right->weight
                     ? node->left : node->right);
  child = node->left ? node->left : node->right;
  *link_to (tree, node) = child;
  if (child)
    child->parent = node->parent;
  node->parent = node->left = node->right = NULL;
}

struct tree_node *
tree_at_or_after (const struct tree *tree, uint64_t key)
{
  struct tree_node *node = tree->root, *found = NULL;

  while (node) {
    if (node->key >= key) {
      found = node;
      node = node->left;
    }
    else
      node = node->right;
  }
  return found;
}

struct tree_node *
tree_before (const struct tree *tree, uint64_t key)
{
  struct tree_node *node = tree->root, *found = NULL;

  while (node) {
    if (node->key < key) {
      found = node;
      node = node->right;
    }
    else
      node = node->left;
  }
  return found;
}

struct tree_node *
tree_next (struct tree_node *node)
{
  if (node->right) {
    node = node->right;
    while (node->left)
      node = node->left;
    return node;
  }
  while (node->parent && node->parent->right == node)
    node = node->parent;
  return node->parent;
}

struct tree_node *
tree_prev (struct tree_node *node)
{
  if (node->left) {
    node = node->left;
    while (node->right)
      node = node->right;
    return node;
  }
  while (node->parent && node->parent->left == node)
    node = node->parent;
  return node->parent;
}

static void
check_below (const struct tree_node *node)
{
  const struct tree_node *const child[2] = { node->left, node->right };
  int i;

  for (i = 0; i < 2; ++i) {
    if (child[i] == NULL)
      continue;
    assert (child[i]->parent == node);
    assert (child[i]->weight <= node->weight);
    check_below (child[i]);
  }
  assert (!node->left || node->left->key <= node->key);
  assert (!node->right || node->right->key >= node->key);
}

void
tree_check (const struct tree *tree)
{
  struct tree_node *node, *next;

  if (tree->root == NULL)
    return;
  assert (tree->root->parent == NULL);
  check_below (tree->root);
  for (node = tree_at_or_after (tree, 0); node; node = next) {
    next = tree_next (node);
    assert (next == NULL || next->key >= node->key);
    assert (next == NULL || tree_prev (next) == node);
  }
}
