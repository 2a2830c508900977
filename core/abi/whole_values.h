/* An extension of strategies that do not keep all parameters in place. To be moved into pipeline.h with its next version. */
#ifndef PIPELINE_ABI_WHOLE_VALUES_H
#define PIPELINE_ABI_WHOLE_VALUES_H

#include "pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Between the two all parameters are in place on this rank, unit hooks do nothing, and `storage` says where: the task is bound
 * again after each. For what goes through a model otherwise than training does, and on each rank as often as it likes:
 * evaluation, generation. All ranks call both; not between begin_step and step. [main] */
#define PL_EXTENSION_WHOLE_VALUES "pl.whole-values/1"

typedef struct pl_whole_values {
  uint32_t struct_size;
  uint32_t reserved;
  pl_error *(*gather)(pl_strategy *self);
  pl_error *(*release)(pl_strategy *self);
} pl_whole_values;

#ifdef __cplusplus
}
#endif

#endif
