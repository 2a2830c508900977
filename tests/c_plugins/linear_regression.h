/* The linear_regression task: its object, its batch, and the slots that are in other files. */
#ifndef LINEAR_REGRESSION_H
#define LINEAR_REGRESSION_H

#include "plugin_helpers.h"

#ifndef PLUGIN_NAME
#define PLUGIN_NAME "linear_regression"
#endif

#define SPLITS 3
#define PARAMETERS 2 /* weight (F), bias (1) */
#define WEIGHT 0
#define BIAS 1

struct pl_task {
  const pl_host* host;
  const pl_context* context;
  int64_t features; /* F */
  int64_t samples[SPLITS];
  double noise;
  uint32_t files;
  char fingerprint[96];
  char (*names[SPLITS])[32];
  int64_t shapes[PARAMETERS][1];
  float* imported; /* (F + 1); NULL: none */
  const float* value[PARAMETERS];
  float* grad[PARAMETERS]; /* NULL: handed over */
  const pl_unit_hooks* hooks;
  double loss;
};

struct pl_batch {
  uint64_t count; /* B */
  uint64_t* ids;  /* (B) */
  float* x;       /* (B, F) */
  float* y;       /* (B) */
};

/* linear_regression_data.c */
pl_error* sample_count(pl_task* self, uint32_t split, uint64_t* out);
pl_str data_fingerprint(pl_task* self);
pl_error* load(pl_task* self, const pl_load_args* raw, pl_batch** out);
pl_error* batch_info(pl_task* self, const pl_batch* batch, pl_batch_info* out);
void batch_free(pl_task* self, pl_batch* batch);
pl_error* sample_name(pl_task* self, uint32_t split, uint64_t id, pl_str* out);

/* linear_regression_model.c */
uint64_t parameter_count(pl_task* self);
pl_error* parameter(pl_task* self, uint64_t index, pl_parameter* out);
pl_error* initialize(pl_task* self, uint64_t index, pl_tensor* out);
pl_error* bind(pl_task* self, uint64_t index, const pl_tensor* value, const pl_tensor* grad);
pl_error* set_unit_hooks(pl_task* self, const pl_unit_hooks* hooks);
pl_error* enter(pl_task* self, uint32_t pass);
pl_error* leave(pl_task* self, uint32_t pass);
pl_error* train(pl_task* self, const pl_batch* batch, const pl_train_args* raw, pl_tensor* loss);
pl_error* evaluate(pl_task* self, const pl_batch* batch, const pl_evaluate_args* raw,
                   const pl_evaluation_sink* sink);
pl_error* predict(pl_task* self, const pl_batch* batch, const pl_evaluate_args* raw,
                  const pl_prediction_sink* sink);
double flops(pl_task* self, const pl_batch* batch);

#endif
