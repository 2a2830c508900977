// A small run that every launcher is to repeat to the bit, and how to look at its processes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::tests {

// A folder with `run.toml`; processes of the run work in it.
class Runs {
 public:
  Runs();

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  // The arguments of the program for a run of 60 steps in folder `name`, and for one that goes on until
  // something ends it.
  Words short_run(const std::string& name) const;
  Words endless_run(const std::string& name) const;

  // Step, loss and gradient norm of every step, as they are written.
  std::string curve(const std::string& name) const;
  // The curve of one process. Made once.
  std::string expected() const;
  std::string log(const std::string& name) const { return read_text(path(name) / "train.log"); }
  bool has_checkpoint(const std::string& name) const;

  // The program's processes that work in this folder: rank to process. Supervisors are not among them.
  std::map<int, pid_t> ranks() const;

 private:
  TemporaryFolder folder_;
};

// Seconds until `condition` holds; a minute at most.
template <class Condition>
double seconds_until(Condition condition) {
  const auto begin = std::chrono::steady_clock::now();
  eventually(condition);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// torchrun and python of the environment that scripts/test --all makes ($PIPELINE_PYTHON); empty: none.
std::string torchrun();
std::string python();
bool has_program(const std::string& name);
// The command that does `arguments` (which begin with "run") by a script of scripts/launch.
std::string script(const std::string& name);
Words by_script(const std::string& name, const Words& arguments);

}  // namespace pipeline::tests
