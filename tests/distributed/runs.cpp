#include "tests/distributed/runs.hpp"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include <nlohmann/json.hpp>
#include <test_paths.hpp>

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"([run]
device = "cpu"
reproducible = true
[task]
plugin = "template"
[backend]
plugin = "gloo"
[optimizer]
lr = 0.01
[schedule]
kind = "constant"
[train]
global_batch = 16
micro_batch = 4
[checkpoint]
every = 20
[launch]
rendezvous_seconds = 60
)";

// A process's environment, as it was started with; empty if it is gone.
std::map<std::string, std::string> environment_of(const fs::path& process) {
  std::map<std::string, std::string> variables;
  std::istringstream in(read_text(process / "environ"));
  for (std::string entry; std::getline(in, entry, '\0');)
    if (const size_t equals = entry.find('='); equals != std::string::npos)
      variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  return variables;
}

int rank_of(const std::map<std::string, std::string>& variables) {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const auto found = variables.find(name); found != variables.end()) return std::stoi(found->second);
  return -1;
}

}  // namespace

Runs::Runs() {
  write_text(path("run.toml"), kConfig);
  // Not the test plugins, and not the runner's own place among processes.
  for (const char* name :
       {"PIPELINE_PLUGIN_PATH", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
    ::unsetenv(name);
  ::setenv("PIPELINE", PIPELINE_EXECUTABLE, 1);
}

Words Runs::short_run(const std::string& name) const {
  return {"run", path("run.toml"), "--set", "run.dir=" + path(name).string(), "--set", "train.max_steps=60"};
}

Words Runs::endless_run(const std::string& name) const {
  return {"run",   path("run.toml"),          "--set", "run.dir=" + path(name).string(),
          "--set", "train.max_steps=10000000"};
}

std::string Runs::curve(const std::string& name) const {
  std::string lines;
  for (const std::string& line : read_lines(path(name) / "metrics.jsonl")) {
    const auto json = nlohmann::json::parse(line);
    lines += json["step"].dump() + " " + json["loss"].dump() + " " + json["grad_norm"].dump() + "\n";
  }
  return lines;
}

std::string Runs::expected() const {
  if (!fs::exists(path("alone")))
    Process(Words{PIPELINE_EXECUTABLE} + short_run("alone") + Words{"--set", "backend.plugin=auto"},
            folder_.path())
        .wait();
  return curve("alone");
}

bool Runs::has_checkpoint(const std::string& name) const {
  return fs::exists(path(name) / "checkpoints" / "step-00000040");
}

std::map<int, pid_t> Runs::ranks() const {
  std::map<int, pid_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    std::error_code gone;
    if (pid.find_first_not_of("0123456789") != std::string::npos ||
        fs::read_symlink(entry.path() / "cwd", gone) != folder_.path() ||
        fs::read_symlink(entry.path() / "exe", gone) != PIPELINE_EXECUTABLE)
      continue;
    const int rank = rank_of(environment_of(entry.path()));
    if (rank >= 0) found[rank] = std::stoi(pid);
  }
  return found;
}

std::string python() {
  const char* path = std::getenv("PIPELINE_PYTHON");
  return path != nullptr ? path : "";
}

std::string torchrun() {
  const fs::path path = fs::path(python()).parent_path() / "torchrun";
  return !python().empty() && fs::exists(path) ? path.string() : "";
}

bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null").c_str()) == 0;
}

std::string script(const std::string& name) {
  return std::string(PIPELINE_SOURCE_DIR "/scripts/launch/") + name;
}

Words by_script(const std::string& name, const Words& arguments) {
  return Words{script(name)} + Words(arguments.begin() + 1, arguments.end());
}

}  // namespace pipeline::tests
