/* The collectives' slots: they check their arguments and put them into one form. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static pl_error* receive_buffer(pl_comm* comm, const char* what, const pl_buffer* raw, pl_buffer* out) {
  memset(out, 0, sizeof *out);
  memcpy(out, raw, raw->struct_size < sizeof *out ? raw->struct_size : sizeof *out);
  if (out->flags & ~PL_FLAGS_MAY_IGNORE)
    return fail(comm->host, PL_ERROR_UNSUPPORTED, "%s: flags %u of the buffer are unknown", what,
                (unsigned)out->flags);
  if (out->device.type != PL_DEVICE_CPU)
    return fail(comm->host, PL_ERROR_UNSUPPORTED, "%s: the buffer is not in host memory (device type %d)",
                what, (int)out->device.type);
  if (out->count > 0 && !out->data)
    return fail(comm->host, PL_ERROR_FAILED, "%s: the buffer has %llu elements and is NULL", what,
                (unsigned long long)out->count);
  if (out->dtype.bits == 0 || out->dtype.bits % 8 != 0 || out->dtype.lanes != 1)
    return fail(comm->host, PL_ERROR_UNSUPPORTED, "%s: elements of %u bits cannot be sent", what,
                (unsigned)out->dtype.bits);
  return NULL;
}

static pl_error* check_reduce(pl_comm* comm, const char* what, const pl_buffer* buffer, uint32_t reduce) {
  if (PL_CODE(reduce) < PL_REDUCE_SUM || PL_CODE(reduce) > PL_REDUCE_MAX)
    return fail(comm->host, PL_ERROR_UNSUPPORTED, "%s: reduction %u is unknown", what, (unsigned)reduce);
  if (!fake_reduce(NULL, NULL, 0, buffer->dtype, PL_CODE(reduce)))
    return fail(comm->host, PL_ERROR_UNSUPPORTED, "%s: dtype code %u with %u bits cannot be reduced", what,
                (unsigned)buffer->dtype.code, (unsigned)buffer->dtype.bits);
  return NULL;
}

/* Elements of each rank: those given, or even shares of `total`. */
static pl_error* make_counts(pl_comm* comm, const char* what, const uint64_t* given, uint64_t total,
                             uint64_t** out) {
  const uint64_t ranks = (uint64_t)comm->group->world_size;
  uint64_t r, sum = 0;
  if (!given && total % ranks != 0)
    return fail(comm->host, PL_ERROR_FAILED, "%s: %llu elements cannot be shared evenly by %llu ranks", what,
                (unsigned long long)total, (unsigned long long)ranks);
  *out = (uint64_t*)malloc(ranks * sizeof **out);
  if (!*out) return fail(comm->host, PL_ERROR_OUT_OF_MEMORY, "%s: no memory", what);
  for (r = 0; r < ranks; ++r) sum += (*out)[r] = given ? given[r] : total / ranks;
  if (sum == total) return NULL;
  free(*out);
  *out = NULL;
  return fail(comm->host, PL_ERROR_FAILED, "%s: the counts add up to %llu, the buffer has %llu elements",
              what, (unsigned long long)sum, (unsigned long long)total);
}

static pl_error* check_shard(pl_comm* comm, const char* what, const pl_buffer* shard, const pl_buffer* full,
                             uint64_t expected) {
  if (shard->count != expected)
    return fail(comm->host, PL_ERROR_FAILED, "%s: the shard of rank %d has %llu elements, must have %llu",
                what, (int)comm->rank, (unsigned long long)shard->count, (unsigned long long)expected);
  if (memcmp(&shard->dtype, &full->dtype, sizeof shard->dtype) != 0)
    return fail(comm->host, PL_ERROR_FAILED, "%s: its two buffers have different dtypes", what);
  return NULL;
}

static pl_error* give_up(call* mine, pl_error* error) {
  free(mine->send);
  free(mine->receive);
  return error;
}

