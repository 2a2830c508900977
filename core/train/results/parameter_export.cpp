#include "core/train/results/result_files.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/safetensors/writer.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPiece = uint64_t{1} << 20;  // elements: what is in memory at once

safetensors::Shape shape_of(const pl_parameter& parameter) {
  return {parameter.shape, parameter.shape + parameter.ndim};
}

void write_values(const plugins::PieceReader& read, const std::vector<pl_parameter>& parameters,
                  const fs::path& path, std::string_view remedy) {
  try {
    safetensors::Writer writer(path.string());
    for (const pl_parameter& parameter : parameters)
      writer.declare(std::string(view(parameter.name)), safetensors::Dtype::kF32, shape_of(parameter));
    std::vector<float> values;
    for (const pl_parameter& parameter : parameters) {
      auto piece = sized<pl_piece>();
      piece.ndim = parameter.ndim;
      piece.parameter = parameter.name;
      piece.kind = to_pl("value");
      piece.shape = parameter.shape;
      piece.dtype = {PL_DTYPE_FLOAT, 32, 1};
      const uint64_t count = plugins::element_count(parameter);
      for (; piece.offset < count; piece.offset += piece.count) {
        piece.count = std::min(kPiece, count - piece.offset);
        values.resize(piece.count);
        read(piece, values.data());
        writer.write(view(parameter.name), std::as_bytes(std::span(values)));
      }
    }
    writer.finish();
  } catch (const safetensors::SafetensorsError& error) {
    if (error.os_error() != 0) throw write_error(path, error.os_error(), remedy);
    throw Error(error.what());
  }
}

constexpr std::string_view kReadme = R"(# {task} after step {step}

`model.safetensors` has its parameters, by the names that the task gives them. In Python:

```python
from safetensors.torch import load_file
parameters = load_file("model.safetensors")  # name -> tensor
```

A module whose parameters have these names and shapes takes them: `module.load_state_dict(parameters)`.
{state}
| parameter | shape |
| --- | --- |
)";
constexpr std::string_view kState =
    "\n`extra_state.bin` is what the task saves beside them: the bytes that its `extra_state` returns.\n";

}  // namespace

void export_parameters(const checkpoint::Checkpoint& from, const plugins::PieceReader& values,
                       plugins::Task& task, const fs::path& folder, std::string_view remedy) {
  const std::vector<pl_parameter>& parameters = task.parameters();
  write_values(values, parameters, folder / "model.safetensors", remedy);
  const std::string state = task.extra_state();
  if (!state.empty()) write_atomically(folder / "extra_state.bin", state, remedy);
  const plugins::Plugin& plugin = task.plugin();
  std::string readme =
      fmt::format(kReadme, fmt::arg("task", fmt::format("{} {}", plugin.label(), plugin.version())),
                  fmt::arg("step", from.contents().step), fmt::arg("state", state.empty() ? "" : kState));
  for (const pl_parameter& parameter : parameters)
    readme += fmt::format(
        "| `{}` | {} |\n", view(parameter.name),
        parameter.ndim == 0 ? "a number" : fmt::format("{}", fmt::join(shape_of(parameter), " x ")));
  write_atomically(folder / "README.md", readme, remedy);
}

}  // namespace pipeline::train
