/* A collective, carried out in the memory of all ranks at once. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static size_t bytes_of(const pl_buffer* buffer, uint64_t elements) {
  return (size_t)elements * (buffer->dtype.bits / 8u);
}

static char* at(const pl_buffer* buffer, uint64_t element) {
  return buffer->data ? (char*)buffer->data + bytes_of(buffer, element) : NULL;
}

static uint64_t sum_before(const uint64_t* counts, int32_t rank) {
  uint64_t sum = 0;
  int32_t r;
  for (r = 0; r < rank; ++r) sum += counts[r];
  return sum;
}

static void copy(void* to, const void* from, size_t bytes) {
  if (bytes) memmove(to, from, bytes);
}

/* The reduction of `count` elements at `offset` over all ranks, in the order of the ranks, into `to`, which
 * may be the first rank's own input. */
static void reduce_range(const group* g, const collective* c, uint64_t offset, uint64_t count, char* to) {
  const call* first = &c->calls[0];
  int32_t r;
  copy(to, at(&first->in, offset), bytes_of(&first->in, count));
  for (r = 1; r < g->world_size; ++r)
    if (count) fake_reduce(to, at(&c->calls[r].in, offset), count, first->in.dtype, first->reduce);
}

static void all_reduce(const group* g, collective* c) {
  const pl_buffer* first = &c->calls[0].in;
  int32_t r;
  reduce_range(g, c, 0, first->count, (char*)first->data);
  for (r = 1; r < g->world_size; ++r) copy(c->calls[r].out.data, first->data, bytes_of(first, first->count));
}

/* An output may overlap its own rank's input, so all results are made before any is written. */
static void reduce_scatter(const group* g, collective* c) {
  const call* first = &c->calls[0];
  char* result = (char*)malloc(bytes_of(&first->in, first->in.count) + 1);
  int32_t r;
  if (!result) abort(); /* a test backend: nothing else is left to do in the middle of all ranks' memory */
  reduce_range(g, c, 0, first->in.count, result);
  for (r = 0; r < g->world_size; ++r)
    copy(c->calls[r].out.data, result + bytes_of(&first->in, sum_before(first->send, r)),
         bytes_of(&first->in, first->send[r]));
  free(result);
}

static void all_gather(const group* g, collective* c) {
  const uint64_t* counts = c->calls[0].send;
  int32_t from, to;
  for (from = 0; from < g->world_size; ++from)
    for (to = 0; to < g->world_size; ++to)
      copy(at(&c->calls[to].out, sum_before(counts, from)), c->calls[from].in.data,
           bytes_of(&c->calls[from].in, counts[from]));
}

static void broadcast(const group* g, collective* c) {
  const pl_buffer* root = &c->calls[c->calls[0].root].in;
  int32_t r;
  for (r = 0; r < g->world_size; ++r)
    if (c->calls[r].out.data != root->data)
      copy(c->calls[r].out.data, root->data, bytes_of(root, root->count));
}

static void all_to_all(const group* g, collective* c) {
  int32_t from, to;
  for (from = 0; from < g->world_size; ++from)
    for (to = 0; to < g->world_size; ++to)
      copy(at(&c->calls[to].out, sum_before(c->calls[to].receive, from)),
           at(&c->calls[from].in, sum_before(c->calls[from].send, to)),
           bytes_of(&c->calls[from].in, c->calls[from].send[to]));
}

void fake_compute(const group* g, collective* c) {
  switch (c->calls[0].operation) {
    case ALL_REDUCE:
      all_reduce(g, c);
      break;
    case REDUCE_SCATTER:
      reduce_scatter(g, c);
      break;
    case ALL_GATHER:
      all_gather(g, c);
      break;
    case BROADCAST:
      broadcast(g, c);
      break;
    case ALL_TO_ALL:
      all_to_all(g, c);
      break;
    case BARRIER:
      break;
  }
}
