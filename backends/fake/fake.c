/* The plugin's entry, and how ranks find each other: a process-wide list of groups that are forming. */
#include "fake.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STR(literal) \
  { literal, sizeof(literal) - 1 }

static pthread_mutex_t forming_mutex = PTHREAD_MUTEX_INITIALIZER; /* taken before any group's */
static group* forming;

pl_error* fake_error(const pl_host* host, uint32_t code, const char* format, ...) {
  char text[512];
  pl_str message;
  int length;
  va_list arguments;
  va_start(arguments, format);
  length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  message.ptr = text;
  message.len = length < 0 ? 0 : length < (int)sizeof text ? (size_t)length : sizeof text - 1;
  return host->error_new(code, message);
}

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
  free(g->present);
  free(g->key);
  free(g);
}

/* Holds forming_mutex. */
static void stop_forming(group* g) {
  group** at = &forming;
  while (*at && *at != g) at = &(*at)->next;
  if (*at) *at = g->next;
}

/* Holds forming_mutex. Takes `key`. */
static group* new_group(char* key, int32_t world_size) {
  pthread_condattr_t attributes;
  group* g = (group*)calloc(1, sizeof *g);
  if (g) g->present = (char*)calloc((size_t)world_size, 1);
  if (!g || !g->present) {
    free(g);
    free(key);
    return NULL;
  }
  g->key = key;
  g->world_size = world_size;
  pthread_mutex_init(&g->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&g->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  g->next = forming;
  forming = g;
  return g;
}

static char* make_key(const pl_backend_open_args* args) {
  const size_t room = args->address.len + args->group.len + 32;
  char* key = (char*)malloc(room);
  if (key)
    snprintf(key, room, "%.*s:%u/%.*s", (int)args->address.len, args->address.len ? args->address.ptr : "",
             (unsigned)args->port, (int)args->group.len, args->group.len ? args->group.ptr : "");
  return key;
}

/* Joins the group of this key, which is made when there is none. */
static pl_error* join(const pl_host* host, const pl_backend_open_args* args, group** out) {
  char* key = make_key(args);
  group* g;
  pl_error* error = NULL;
  if (!key) return fake_error(host, PL_ERROR_OUT_OF_MEMORY, "open: no memory");
  pthread_mutex_lock(&forming_mutex);
  for (g = forming; g && strcmp(g->key, key) != 0; g = g->next) continue;
  if (g)
    free(key);
  else
    g = new_group(key, args->world_size);
  if (!g) {
    error = fake_error(host, PL_ERROR_OUT_OF_MEMORY, "open: no memory");
  } else if (g->world_size != args->world_size) {
    error =
        fake_error(host, PL_ERROR_PEER, "open: rank %d says that the group has %d ranks, another one said %d",
                   (int)args->rank, (int)args->world_size, (int)g->world_size);
  } else if (g->present[args->rank]) {
    error = fake_error(host, PL_ERROR_PEER, "open: rank %d is there twice", (int)args->rank);
  } else {
    pthread_mutex_lock(&g->mutex);
    g->present[args->rank] = 1;
    ++g->joined;
    ++g->members;
    if (g->joined == g->world_size) stop_forming(g);
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
    *out = g;
  }
  pthread_mutex_unlock(&forming_mutex);
  return error;
}

/* "1, 3" */
static void list_missing(const group* g, char* text, size_t room) {
  size_t used = 0;
  int32_t r;
  text[0] = 0;
  for (r = 0; r < g->world_size && used + 16 < room; ++r)
    if (!g->present[r]) used += (size_t)snprintf(text + used, room - used, used ? ", %d" : "%d", (int)r);
}

/* Waits until all ranks have joined; leaves the group again when the time is up. */
static pl_error* wait_for_all(const pl_host* host, group* g, const pl_backend_open_args* args) {
  const struct timespec deadline = fake_deadline(args->timeout_seconds);
  char missing[128];
  int32_t last;
  pthread_mutex_lock(&g->mutex);
  while (g->joined < g->world_size && pthread_cond_timedwait(&g->changed, &g->mutex, &deadline) != ETIMEDOUT)
    continue;
  if (g->joined == g->world_size) {
    pthread_mutex_unlock(&g->mutex);
    return NULL;
  }
  pthread_mutex_unlock(&g->mutex);

  pthread_mutex_lock(&forming_mutex); /* again, in the right order: the last rank may just have come */
  pthread_mutex_lock(&g->mutex);
  if (g->joined == g->world_size) {
    pthread_mutex_unlock(&g->mutex);
    pthread_mutex_unlock(&forming_mutex);
    return NULL;
  }
  list_missing(g, missing, sizeof missing);
  g->present[args->rank] = 0;
  --g->joined;
  last = --g->members == 0;
  if (last) stop_forming(g);
  pthread_mutex_unlock(&g->mutex);
  if (last) free_group(g);
  pthread_mutex_unlock(&forming_mutex);
  return fake_error(host, PL_ERROR_TIMEOUT,
                    "open: after %g seconds of waiting these of %d ranks have not come: %s",
                    args->timeout_seconds, (int)args->world_size, missing);
}

static pl_error* check_args(const pl_host* host, const pl_backend_open_args* args) {
  if (args->device.type != PL_DEVICE_CPU)
    return fake_error(host, PL_ERROR_UNSUPPORTED,
                      "open: the fake backend works in host memory only, device type %d was asked for",
                      (int)args->device.type);
  if (args->world_size < 1 || args->rank < 0 || args->rank >= args->world_size)
    return fake_error(host, PL_ERROR_FAILED, "open: rank %d of %d", (int)args->rank, (int)args->world_size);
  if (!(args->timeout_seconds > 0))
    return fake_error(host, PL_ERROR_FAILED, "open: timeout_seconds is %g, must be above 0",
                      args->timeout_seconds);
  return NULL;
}

static pl_error* open_group(const pl_host* host, const pl_context* context, const pl_config* config,
                            const pl_backend_open_args* raw, pl_comm** out) {
  pl_backend_open_args args;
  const unsigned char* bytes = (const unsigned char*)raw;
  uint32_t i;
  pl_comm* comm;
  pl_error* error;
  (void)context;
  (void)config;
  for (i = sizeof args; i < raw->struct_size; ++i)
    if (bytes[i] != 0)
      return fake_error(host, PL_ERROR_UNSUPPORTED,
                        "pl_backend_open_args has %u bytes and sets an option beyond the %u known here",
                        (unsigned)raw->struct_size, (unsigned)sizeof args);
  memset(&args, 0, sizeof args);
  memcpy(&args, raw, raw->struct_size < sizeof args ? raw->struct_size : sizeof args);
  error = check_args(host, &args);
  if (error) return error;
  comm = (pl_comm*)calloc(1, sizeof *comm);
  if (!comm) return fake_error(host, PL_ERROR_OUT_OF_MEMORY, "open: no memory");
  comm->host = host;
  comm->rank = args.rank;
  comm->timeout = args.timeout_seconds;
  error = join(host, &args, &comm->group);
  if (!error) error = wait_for_all(host, comm->group, &args);
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
