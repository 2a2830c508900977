#include "core/base/program.hpp"

#include <system_error>
#include <utility>

namespace fs = std::filesystem;

namespace pipeline {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

Program own_executable() {
  std::error_code failure;
  const fs::path path = fs::read_symlink(kSelf, failure);
  // This very program, even if its file has been replaced meanwhile; by its path where that will do, because
  // ps and the kernel's log show the last part of it.
  const bool is_there = !failure && fs::equivalent(path, kSelf, failure) && !failure;
  return {.prefix = path.parent_path().parent_path(),
          .command = {is_there ? path.string() : kSelf},
          .arguments = {}};
}

Program& instance() {
  static Program program = own_executable();
  return program;
}

}  // namespace

const Program& program() { return instance(); }
void set_program(Program program) { instance() = std::move(program); }

}  // namespace pipeline
