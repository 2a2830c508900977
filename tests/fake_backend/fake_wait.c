/* How the ranks of a group meet in a collective. The first to come makes it, each one is compared with the
 * others, the last one carries it out. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"

static const char* const kNames[] = {"all_reduce", "reduce_scatter", "all_gather",
                                     "broadcast",  "all_to_all",     "barrier"};

void fake_break(group* g, uint32_t code, const char* format, ...) {
  va_list arguments;
  if (!g->broken) {
    va_start(arguments, format);
    vsnprintf(g->reason, sizeof g->reason, format, arguments);
    va_end(arguments);
    g->broken = code;
  }
  pthread_cond_broadcast(&g->changed);
}

void fake_free_calls(const group* g, collective* c) {
  int32_t r;
  for (r = 0; r < g->world_size; ++r) {
    free(c->calls[r].send);
    free(c->calls[r].receive);
  }
  free(c->calls);
}

/* Elements that must be the same on all ranks. */
static uint64_t common_count(const call* one) {
  switch (one->operation) {
    case ALL_GATHER:
      return one->out.count;
    case ALL_TO_ALL:
    case BARRIER:
      return 0;
    default:
      return one->in.count;
  }
}

static const char* dtype_kind(pl_dtype dtype) {
  switch (dtype.code) {
    case PL_DTYPE_INT:
      return "int";
    case PL_DTYPE_UINT:
      return "uint";
    case PL_DTYPE_FLOAT:
      return "float";
    case PL_DTYPE_BFLOAT:
      return "bfloat";
    case PL_DTYPE_BOOL:
      return "bool";
    default:
      return "dtype-";
  }
}

/* "rank 0: broadcast of 4 x float32, reduction 0, root 1" */
static void describe(const call* one, int32_t rank, char* text, size_t room) {
  snprintf(text, room, "rank %d: %s of %llu x %s%u, reduction %u, root %d", (int)rank, kNames[one->operation],
           (unsigned long long)common_count(one), dtype_kind(one->in.dtype), (unsigned)one->in.dtype.bits,
           (unsigned)one->reduce, (int)one->root);
}

static int agree(const call* a, const call* b, int32_t world_size) {
  if (a->operation != b->operation || a->reduce != b->reduce || a->root != b->root) return 0;
  if (common_count(a) != common_count(b) || memcmp(&a->in.dtype, &b->in.dtype, sizeof a->in.dtype) != 0)
    return 0;
  if (a->operation == ALL_TO_ALL || !a->send) return 1;
  return memcmp(a->send, b->send, (size_t)world_size * sizeof *a->send) == 0;
}

/* Compares a new call with those that are there; breaks the group where they differ. */
static void compare(group* g, const collective* c, int32_t rank) {
  const call* mine = &c->calls[rank];
  char first[96], second[96];
  int32_t r;
  for (r = 0; r < g->world_size; ++r) {
    const call* other = &c->calls[r];
    if (r == rank || !other->present) continue;
    if (!agree(mine, other, g->world_size)) {
      describe(r < rank ? other : mine, r < rank ? r : rank, first, sizeof first);
      describe(r < rank ? mine : other, r < rank ? rank : r, second, sizeof second);
      fake_break(g, PL_ERROR_FAILED, "the ranks' calls differ at #%llu: %s; %s",
                 (unsigned long long)c->sequence, first, second);
      return;
    }
    if (mine->operation == ALL_TO_ALL &&
        (mine->send[r] != other->receive[rank] || other->send[rank] != mine->receive[r])) {
      fake_break(g, PL_ERROR_FAILED,
                 "the ranks' calls differ at #%llu: all_to_all: rank %d sends %llu elements to rank %d, "
                 "which expects %llu; the other "
                 "way %llu, expected %llu",
                 (unsigned long long)c->sequence, (int)rank, (unsigned long long)mine->send[r], (int)r,
                 (unsigned long long)other->receive[rank], (unsigned long long)other->send[rank],
                 (unsigned long long)mine->receive[r]);
      return;
    }
  }
}

/* Holds g->mutex. */
static collective* find_or_make(group* g, uint64_t sequence) {
  collective* c = g->collectives;
  while (c && c->sequence != sequence) c = c->next;
  if (c) return c;
  c = (collective*)calloc(1, sizeof *c);
  if (c) c->calls = (call*)calloc((size_t)g->world_size, sizeof *c->calls);
  if (!c || !c->calls) {
    free(c);
    return NULL;
  }
  c->sequence = sequence;
  c->next = g->collectives;
  g->collectives = c;
  return c;
}

