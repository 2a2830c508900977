/* The plugin's entry, and how ranks find each other: rank 0 tells the others where the group is. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct timespec fake_deadline(double seconds) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  if (seconds > 1e9) seconds = 1e9;
  at.tv_sec += (time_t)seconds;
  at.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
  if (at.tv_nsec >= 1000000000L) {
    at.tv_nsec -= 1000000000L;
    ++at.tv_sec;
  }
  return at;
}

static void free_group(group* g) {
  while (g->collectives) {
    collective* c = g->collectives;
    g->collectives = c->next;
    fake_free_calls(g, c);
    free(c);
  }
  pthread_cond_destroy(&g->changed);
  pthread_mutex_destroy(&g->mutex);
  free(g);
}

static group* new_group(int32_t world_size) {
  pthread_condattr_t attributes;
  group* g = (group*)calloc(1, sizeof *g);
  if (!g) return NULL;
  g->world_size = g->members = world_size;
  pthread_mutex_init(&g->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&g->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  return g;
}

/* What rank 0 tells the others: where the group is, and in which process. */
typedef struct place {
  pid_t process;
  group* group;
} place;

static pl_error* take_place(void* user, int32_t rank, const void* bytes, uint64_t size) {
  if (rank == 0 && size == sizeof(place)) memcpy(user, bytes, sizeof(place));
  return NULL;
}

static pl_error* join(const pl_host* host, const pl_context* context, const pl_backend_open_args* args,
                      group** out) {
  place mine, first;
  pl_error* error;
  memset(&mine, 0, sizeof mine);
  memset(&first, 0, sizeof first);
  if (args->rank == 0) {
    mine.process = getpid();
    mine.group = new_group(args->world_size);
  }
  error = host->exchange(context, args->group, &mine, sizeof mine, take_place, &first);
  if (error) {
    if (mine.group) free_group(mine.group);
    return error;
  }
  if (!first.group) return fail(host, PL_ERROR_OUT_OF_MEMORY, "open: no memory");
  if (first.process != getpid())
    return fail(host, PL_ERROR_UNSUPPORTED,
                "open: the fake backend's ranks are threads of one process, and rank 0 is in process %d",
                (int)first.process);
  *out = first.group;
  return NULL;
}

static pl_error* check_args(const pl_host* host, const pl_backend_open_args* args) {
  if (args->device.type != PL_DEVICE_CPU)
    return fail(host, PL_ERROR_UNSUPPORTED,
                "open: the fake backend works in host memory only, device type %d was asked for",
                (int)args->device.type);
  if (args->world_size < 1 || args->rank < 0 || args->rank >= args->world_size)
    return fail(host, PL_ERROR_FAILED, "open: rank %d of %d", (int)args->rank, (int)args->world_size);
  if (!(args->timeout_seconds > 0))
    return fail(host, PL_ERROR_FAILED, "open: timeout_seconds is %g, must be above 0", args->timeout_seconds);
  return NULL;
}

static pl_error* open_group(const pl_host* host, const pl_context* context, const pl_config* config,
                            const pl_backend_open_args* raw, pl_comm** out) {
  pl_backend_open_args args;
  pl_comm* comm;
  pl_error* error = receive_args(host, &args, sizeof args, offsetof(pl_backend_open_args, reserved), raw,
                                 "pl_backend_open_args");
  (void)config;
  if (error) return error;
  error = check_args(host, &args);
  if (error) return error;
  comm = (pl_comm*)calloc(1, sizeof *comm);
  if (!comm) return fail(host, PL_ERROR_OUT_OF_MEMORY, "open: no memory");
  comm->host = host;
  comm->rank = args.rank;
  comm->timeout = args.timeout_seconds;
  error = join(host, context, &args, &comm->group);
  if (error)
    free(comm);
  else
    *out = comm;
  return error;
}

static pl_error* info(pl_comm* comm, pl_backend_info* out) {
  static const pl_str kLibrary = STR("fake 1.0"), kTransport = STR("memory of one process");
  (void)comm;
  if (PL_HAS(pl_backend_info, out, library)) out->library = kLibrary;
  if (PL_HAS(pl_backend_info, out, transport)) out->transport = kTransport;
  return NULL;
}

static void abort_group(pl_comm* comm, pl_str reason) {
  pthread_mutex_lock(&comm->group->mutex);
  fake_break(comm->group, PL_ERROR_PEER, "aborted by rank %d: %.*s", (int)comm->rank, (int)reason.len,
             reason.len ? reason.ptr : "");
  pthread_mutex_unlock(&comm->group->mutex);
}

static void close_group(pl_comm* comm) {
  group* g = comm->group;
  int32_t last;
  pthread_mutex_lock(&g->mutex);
  last = --g->members == 0;
  if (!last) fake_break(g, PL_ERROR_PEER, "rank %d has left the group", (int)comm->rank);
  pthread_mutex_unlock(&g->mutex);
  if (last) free_group(g);
  free(comm);
}

static const pl_backend_api kApi = {
    sizeof(pl_backend_api),
    0,
    open_group,
    info,
    fake_all_reduce,
    fake_reduce_scatter,
    fake_all_gather,
    fake_broadcast,
    fake_all_to_all,
    fake_barrier,
    fake_wait,
    fake_wait_host,
    abort_group,
    close_group,
    fake_is_done,
    NULL,
};

static const pl_plugin kPlugin = {
    sizeof(pl_plugin),
    PL_ABI_MAJOR,
    PL_ABI_MINOR,
    PL_PLUGIN_BACKEND,
    STR("fake"),
    STR("1.0"),
    STR("ranks are threads of one process; for tests"),
    STR(""),
    NULL,
    0,
    &kApi,
    NULL,
    NULL,
};

const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error) {
  (void)error;
  return host->abi_major == PL_ABI_MAJOR ? &kPlugin : NULL;
}
