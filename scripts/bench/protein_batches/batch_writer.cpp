// The protein task, which writes what it would learn from: batches/STEP-MICROBATCH.safetensors in the run's
// folder, and the weights that training begins with as batches/model. The core's order, crops and masks are
// those of a run of the task itself with the same configuration.
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "core/safetensors/writer.hpp"
#include "plugins/tasks/protein/task.hpp"

namespace pipeline::tasks::protein {
namespace {

safetensors::Dtype dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return safetensors::Dtype::kF32;
    case at::kLong:
      return safetensors::Dtype::kI64;
    case at::kByte:
      return safetensors::Dtype::kU8;
    default:
      fail("a batch holds a tensor of ", toString(tensor.scalar_type()), ", must be fp32, int64 or uint8");
  }
}

// Saves the tensors that there are: for a model that sees no structure those of a structure are missing.
void save(const std::filesystem::path& path, std::map<std::string, at::Tensor> tensors) {
  std::erase_if(tensors, [](const auto& named) { return !named.second.defined(); });
  safetensors::Writer writer(path.string());
  for (const auto& [name, tensor] : tensors) writer.declare(name, dtype_of(tensor), tensor.sizes().vec());
  for (const safetensors::TensorInfo& info : writer.layout()) {
    const at::Tensor tensor = tensors.at(info.name).contiguous();
    writer.write(info.name, {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  }
  writer.finish();
}

class BatchWriter : public ProteinTask {
 public:
  using ProteinTask::ProteinTask;

  // No gradient goes to the strategy, so the weights stay what they are.
  LossSum train_batch(const ProteinBatch& batch, const TrainArgs& args) override {
    const std::filesystem::path folder = std::filesystem::path(view(run().run_dir)) / "batches";
    if (args.step == 0 && args.micro_batch == 0) {
      std::filesystem::create_directories(folder / "model");
      export_model(folder / "model");
    }
    const PackedProteins& packed = batch.packed;
    char name[64];
    std::snprintf(name, sizeof name, "%06llu-%04llu.safetensors", static_cast<unsigned long long>(args.step),
                  static_cast<unsigned long long>(args.micro_batch));
    save(folder / name, {{"starts", at::tensor(packed.sequences.starts)},
                         {"tokens", packed.tokens},
                         {"positions", packed.positions},
                         {"chains", packed.chains},
                         {"frames", packed.frames},
                         {"local", packed.local},
                         {"flags", packed.flags},
                         {"targets", packed.targets},
                         {"target_rows", at::tensor(packed.target_rows)}});
    return LossSum(at::zeros({}));
  }
};

}  // namespace
}  // namespace pipeline::tasks::protein

PIPELINE_TASK(pipeline::tasks::protein::BatchWriter, "protein_batches", "1.0.0",
              "The protein task, writing its batches to be learnt from elsewhere")