/* Holds g->mutex. */
static pl_error* broken_error(const pl_comm* comm, const char* what, uint64_t sequence) {
  return fail(comm->host, comm->group->broken, "%s #%llu: %s", what, (unsigned long long)sequence,
              comm->group->reason);
}

pl_error* fake_start(pl_comm* comm, call* mine, pl_work** out) {
  group* g = comm->group;
  pl_work* work = (pl_work*)malloc(sizeof *work);
  collective* c = NULL;
  pl_error* error = NULL;
  pthread_mutex_lock(&g->mutex);
  ++comm->sequence;
  if (g->broken)
    error = broken_error(comm, kNames[mine->operation], comm->sequence);
  else if (!work || !(c = find_or_make(g, comm->sequence)))
    error = fail(comm->host, PL_ERROR_OUT_OF_MEMORY, "%s: no memory", kNames[mine->operation]);
  if (error) {
    free(mine->send);
    free(mine->receive);
    free(work);
  } else {
    c->calls[comm->rank] = *mine;
    c->calls[comm->rank].present = 1;
    ++c->arrived;
    compare(g, c, comm->rank);
    if (!g->broken && c->arrived == g->world_size) {
      fake_compute(g, c);
      c->done = 1;
      pthread_cond_broadcast(&g->changed);
    }
    work->collective = c;
    *out = work;
  }
  pthread_mutex_unlock(&g->mutex);
  return error;
}

/* Holds g->mutex. The collective goes when every rank has waited for it. */
static void leave(group* g, collective* c) {
  collective** at = &g->collectives;
  if (++c->waited < g->world_size) return;
  while (*at != c) at = &(*at)->next;
  *at = c->next;
  fake_free_calls(g, c);
  free(c);
}

/* Holds g->mutex. From now on nobody may touch this rank's buffers, so the group is broken. */
static pl_error* timed_out(pl_comm* comm, const collective* c, const char* what, double seconds) {
  group* g = comm->group;
  char missing[128] = "";
  size_t used = 0;
  int32_t r;
  for (r = 0; r < g->world_size && used + 16 < sizeof missing; ++r)
    if (!c->calls[r].present)
      used += (size_t)snprintf(missing + used, sizeof missing - used, used ? ", %d" : "%d", (int)r);
  fake_break(g, PL_ERROR_PEER,
             "rank %d gave up after %g seconds in %s #%llu, which these ranks had not called: %s",
             (int)comm->rank, seconds, what, (unsigned long long)c->sequence, missing);
  return fail(comm->host, PL_ERROR_TIMEOUT, "%s #%llu: after %g seconds these ranks have not called it: %s",
              what, (unsigned long long)c->sequence, seconds, missing);
}

uint32_t fake_is_done(pl_comm* comm, pl_work* work) {
  group* g = comm->group;
  uint32_t done;
  pthread_mutex_lock(&g->mutex);
  done = work->collective->done || g->broken;
  pthread_mutex_unlock(&g->mutex);
  return done;
}

pl_error* fake_wait_host(pl_comm* comm, pl_work* work, double timeout_seconds) {
  group* g = comm->group;
  collective* c = work->collective;
  const double seconds = timeout_seconds > 0 ? timeout_seconds : comm->timeout;
  const struct timespec deadline = fake_deadline(seconds);
  const char* what;
  pl_error* error = NULL;
  int late = 0;
  pthread_mutex_lock(&g->mutex);
  what = kNames[c->calls[comm->rank].operation];
  while (!c->done && !g->broken && !late)
    late = pthread_cond_timedwait(&g->changed, &g->mutex, &deadline) == ETIMEDOUT;
  if (!c->done) error = g->broken ? broken_error(comm, what, c->sequence) : timed_out(comm, c, what, seconds);
  leave(g, c);
  pthread_mutex_unlock(&g->mutex);
  free(work);
  return error;
}

/* The buffers are memory of the host: whoever waits is this thread. */
pl_error* fake_wait(pl_comm* comm, pl_work* work, pl_stream stream) {
  (void)stream;
  return fake_wait_host(comm, work, 0);
}
