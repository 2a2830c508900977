/* An update rule in C99: weights move by the learning rate along the sign of the gradient, in host memory. */
#include "plugin_helpers.h"

struct pl_update_rule {
  const pl_host* host;
};

static pl_error* create(const pl_host* host, const pl_context* context, const pl_config* config,
                        pl_update_rule** out) {
  static pl_update_rule rule; /* it keeps nothing, so one is enough */
  (void)config;
  rule.host = host;
  if (host->run_info(context)->device.type != PL_DEVICE_CPU)
    return fail(host, PL_ERROR_UNSUPPORTED, "sign_sgd computes in host memory: set run.device = \"cpu\"");
  *out = &rule;
  return NULL;
}

static void destroy(pl_update_rule* self) { (void)self; }

/* Nothing is kept of a weight: `out` is zero already. */
static pl_error* info(pl_update_rule* self, pl_optimizer_info* out) { return (void)self, (void)out, NULL; }

static pl_error* update(pl_update_rule* self, const pl_update_args* sent) {
  pl_update_args args;
  uint64_t run;
  pl_error* error = receive_args(self->host, &args, sizeof args, offsetof(pl_update_args, reserved), sent,
                                 "sign_sgd: pl_update_args");
  if (error) return error;
  for (run = 0; run < args.run_count; ++run) {
    const pl_tensor *w = &args.weights[run], *g = &args.gradients[run];
    float* weights = (float*)(void*)((char*)w->data + w->byte_offset);
    const float* gradient = (const float*)(void*)((char*)g->data + g->byte_offset);
    const float keep = (float)(1 - args.learning_rate * args.weight_decay), rate = (float)args.learning_rate;
    int64_t i;
    for (i = 0; i < w->shape[0]; ++i)
      weights[i] = weights[i] * keep - rate * (float)((gradient[i] > 0) - (gradient[i] < 0));
  }
  return NULL;
}

static const pl_optimizer_api kApi = {sizeof kApi, 0, create, destroy, info, update, NULL, NULL};
static const pl_plugin kPlugin = {sizeof kPlugin,
                                  PL_ABI_MAJOR,
                                  PL_ABI_MINOR,
                                  PL_PLUGIN_OPTIMIZER,
                                  STR("sign_sgd"),
                                  STR("1.0"),
                                  STR("The gradient's sign, in plain C"),
                                  STR(""),
                                  NULL,
                                  0,
                                  &kApi,
                                  NULL,
                                  NULL};

const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error) {
  (void)error;
  return host->abi_major == PL_ABI_MAJOR ? &kPlugin : NULL;
}
