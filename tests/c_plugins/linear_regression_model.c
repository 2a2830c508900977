/* The model of the linear_regression task: parameters, exact loss and gradients, prediction. */
#include <math.h>
#include <stdlib.h>

#include "linear_regression.h"

uint64_t parameter_count(pl_task* self) {
  (void)self;
  return PARAMETERS;
}

pl_error* parameter(pl_task* self, uint64_t index, pl_parameter* out) {
  static const pl_str kNames[PARAMETERS] = {STR("weight"), STR("bias")};
  pl_parameter value;
  if (index >= PARAMETERS)
    return fail(self->host, PL_ERROR_FAILED, "parameter %llu: there are 2", (unsigned long long)index);
  memset(&value, 0, sizeof value);
  value.flags = PL_PARAMETER_TRAINABLE | (index == WEIGHT ? PL_PARAMETER_DECAY : 0);
  value.ndim = 1;
  value.shape = self->shapes[index];
  value.name = kNames[index];
  value.lr_multiplier = 1;
  give(out, &value, sizeof value);
  return NULL;
}

pl_error* initialize(pl_task* self, uint64_t index, pl_tensor* out) {
  static const pl_str kStream = STR("linear_regression");
  float* data = (float*)(void*)((char*)out->data + out->byte_offset);
  int64_t j;
  if (index >= PARAMETERS || !is_float32(out->dtype) || out->shape[0] != self->shapes[index][0])
    return fail(self->host, PL_ERROR_FAILED,
                "initialize: parameter %llu is asked for with a wrong dtype or shape",
                (unsigned long long)index);
  for (j = 0; j < self->shapes[index][0]; ++j) {
    if (self->imported)
      data[j] = self->imported[index == WEIGHT ? j : self->features];
    else if (index == BIAS)
      data[j] = 0;
    else
      data[j] =
          (float)((double)(self->host->seed(self->context, kStream, (uint64_t)j, 0, 0) >> 40) / 16777216.0 -
                  0.5);
  }
  return NULL;
}

static pl_error* check_view(pl_task* self, uint64_t index, const pl_tensor* view) {
  if (view->device.type != COMPUTES_ON || !is_float32(view->dtype))
    return fail(self->host, PL_ERROR_UNSUPPORTED, "bind: linear_regression needs float32 in host memory");
  if (view->ndim != 1 || view->shape[0] != self->shapes[index][0] ||
      (view->strides && view->strides[0] != 1 && view->shape[0] > 1))
    return fail(self->host, PL_ERROR_FAILED, "bind: parameter %llu came with a wrong shape",
                (unsigned long long)index);
  return NULL;
}

pl_error* bind(pl_task* self, uint64_t index, const pl_tensor* value, const pl_tensor* grad) {
  pl_error* error;
  if (index >= PARAMETERS)
    return fail(self->host, PL_ERROR_FAILED, "bind: there is no parameter %llu", (unsigned long long)index);
  error = check_view(self, index, value);
  if (!error && grad->data) error = check_view(self, index, grad);
  if (error) return error;
  self->value[index] = (const float*)(void*)((char*)value->data + value->byte_offset);
  self->grad[index] = grad->data ? (float*)(void*)((char*)grad->data + grad->byte_offset) : NULL;
  return NULL;
}

pl_error* set_unit_hooks(pl_task* self, const pl_unit_hooks* hooks) {
  self->hooks = hooks;
  return NULL;
}

pl_error* enter(pl_task* self, uint32_t pass) {
  return self->hooks ? self->hooks->enter(self->hooks->user, 0, pass) : NULL;
}
pl_error* leave(pl_task* self, uint32_t pass) {
  return self->hooks ? self->hooks->leave(self->hooks->user, 0, pass) : NULL;
}

static double predict_one(const pl_task* self, const float* x) {
  double sum = (double)self->value[BIAS][0];
  int64_t j;
  for (j = 0; j < self->features; ++j) sum += (double)self->value[WEIGHT][j] * (double)x[j];
  return sum;
}

/* Adds to the bound gradient, or hands over a new one. */
static pl_error* send_gradient(pl_task* self, uint64_t index, const double* sum,
                               const pl_gradient_sink* sink) {
  const int64_t count = self->shapes[index][0];
  float* data = self->grad[index];
  pl_tensor tensor;
  pl_gradient gradient;
  int64_t j;
  if (!data) data = (float*)calloc((size_t)count, sizeof *data);
  if (!data)
    return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "train: no memory for a gradient of %lld elements",
                (long long)count);
  for (j = 0; j < count; ++j) data[j] += (float)sum[j];

  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.type = COMPUTES_ON;
  tensor.ndim = 1;
  tensor.dtype.code = PL_DTYPE_FLOAT;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = self->shapes[index];
  memset(&gradient, 0, sizeof gradient);
  gradient.struct_size = sizeof gradient;
  gradient.index = index;
  gradient.tensor = &tensor;
  gradient.owner = self->grad[index] ? NULL : data;
  gradient.release = self->grad[index] ? NULL : free;
  return sink->ready(sink->user, &gradient);
}

