// Any bytes as a safetensors file: a SafetensorsError, or a header whose tensors tile the data and that can
// be written again.
#include <cstdint>

#include "core/safetensors/header.hpp"
#include "tests/support/fuzz.hpp"

using namespace pipeline::safetensors;
using pipeline::tests::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto image = std::as_bytes(std::span(data, size));
  Header header;
  try {
    header = parse_header(image, "fuzz");
  } catch (const SafetensorsError&) {
    return 0;
  }
  uint64_t position = 0;
  for (const TensorInfo& tensor : header.tensors) {
    require(tensor.begin == position &&
            tensor.end - tensor.begin == byte_size(tensor.dtype, tensor.shape, "fuzz"));
    position = tensor.end;
  }
  require(header.data_start + position == size);

  std::string again = format_header(header.tensors, header.metadata, "fuzz");
  again.append(reinterpret_cast<const char*>(data) + header.data_start, position);
  const Header reread = parse_header(std::as_bytes(std::span(again)), "fuzz");
  require(reread.metadata == header.metadata && reread.tensors.size() == header.tensors.size());
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    const TensorInfo &a = header.tensors[i], &b = reread.tensors[i];
    require(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.begin == b.begin &&
            a.end == b.end);
  }
  return 0;
}