pl_error* fake_all_reduce(pl_comm* comm, const pl_buffer* in_out, uint32_t reduce, pl_work** out) {
  call mine = {ALL_REDUCE, 0, 0, 0, {0}, {0}, NULL, NULL};
  pl_error* error = receive_buffer(comm, "all_reduce", in_out, &mine.in);
  if (!error) error = check_reduce(comm, "all_reduce", &mine.in, reduce);
  if (error) return error;
  mine.out = mine.in;
  mine.reduce = PL_CODE(reduce);
  return fake_start(comm, &mine, out);
}

pl_error* fake_reduce_scatter(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_shard,
                              const uint64_t* counts, uint32_t reduce, pl_work** out) {
  call mine = {REDUCE_SCATTER, 0, 0, 0, {0}, {0}, NULL, NULL};
  pl_error* error = receive_buffer(comm, "reduce_scatter", in, &mine.in);
  if (!error) error = receive_buffer(comm, "reduce_scatter", out_shard, &mine.out);
  if (!error) error = check_reduce(comm, "reduce_scatter", &mine.in, reduce);
  if (!error) error = make_counts(comm, "reduce_scatter", counts, mine.in.count, &mine.send);
  if (!error) error = check_shard(comm, "reduce_scatter", &mine.out, &mine.in, mine.send[comm->rank]);
  if (error) return give_up(&mine, error);
  mine.reduce = PL_CODE(reduce);
  return fake_start(comm, &mine, out);
}

pl_error* fake_all_gather(pl_comm* comm, const pl_buffer* in_shard, const pl_buffer* out_full,
                          const uint64_t* counts, pl_work** out) {
  call mine = {ALL_GATHER, 0, 0, 0, {0}, {0}, NULL, NULL};
  pl_error* error = receive_buffer(comm, "all_gather", in_shard, &mine.in);
  if (!error) error = receive_buffer(comm, "all_gather", out_full, &mine.out);
  if (!error) error = make_counts(comm, "all_gather", counts, mine.out.count, &mine.send);
  if (!error) error = check_shard(comm, "all_gather", &mine.in, &mine.out, mine.send[comm->rank]);
  if (error) return give_up(&mine, error);
  return fake_start(comm, &mine, out);
}

pl_error* fake_broadcast(pl_comm* comm, const pl_buffer* in_out, int32_t root, pl_work** out) {
  call mine = {BROADCAST, 0, 0, 0, {0}, {0}, NULL, NULL};
  pl_error* error = receive_buffer(comm, "broadcast", in_out, &mine.in);
  if (!error && (root < 0 || root >= comm->group->world_size))
    error = fail(comm->host, PL_ERROR_FAILED, "broadcast: root is %d of %d ranks", (int)root,
                 (int)comm->group->world_size);
  if (error) return error;
  mine.out = mine.in;
  mine.root = root;
  return fake_start(comm, &mine, out);
}

pl_error* fake_all_to_all(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_buffer,
                          const uint64_t* send_counts, const uint64_t* receive_counts, pl_work** out) {
  call mine = {ALL_TO_ALL, 0, 0, 0, {0}, {0}, NULL, NULL};
  pl_error* error = receive_buffer(comm, "all_to_all", in, &mine.in);
  if (!error) error = receive_buffer(comm, "all_to_all", out_buffer, &mine.out);
  if (!error) error = make_counts(comm, "all_to_all (send)", send_counts, mine.in.count, &mine.send);
  if (!error)
    error = make_counts(comm, "all_to_all (receive)", receive_counts, mine.out.count, &mine.receive);
  if (!error && memcmp(&mine.in.dtype, &mine.out.dtype, sizeof mine.in.dtype) != 0)
    error = fail(comm->host, PL_ERROR_FAILED, "all_to_all: its two buffers have different dtypes");
  if (error) return give_up(&mine, error);
  return fake_start(comm, &mine, out);
}

pl_error* fake_barrier(pl_comm* comm, pl_work** out) {
  call mine = {BARRIER, 0, 0, 0, {0}, {0}, NULL, NULL};
  return fake_start(comm, &mine, out);
}