/* loss = sum over the batch of (prediction - y)^2 / 2. */
pl_error* train(pl_task* self, const pl_batch* batch, const pl_train_args* raw, pl_tensor* loss) {
  pl_train_args args;
  double bias = 0;
  uint64_t i;
  int64_t j;
  double* weight;
  pl_error* error =
      receive_args(self->host, &args, sizeof args, offsetof(pl_train_args, reserved), raw, "pl_train_args");
  if (error) return error;
  weight = (double*)calloc((size_t)self->features, sizeof *weight);
  if (!weight) return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "train: no memory");

  self->loss = 0;
  error = enter(self, PL_PASS_FORWARD);
  for (i = 0; !error && i < batch->count; ++i) {
    const float* x = batch->x + i * (uint64_t)self->features;
    const double difference = predict_one(self, x) - (double)batch->y[i];
    self->loss += difference * difference / 2;
    bias += args.scale * difference;
    for (j = 0; j < self->features; ++j) weight[j] += args.scale * difference * (double)x[j];
  }
  if (!error) error = leave(self, PL_PASS_FORWARD);
  if (!error) error = enter(self, PL_PASS_BACKWARD);
  if (!error) error = send_gradient(self, BIAS, &bias, args.gradients);
  if (!error) error = send_gradient(self, WEIGHT, weight, args.gradients);
  if (!error) error = leave(self, PL_PASS_BACKWARD);
  free(weight);

  memset(loss, 0, sizeof *loss);
  loss->data = &self->loss;
  loss->device.type = COMPUTES_ON;
  loss->dtype.code = PL_DTYPE_FLOAT;
  loss->dtype.bits = 64;
  loss->dtype.lanes = 1;
  if (COMPUTES_ON != PL_DEVICE_CPU) { /* on the CPU there is nothing to be late */
    static const pl_str kName = STR("half_squares");
    self->host->metric_tensor(self->context, kName, loss, (double)batch->count);
  }
  return error;
}

pl_error* evaluate(pl_task* self, const pl_batch* batch, const pl_evaluate_args* raw,
                   const pl_evaluation_sink* sink) {
  static const pl_str kWhole = STR(""), kLoss = STR("loss"), kAbsolute = STR("absolute_error");
  pl_evaluate_args args;
  double loss = 0, absolute = 0;
  char text[96];
  uint64_t i;
  pl_error* error = receive_args(self->host, &args, sizeof args, 0, raw, "pl_evaluate_args");
  if (!error) error = enter(self, PL_PASS_FORWARD);
  for (i = 0; !error && i < batch->count; ++i) {
    const double prediction = predict_one(self, batch->x + i * (uint64_t)self->features);
    const double difference = prediction - (double)batch->y[i];
    loss += difference * difference / 2;
    absolute += fabs(difference);
    if (i < args.samples_to_show) {
      snprintf(text, sizeof text, "predicted %.6f, was %.6f", prediction, (double)batch->y[i]);
      error = sink->sample(sink->user, batch->ids[i], make_str(text));
    }
  }
  if (!error) error = leave(self, PL_PASS_FORWARD);
  if (!error) error = sink->value(sink->user, kWhole, kLoss, loss, (double)batch->count);
  if (!error) error = sink->value(sink->user, kWhole, kAbsolute, absolute, (double)batch->count);
  return error;
}

pl_error* predict(pl_task* self, const pl_batch* batch, const pl_evaluate_args* raw,
                  const pl_prediction_sink* sink) {
  pl_evaluate_args args;
  char text[32], file[48];
  pl_str field;
  uint64_t i;
  pl_error* error = receive_args(self->host, &args, sizeof args, 0, raw, "pl_evaluate_args");
  if (!error) error = enter(self, PL_PASS_FORWARD);
  for (i = 0; !error && i < batch->count; ++i) {
    snprintf(text, sizeof text, "%.6f", predict_one(self, batch->x + i * (uint64_t)self->features));
    field = make_str(text);
    error = sink->row(sink->user, batch->ids[i], &field, 1);
    snprintf(file, sizeof file, "point-%llu.txt", (unsigned long long)batch->ids[i]);
    if (!error && self->files)
      error = sink->file(sink->user, batch->ids[i], make_str(file), text, strlen(text));
  }
  if (!error) error = leave(self, PL_PASS_FORWARD);
  return error;
}

/* Two for each feature forward, two backward. */
double flops(pl_task* self, const pl_batch* batch) {
  return 4.0 * (double)self->features * (double)batch->count;
}
