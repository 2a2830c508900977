/* The plain_sgd strategy: its object, and the slots that are in other files. */
#ifndef PLAIN_SGD_H
#define PLAIN_SGD_H

#include "plugin_helpers.h"

#ifndef PLUGIN_NAME
#define PLUGIN_NAME "plain_sgd"
#endif

#define MAX_DIMENSIONS 16
#define TREE_LEVELS 64

typedef struct slot {
  char* name;
  int64_t shape[MAX_DIMENSIONS];
  uint32_t ndim;
  uint32_t flags;
  uint64_t offset; /* in the flat arrays */
  uint64_t count;
  double lr_multiplier;
  double weight_decay;
} slot;

struct pl_strategy {
  const pl_host* host;
  const pl_context* context;
  const pl_communicator* communicator; /* NULL: one process */
  double momentum_factor;
  int nesterov;
  uint32_t hand_over;
  slot* slots;
  uint64_t slot_count;
  uint64_t total;  /* N, elements of all parameters */
  float* value;    /* (N) */
  float* gradient; /* (N), of the micro-batch under way */
  float* momentum; /* (N) */
  /* Gradients are added along a binary tree over the micro-batches: node k holds the sum of 2^k of them, or
   * is empty. */
  float* tree[TREE_LEVELS]; /* (N) each, made when first needed */
  uint32_t filled[TREE_LEVELS];
  double loss;
  uint64_t tickets; /* steps taken */
  int64_t updates;  /* steps that were not skipped, in this run and before it */
  pl_step_report reports[2];
};

/* plain_sgd_state.c */
pl_error* load_state(pl_strategy* self, const pl_state_reader* reader);
pl_error* snapshot(pl_strategy* self, uint32_t mode, pl_snapshot** out);
pl_error* snapshot_pieces(pl_snapshot* snapshot, pl_piece_visitor visit, void* user);
void snapshot_free(pl_snapshot* snapshot);

/* plain_sgd_step.c */
pl_error* begin_step(pl_strategy* self, uint64_t micro_batches);
pl_error* gradient_ready(pl_strategy* self, const pl_gradient* gradient);
pl_error* end_micro_batch(pl_strategy* self, const pl_tensor* loss);
pl_error* step(pl_strategy* self, const pl_step_args* args, uint64_t* ticket);
pl_error* collect(pl_strategy* self, uint64_t ticket, pl_step_report* out);

#endif
