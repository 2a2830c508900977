// Compiled once per instruction set, with PIPELINE_ISA its name.

#include "attention.inc.hpp"
#include "gemm.inc.hpp"
#include "kernels.hpp"
#include "rows.inc.hpp"

#define PIPELINE_CONCAT_(a, b) a##b
#define PIPELINE_CONCAT(a, b) PIPELINE_CONCAT_(a, b)
#define PIPELINE_STRING_(a) #a
#define PIPELINE_STRING(a) PIPELINE_STRING_(a)

namespace pipeline::transformer {

extern const Kernels PIPELINE_CONCAT(kKernels_, PIPELINE_ISA);
const Kernels PIPELINE_CONCAT(kKernels_, PIPELINE_ISA) = {
    .name = PIPELINE_STRING(PIPELINE_ISA),
    .gemm = gemm,
    .gemm_rows = kTileRows,
    .gemm_columns = kTileColumns,
    .layer_norm = layer_norm,
    .layer_norm_again = layer_norm_again,
    .layer_norm_backward = layer_norm_backward,
    .layer_norm_backward_parameters = layer_norm_backward_parameters,
    .gelu = gelu,
    .gelu_backward = gelu_backward,
    .gated_unit = gated_unit,
    .gated_unit_backward = gated_unit_backward,
    .column_sum = column_sum,
    .add = add,
    .dropout = dropout,
    .cross_entropy_row = cross_entropy_row,
    .attention = attention,
    .attention_backward = attention_backward,
    .gaussians = gaussians,
};

}  // namespace pipeline::transformer
