#include "core/launch/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "core/base/descriptor.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/launch/rank_env.hpp"

namespace pipeline::launch {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 64;  // of random_secret()

// The file of a run's secret. Two runs may use one folder, a training and an evaluation, say.
fs::path file_of(const World& world, const fs::path& run_dir) {
  const fs::path folder = (fs::absolute(run_dir) / ".").lexically_normal().parent_path();
  return folder.parent_path() /
         fmt::format(".{}.{:016x}.secret", folder.filename().string(), fnv1a(world.run_id));
}

// Files of earlier meetings in which rank 0 was killed. No meeting lasts a day; `file` itself may be in use.
void remove_left_behind(const fs::path& file) {
  constexpr size_t kHash = 16;
  constexpr std::string_view kEnding = ".secret";
  const std::string own = file.filename().string();
  const std::string run = own.substr(0, own.size() - kHash - kEnding.size());
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  std::error_code error, ignored;
  for (fs::directory_iterator entry(file.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == own || name.size() < own.size() || !name.starts_with(run) ||
        name.compare(run.size() + kHash, kEnding.size(), kEnding) != 0)
      continue;
    const auto made = entry->last_write_time(ignored);
    if (!ignored && made < yesterday) fs::remove(entry->path(), ignored);
  }
}

// Makes the file whole or not at all, and not over one that is there. False: errno says why.
bool make(const fs::path& file) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const std::string part = fmt::format("{}.{}", file.string(), random_secret().substr(0, 16));
  const Descriptor descriptor(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!descriptor) return false;
  const std::string secret = random_secret();
  const bool written =
      ::write(descriptor.fd(), secret.data(), secret.size()) == static_cast<ssize_t>(kDigits) &&
      ::fsync(descriptor.fd()) == 0;
  const bool there = written && (::link(part.c_str(), file.c_str()) == 0 || errno == EEXIST);
  const int problem = errno;
  ::unlink(part.c_str());
  errno = problem;
  return there;
}

// The secret in the file. Empty: errno says why.
std::string read(const fs::path& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts {};
  if (!descriptor || ::fstat(descriptor.fd(), &facts) != 0) return {};
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0)
    fail_config(
        fmt::format("{}, the file with the run's secret, belongs to user {} with mode {:o}, must be this "
                    "user's ({}) with mode 600: remove it, or set {} to a secret text on all hosts",
                    file.string(), facts.st_uid, facts.st_mode & 07777, ::geteuid(), kRunSecret));
  std::array<char, kDigits> text;
  const bool whole = ::read(descriptor.fd(), text.data(), text.size()) == static_cast<ssize_t>(kDigits);
  return whole ? std::string(text.data(), text.size()) : std::string();
}

}  // namespace

RunSecret::RunSecret(World& world, const fs::path& run_dir) {
  if (world.size == 1 || !world.secret.empty()) return;
  const fs::path file = file_of(world, run_dir);
  for (int i = 0; i < 3 && world.secret.empty(); ++i)  // rank 0 of an earlier attempt may be removing its own
    if (make(file)) world.secret = read(file);
  if (!world.secret.empty()) {
    if (world.rank == 0) {
      file_ = file;
      remove_left_behind(file);
    }
    return;
  }
  note_ = fmt::format(
      "the run has no secret, so anyone who reaches port {} can disturb it: {} cannot be created: {}; set {} "
      "to a secret text on all hosts",
      world.port, file.string(), std::strerror(errno), kRunSecret);
}

RunSecret::~RunSecret() {
  std::error_code ignored;
  if (!file_.empty()) fs::remove(file_, ignored);
}

}  // namespace pipeline::launch
