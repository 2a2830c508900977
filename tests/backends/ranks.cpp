#include "tests/backends/ranks.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <test_paths.hpp>
#include <thread>

#include "core/base/error.hpp"
#include "core/config/config.hpp"
#include "core/config/settings.hpp"
#include "core/plugins/host.hpp"
#include "tests/peers/ranks.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::tests {
namespace {

using plugins::Plugin;
using std::chrono::duration;
using std::chrono::steady_clock;

constexpr auto kLongest = std::chrono::seconds(90);  // that a test's ranks may take

// How a rank's process knows what it is.
struct Role {
  int part;  // which on_ranks() of the test
  int rank;
  int ranks;
  std::uint16_t port;
  int listener;  // a descriptor that listens there, for rank 0
  std::string folder;
};

const Role* role() {
  static const std::unique_ptr<Role> mine = [] {
    std::unique_ptr<Role> r;
    if (const char* text = std::getenv("PIPELINE_TEST_RANK")) {
      r = std::make_unique<Role>();
      std::istringstream words(text);
      words >> r->part >> r->rank >> r->ranks >> r->port >> r->listener >> r->folder;
    }
    return r;
  }();
  return mine.get();
}

std::string test_name() {
  const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + '.' + info->name();
}

int next_part() {
  static std::string test;
  static int part = 0;
  part = test == test_name() ? part + 1 : 0;
  test = test_name();
  return part;
}

OpenArgs open_args(int rank, int ranks, const RankOptions& options) {
  OpenArgs args;
  args.address = "127.0.0.1";
  args.group = options.group;
  args.rank = args.local_rank = rank;
  args.world_size = args.local_world_size = ranks;
  args.timeout = duration<double>(options.timeout);
  return args;
}

Scene& map_scene(const std::string& file) {
  std::FILE* opened = std::fopen(file.c_str(), "r+b");
  void* memory = ::mmap(nullptr, sizeof(Scene), PROT_READ | PROT_WRITE, MAP_SHARED, ::fileno(opened), 0);
  std::fclose(opened);
  return *static_cast<Scene*>(memory);
}

// A rank among its peers. The failure of another one aborts its group.
class Membership {
 public:
  explicit Membership(const World& world) : peers_(world, options()) {}
  ~Membership() { peers_.leave(); }

  // What the body threw.
  std::string run(const RawBody& body, OpenArgs args, Scene& scene) {
    args.peers = &peers_;
    current = this;
    try {
      body(args, scene);
      return "";
    } catch (const std::exception& e) {
      peers_.fail(e.what());
      return e.what();
    }
  }

  void watch(plugins::Communicator* group) {
    const std::lock_guard lock(mutex_);
    group_ = group;
  }

  static thread_local Membership* current;

 private:
  peers::PeersOptions options() {
    peers::PeersOptions options;
    options.stall = duration<double>(0);
    options.on_failure = [this](const peers::Failure& failure) {
      const std::lock_guard lock(mutex_);
      if (group_ != nullptr) group_->abort(peers::describe(failure));
    };
    return options;
  }

  std::mutex mutex_;
  plugins::Communicator* group_ = nullptr;
  peers::Peers peers_;  // goes first: it calls on_failure
};
thread_local Membership* Membership::current = nullptr;

std::string message_of(const std::exception_ptr& problem) {
  try {
    std::rethrow_exception(problem);
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::vector<std::string> as_threads(int ranks, const RawBody& body, const RankOptions& options) {
  peers::Group run(ranks);
  std::vector<std::string> problems(static_cast<std::size_t>(ranks));
  Scene scene{};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Membership me(run.world(rank));
      problems[static_cast<std::size_t>(rank)] = me.run(body, open_args(rank, ranks, options), scene);
    });
  for (std::thread& thread : threads) thread.join();
  return problems;
}

[[noreturn]] void be_rank(const Role& role, const RawBody& body, const RankOptions& options) {
  World world;
  world.rank = world.local_rank = role.rank;
  world.size = world.local_size = role.ranks;
  world.address = "127.0.0.1";
  world.port = role.port;
  if (role.rank == 0) world.listen_socket = role.listener;
  {
    Membership me(world);
    const std::string problem =
        me.run(body, open_args(role.rank, role.ranks, options), map_scene(role.folder + "/scene"));
    std::ofstream(role.folder + "/problem" + std::to_string(role.rank)) << problem;
  }
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

pid_t start_process(const std::string& role_text) {
  const std::string filter = "--gtest_filter=" + test_name();
  const std::string variable = "PIPELINE_TEST_RANK=" + role_text;
  std::vector<char*> environment;
  for (char** at = environ; *at != nullptr; ++at) environment.push_back(*at);
  environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  char* arguments[] = {const_cast<char*>("rank"), const_cast<char*>(filter.c_str()),
                       const_cast<char*>("--gtest_brief=1"), nullptr};
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGPIPE, SIG_IGN);  // as in every run: Gloo may write to a rank that has just died
    ::execve("/proc/self/exe", arguments, environment.data());
    ::_exit(127);
  }
  return child;
}

struct Child {
  pid_t pid;
  bool over = false;     // has ended
  bool stopped = false;  // stands still
  std::string end;
};

