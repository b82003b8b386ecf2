/* SPDX-License-Identifier: BSD-3-Clause */
/* A search tree (treap) ordered by a 64-bit key, its nodes inside its members.
 * Members with equal keys keep the order in which they were added.  All
 * operations take O(log n) steps on average; none allocates. */
#ifndef MQ_TREE_H
#define MQ_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_node {
  struct tree_node *parent, *left, *right;
  uint64_t key;
  uint32_t weight;              /* random; a parent's is never less than a child's */
};

struct tree {
  struct tree_node *root;
  uint32_t seed;                /* of the weights; 0 is as good as any */
};

void tree_add (struct tree *tree, struct tree_node *node, uint64_t key);
void tree_remove (struct tree *tree, struct tree_node *node);

/* The first member with key >= `key` in order, or NULL. */
struct tree_node *tree_at_or_after (const struct tree *tree, uint64_t key);
/* The last member with key < `key`, or NULL. */
struct tree_node *tree_before (const struct tree *tree, uint64_t key);
struct tree_node *tree_next (struct tree_node *node);
struct tree_node *tree_prev (struct tree_node *node);

static inline bool
tree_empty (const struct tree *tree)
{
  return tree->root == NULL;
}

/* Order, weights and parents are right: asserts. */
void tree_check (const struct tree *tree);

#endif
