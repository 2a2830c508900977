// A strategy of the zoo that needs unit hooks, and lets exceptions out of the slots that free something.
// ZOO_GATHER, ZOO_RELEASE: these slots.
#include <cstring>
#include <stdexcept>

#include "pipeline.h"

#ifndef ZOO_GATHER
#define ZOO_GATHER nothing
#endif
#ifndef ZOO_RELEASE
#define ZOO_RELEASE nothing
#endif

struct pl_strategy {};
struct pl_snapshot {};

namespace {

pl_str str(const char* text) { return {text, std::strlen(text)}; }

template <class... Arguments>
pl_error* nothing(Arguments...) {
  return nullptr;
}

pl_error* create(const pl_host*, const pl_context*, const pl_config*, const pl_strategy_args*,
                 pl_strategy** out) {
  *out = new pl_strategy;
  return nullptr;
}

void destroy(pl_strategy* self) {
  delete self;
  throw std::runtime_error("out of patience in destroy");
}

pl_error* info(pl_strategy*, pl_strategy_info* out) {
  out->flags = PL_STRATEGY_NEEDS_UNIT_HOOKS;
  out->micro_batch_order = PL_ORDER_BLOCK;
  return nullptr;
}

pl_error* unit_hooks(pl_strategy* self, pl_unit_hooks* out) {
  out->user = self;
  out->enter = nothing;
  out->leave = nothing;
  return nullptr;
}

pl_error* snapshot(pl_strategy*, uint32_t, pl_snapshot** out) {
  *out = new pl_snapshot;
  return nullptr;
}

// A piece with a flag of the future.
pl_error* snapshot_pieces(pl_snapshot*, pl_piece_visitor visit, void* user) {
  pl_piece piece{};
  piece.struct_size = sizeof piece;
  piece.parameter = str("weight");
  piece.kind = str("value");
  piece.flags = 1;
  return visit(user, &piece);
}

void snapshot_free(pl_snapshot* snapshot) {
  delete snapshot;
  throw std::runtime_error("out of patience in snapshot_free");
}

pl_strategy_api make_api() {
  pl_strategy_api api{};
  api.struct_size = sizeof api;
  api.create = create;
  api.destroy = destroy;
  api.info = info;
  api.storage = nothing;
  api.unit_hooks = unit_hooks;
  api.begin_step = nothing;
  api.gradient_ready = nothing;
  api.end_micro_batch = nothing;
  api.step = nothing;
  api.collect = nothing;
  api.load_state = nothing;
  api.snapshot = snapshot;
  api.snapshot_pieces = snapshot_pieces;
  api.snapshot_free = snapshot_free;
  api.memory = nothing;
  api.gather = ZOO_GATHER;
  api.release = ZOO_RELEASE;
  return api;
}

}  // namespace

const pl_plugin* pl_plugin_entry(const pl_host*, pl_error**) {
  static const pl_strategy_api api = make_api();
  static const pl_plugin plugin{sizeof plugin,
                                PL_ABI_MAJOR,
                                PL_ABI_MINOR,
                                PL_PLUGIN_STRATEGY,
                                str(ZOO_NAME),
                                str("1.2"),
                                str("a plugin of the zoo"),
                                str(""),
                                nullptr,
                                0,
                                &api,
                                nullptr,
                                nullptr};
  return &plugin;
}