// Notes what has become of a child; true when that is news.
bool look_at(Child& child) {
  int status = 0;
  if (child.over || ::waitpid(child.pid, &status, WNOHANG | WUNTRACED) != child.pid) return false;
  if (WIFSTOPPED(status)) {
    child.stopped = true;
    child.end = "stopped";
    return true;
  }
  child.over = true;
  if (child.stopped) return false;
  if (WIFSIGNALED(status)) child.end = "killed by signal " + std::to_string(WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    child.end = "ended with status " + std::to_string(WEXITSTATUS(status)) + ", see above";
  return WIFSIGNALED(status);
}

std::vector<std::string> as_processes(int part, int ranks) {
  const TemporaryFolder folder;
  const std::string scene_file = (folder.path() / "scene").string();
  std::ofstream(scene_file) << std::string(sizeof(Scene), '\0');
  Scene& scene = map_scene(scene_file);
  peers::Group run(ranks);
  const int listener = run.world(0).listen_socket;  // the ranks inherit it
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ostringstream text;
    text << part << ' ' << rank << ' ' << ranks << ' ' << run.port() << ' ' << listener << ' '
         << folder.path().string();
    children.push_back({start_process(text.str()), false, false, ""});
  }
  const auto until = steady_clock::now() + kLongest;
  for (;;) {
    bool waiting = false;
    for (Child& child : children) {
      // A rank that was killed or stopped cannot count itself.
      if (look_at(child)) ++scene.done;
      waiting |= !child.over && !child.stopped;
    }
    if (!waiting) break;
    if (steady_clock::now() > until) {
      ADD_FAILURE() << "the ranks do not end";
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::vector<std::string> problems;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    Child& child = children[rank];
    if (!child.over) {
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
    std::ifstream file(folder.path() / ("problem" + std::to_string(rank)));
    std::string problem(std::istreambuf_iterator<char>(file), {});
    if (child.end.rfind("ended", 0) == 0) ADD_FAILURE() << "rank " << rank << ' ' << child.end;
    problems.push_back(child.end.empty() ? problem : child.end);
  }
  ::munmap(&scene, sizeof scene);
  ::close(listener);
  return problems;
}

const pl_config& config_of(const Plugin& plugin, const std::string& interface) {
  static std::mutex mutex;
  static std::deque<pl_config> kept;
  const std::lock_guard lock(mutex);
  config::LoadArgs load;
  load.sets = {"task.plugin=\"none\"", "backend.plugin=\"" + std::string(plugin.name()) + '"'};
  if (!interface.empty()) load.sets.push_back("backend.interface=\"" + interface + '"');
  return kept.emplace_back(config::load(load).plugin("backend", plugin.options()));
}

}  // namespace

void Scene::wait_for(int index, int value) const {
  while (flag[index] < value) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

const BackendUnderTest& backend(const std::string& name) {
  static std::deque<BackendUnderTest> known{
      {"fake", false, PIPELINE_BUILD_DIR "/tests/plugins/backends/fake.so"},
      {"gloo", true, PIPELINE_BUILD_DIR "/lib/pipeline/plugins/backends/gloo.so"},
      {"nccl", true, PIPELINE_BUILD_DIR "/lib/pipeline/plugins/backends/nccl.so"},
      {"shm", true, PIPELINE_BUILD_DIR "/lib/pipeline/plugins/backends/shm.so"}};
  for (const BackendUnderTest& one : known)
    if (one.name == name) return one;
  throw std::runtime_error("no backend " + name);
}

bool was_built(const BackendUnderTest& backend) { return std::filesystem::exists(backend.plugin); }

std::unique_ptr<plugins::Communicator> open_group(const BackendUnderTest& backend, const OpenArgs& args,
                                                  const std::string& interface) {
  static std::mutex mutex;
  static std::deque<pl_context> contexts;
  std::unique_lock lock(mutex);
  const Plugin& plugin = Plugin::load(backend.plugin);
  pl_context& context = contexts.emplace_back(std::string(plugin.label()));
  lock.unlock();
  plugins::give_exchange(context, *args.peers);
  return std::make_unique<plugins::Communicator>(plugin, context, &config_of(plugin, interface), args);
}

std::vector<std::string> on_raw_ranks(const BackendUnderTest& backend, int ranks, const RawBody& body,
                                      const RankOptions& options) {
  const int part = next_part();
  if (!backend.processes) return as_threads(ranks, body, options);
  if (role() == nullptr) return as_processes(part, ranks);
  if (role()->part == part) be_rank(*role(), body, options);
  return std::vector<std::string>(static_cast<std::size_t>(ranks));  // an earlier part of the test
}

std::vector<std::string> on_ranks(const BackendUnderTest& backend, int ranks,
                                  const std::function<void(Rank&)>& body, const RankOptions& options) {
  return on_raw_ranks(
      backend, ranks,
      [&](const OpenArgs& args, Scene& scene) {
        std::exception_ptr problem;
        std::unique_ptr<plugins::Communicator> group;
        try {
          group = open_group(backend, args, options.interface);
          Membership::current->watch(group.get());
          Rank rank{*group, scene, backend};
          body(rank);
        } catch (...) {
          problem = std::current_exception();
          args.peers->fail(message_of(problem));
        }
        ++scene.done;
        while (scene.done < args.world_size) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        Membership::current->watch(nullptr);
        group.reset();
        if (problem) std::rethrow_exception(problem);
      },
      options);
}

void expect_fine(const std::vector<std::string>& problems) {
  for (std::size_t rank = 0; rank < problems.size(); ++rank) EXPECT_EQ(problems[rank], "") << "rank " << rank;
}

std::string problem_of(const std::function<void()>& call) {
  try {
    call();
    return "none";
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace pipeline::tests
