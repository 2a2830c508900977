/* The training state of the plain_sgd strategy: values, momentum and the number of updates, of which rank 0
 * owns all. */
#include <stdlib.h>

#include "plain_sgd.h"

struct pl_snapshot {
  const pl_strategy* strategy; /* for names and shapes, which never change */
  const float* value;          /* (N) */
  const float* momentum;       /* (N) */
  float* copy;                 /* (2N); NULL: a view */
  int64_t updates;
};

static pl_piece piece_of(const slot* s, const char* kind) {
  pl_piece piece;
  memset(&piece, 0, sizeof piece);
  piece.struct_size = sizeof piece;
  piece.ndim = s->ndim;
  piece.parameter = make_str(s->name);
  piece.kind = make_str(kind);
  piece.shape = s->shape;
  piece.count = s->count;
  piece.dtype.code = PL_DTYPE_FLOAT;
  piece.dtype.bits = 32;
  piece.dtype.lanes = 1;
  return piece;
}

static pl_piece piece_of_updates(void) {
  pl_piece piece;
  memset(&piece, 0, sizeof piece);
  piece.struct_size = sizeof piece;
  piece.kind = make_str("step");
  piece.count = 1;
  piece.dtype.code = PL_DTYPE_INT;
  piece.dtype.bits = 64;
  piece.dtype.lanes = 1;
  return piece;
}

static int has_momentum(const pl_strategy* self, const slot* s) {
  return self->momentum_factor != 0 && (s->flags & PL_PARAMETER_TRAINABLE);
}

pl_error* load_state(pl_strategy* self, const pl_state_reader* reader) {
  uint64_t i;
  self->updates = 0;
  memset(self->momentum, 0, self->total * sizeof(float));
  if (!reader->values_only) {
    pl_piece piece = piece_of_updates();
    pl_error* error = reader->read(reader->user, &piece, &self->updates);
    if (error) return error;
  }
  for (i = 0; i < self->slot_count; ++i) {
    const slot* s = &self->slots[i];
    pl_piece piece = piece_of(s, "value");
    pl_error* error = reader->read(reader->user, &piece, self->value + s->offset);
    if (!error && !reader->values_only && has_momentum(self, s)) {
      piece = piece_of(s, "momentum");
      error = reader->read(reader->user, &piece, self->momentum + s->offset);
    }
    if (error) return error;
  }
  return NULL;
}

pl_error* snapshot(pl_strategy* self, uint32_t mode, pl_snapshot** out) {
  pl_snapshot* made;
  if (mode != PL_SNAPSHOT_COPY && mode != PL_SNAPSHOT_VIEW)
    return fail(self->host, PL_ERROR_UNSUPPORTED, "snapshot: mode %u is unknown", (unsigned)mode);
  made = (pl_snapshot*)calloc(1, sizeof *made);
  if (!made) return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "snapshot: no memory");
  made->strategy = self;
  made->value = self->value;
  made->momentum = self->momentum;
  made->updates = self->updates;
  if (mode == PL_SNAPSHOT_COPY) {
    made->copy = (float*)malloc((2 * self->total + 1) * sizeof(float));
    if (!made->copy) {
      free(made);
      return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "snapshot: no memory for a copy of %llu floats",
                  2 * (unsigned long long)self->total);
    }
    memcpy(made->copy, self->value, self->total * sizeof(float));
    memcpy(made->copy + self->total, self->momentum, self->total * sizeof(float));
    made->value = made->copy;
    made->momentum = made->copy + self->total;
  }
  *out = made;
  return NULL;
}

pl_error* snapshot_pieces(pl_snapshot* self, pl_piece_visitor visit, void* user) {
  const pl_strategy* strategy = self->strategy;
  pl_piece updates = piece_of_updates();
  uint64_t i;
  if (strategy->communicator && strategy->communicator->rank != 0) return NULL;
  updates.data = &self->updates;
  for (i = 0; i < strategy->slot_count; ++i) {
    const slot* s = &strategy->slots[i];
    pl_piece piece = piece_of(s, "value");
    pl_error* error;
    piece.data = self->value + s->offset;
    error = visit(user, &piece);
    if (!error && has_momentum(strategy, s)) {
      piece = piece_of(s, "momentum");
      piece.data = self->momentum + s->offset;
      error = visit(user, &piece);
    }
    if (error) return error;
  }
  return visit(user, &updates);
}

void snapshot_free(pl_snapshot* self) {
  free(self->copy);
  free(self);
}
