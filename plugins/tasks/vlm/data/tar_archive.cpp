#include "plugins/tasks/vlm/data/tar_archive.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <tuple>

namespace pipeline::vlm {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 14;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of a file

// "./a/b" is "a/b": archives of `tar -c .` have such names.
std::string normal(std::string_view name) { return std::filesystem::path(name).lexically_normal().string(); }

}  // namespace

TarReader::TarReader(const std::filesystem::path& path, uint64_t position)
    : path_(path),
      fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      archive_(archive_read_new(), &archive_read_free),
      start_(position) {
  if (fd_ < 0) throw files::system_error(path.string(), "check the path and its permissions");
  try {
    if (::lseek(fd_, static_cast<off_t>(position), SEEK_SET) < 0 ||
        archive_read_support_format_tar(archive_.get()) != ARCHIVE_OK ||
        archive_read_open_fd(archive_.get(), fd_, kBlockBytes) != ARCHIVE_OK)
      fail("its start");
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

TarReader::~TarReader() {
  archive_.reset();
  ::close(fd_);
}

void TarReader::fail(const std::string& doing) {
  const char* const problem = archive_error_string(archive_.get());
  throw files::DataError(path_.string() + ": " + doing + ": " + (problem != nullptr ? problem : "no reason") +
                         ": must be a whole tar archive that is not compressed");
}

bool TarReader::next() {
  archive_entry* entry = nullptr;
  do {
    const int status = archive_read_next_header(archive_.get(), &entry);
    if (status == ARCHIVE_EOF) return false;
    if (status < ARCHIVE_WARN) fail(name_.empty() ? "its start" : "what follows " + name_);
  } while (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr);
  // Names are UTF-8 or bytes, whatever the process's locale.
  const char* name = archive_entry_pathname_utf8(entry);
  if (name == nullptr) name = archive_entry_pathname(entry);
  if (name == nullptr) fail("the name of what follows " + name_);
  name_ = normal(name);
  position_ = start_ + static_cast<uint64_t>(archive_read_header_position(archive_.get()));
  bytes_ = static_cast<uint64_t>(archive_entry_size(entry));
  return true;
}

std::vector<std::byte> TarReader::read() {
  if (bytes_ > kMostBytes)
    throw files::DataError(path_.string() + ": " + name_ + ": has " + std::to_string(bytes_) +
                           " bytes: may have " + std::to_string(kMostBytes));
  std::vector<std::byte> content;
  const void* block = nullptr;
  size_t size = 0;
  la_int64_t offset = 0;
  int status = ARCHIVE_OK;
  while ((status = archive_read_data_block(archive_.get(), &block, &size, &offset)) == ARCHIVE_OK) {
    content.resize(static_cast<size_t>(offset));  // a sparse file has holes
    const auto* const begin = static_cast<const std::byte*>(block);
    content.insert(content.end(), begin, begin + size);
  }
  if (status != ARCHIVE_EOF || content.size() > bytes_) fail(name_);
  content.resize(bytes_);
  return content;
}

std::vector<std::filesystem::path> tar_archives(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> result;
  std::error_code ignored;  // who needs the folder finds out that it is not there
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".tar" && entry.is_regular_file()) result.push_back(entry.path());
  std::sort(result.begin(), result.end());
  return result;
}

TarIndex::TarIndex(std::vector<std::filesystem::path> archives, const files::Hooks& hooks)
    : archives_(std::move(archives)) {
  for (uint32_t i = 0; i < archives_.size(); ++i) {
    hooks.report(i, archives_.size());
    for (TarReader reader(archives_[i]); reader.next();) {
      if (entries_.size() % 256 == 0) hooks.throw_if_cancelled();
      entries_.push_back({files::hash128(reader.name()), reader.position(), i});
    }
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.name.low, a.name.high, a.archive) < std::tie(b.name.low, b.name.high, b.archive);
  });
}

std::optional<std::vector<std::byte>> TarIndex::read(std::string_view name) const {
  const std::string whole = normal(name);
  const auto named = [](const Entry& entry, const files::Hash128& hash) {
    return std::tie(entry.name.low, entry.name.high) < std::tie(hash.low, hash.high);
  };
  const auto all_of = [&](std::string_view member) {
    const files::Hash128 hash = files::hash128(member);
    const auto first = std::lower_bound(entries_.begin(), entries_.end(), hash, named);
    return std::span(first, std::find_if_not(first, entries_.end(),
                                             [&](const Entry& entry) { return entry.name == hash; }));
  };
  const Entry* found = nullptr;
  if (const auto all = all_of(whole); !all.empty()) {
    const auto archive = [&](size_t i) { return archives_[all[i].archive].filename().string(); };
    if (all.size() > 1)
      throw files::DataError("is in " + archive(0) + " and in " + archive(1) + ": write " + archive(0) + "/" +
                             whole);
    found = &all[0];
  } else if (const size_t slash = whole.find('/'); slash != std::string::npos) {
    for (const Entry& entry : all_of(whole.substr(slash + 1)))
      if (archives_[entry.archive].filename() == whole.substr(0, slash)) found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  TarReader reader(archives_[found->archive], found->position);
  if (!reader.next()) throw files::DataError(archives_[found->archive].string() + ": has become shorter");
  return reader.read();
}

}  // namespace pipeline::vlm
