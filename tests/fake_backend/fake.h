/* A backend in C99 whose ranks are threads of one process: collectives are copies between their buffers, done
 * by whichever rank comes last, with sums in the order of the ranks. It shows that the ABI is C and lets the
 * core's and strategies' multi-rank code be tested in one process, under any sanitizer. */
#ifndef PIPELINE_TESTS_FAKE_H
#define PIPELINE_TESTS_FAKE_H

#include <pthread.h>

#include "pipeline.h"
#include "tests/c_plugins/plugin_helpers.h"

typedef enum operation { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, ALL_TO_ALL, BARRIER } operation;

/* What one rank passed to one collective. */
typedef struct call {
  operation operation;
  uint32_t reduce; /* PL_REDUCE_...; 0: none */
  int32_t root;    /* of a broadcast */
  uint32_t present;
  pl_buffer in;
  pl_buffer out;
  uint64_t* send;    /* (W) elements of each rank, in `in` or (all_gather) in `out` */
  uint64_t* receive; /* (W), all_to_all only: in `out` */
} call;

/* One collective of a group. Freed when all ranks have waited for it, or with the group. */
typedef struct collective {
  struct collective* next;
  uint64_t sequence;
  int32_t arrived;
  int32_t waited;
  int32_t done;
  call* calls; /* (W) */
} collective;

typedef struct group {
  int32_t world_size;
  int32_t members; /* that have not left */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  collective* collectives; /* under way */
  uint32_t broken;         /* a PL_ERROR_... once the group has failed; then every call fails */
  char reason[256];
} group;

struct pl_comm {
  const pl_host* host;
  group* group;
  int32_t rank;
  double timeout;
  uint64_t sequence; /* of this rank's last collective */
};

struct pl_work {
  collective* collective;
};

/* The moment `seconds` from now on the clock that `changed` waits by. */
struct timespec fake_deadline(double seconds);

/* fake_reduce.c: `to` = `to` op `from`, `count` elements; 0 when the dtype cannot be reduced. */
int fake_reduce(void* to, const void* from, uint64_t count, pl_dtype dtype, uint32_t reduce);

/* fake_compute.c: carries a collective out; all ranks' calls are there and agree. */
void fake_compute(const group* g, collective* c);

/* fake_collectives.c */
pl_error* fake_all_reduce(pl_comm* comm, const pl_buffer* in_out, uint32_t reduce, pl_work** out);
pl_error* fake_reduce_scatter(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_shard,
                              const uint64_t* counts, uint32_t reduce, pl_work** out);
pl_error* fake_all_gather(pl_comm* comm, const pl_buffer* in_shard, const pl_buffer* out_full,
                          const uint64_t* counts, pl_work** out);
pl_error* fake_broadcast(pl_comm* comm, const pl_buffer* in_out, int32_t root, pl_work** out);
pl_error* fake_all_to_all(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_buffer,
                          const uint64_t* send_counts, const uint64_t* receive_counts, pl_work** out);
pl_error* fake_barrier(pl_comm* comm, pl_work** out);

/* fake_wait.c */
pl_error* fake_start(pl_comm* comm, call* mine, pl_work** out); /* takes what `mine` points to */
pl_error* fake_wait(pl_comm* comm, pl_work* work, pl_stream stream);
pl_error* fake_wait_host(pl_comm* comm, pl_work* work, double timeout_seconds);
uint32_t fake_is_done(pl_comm* comm, pl_work* work);
PRINTF_LIKE void fake_break(group* g, uint32_t code, const char* format, ...); /* holds g->mutex */
void fake_free_calls(const group* g, collective* c);

#endif
