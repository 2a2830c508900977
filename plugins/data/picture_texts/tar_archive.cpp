#include "plugins/data/picture_texts/tar_archive.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <tuple>

#include "core/base/foreign.hpp"
#include "core/base/utf8.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::picture_texts {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 14;
// At the end of an archive are two headers of zeros, and more of them up to a multiple of what its writer
// writes at once.
constexpr int64_t kLeastEnd = 512, kMostEnd = int64_t{1} << 20;

// "./a/b" is "a/b": archives of `tar -c .` have such names.
std::string normal(std::string_view name) { return std::filesystem::path(name).lexically_normal().string(); }

// Names are UTF-8 or bytes, whatever the process's locale.
const char* either(const char* utf8, const char* bytes) { return utf8 != nullptr ? utf8 : bytes; }

}  // namespace

TarReader::TarReader(const std::filesystem::path& path, uint64_t position)
    : path_(path),
      file_(files::open_regular(path.string(), O_RDONLY)),
      archive_(archive_read_new(), &archive_read_free),
      start_(position) {
  if (!file_) throw files::system_error(path.string(), "check the path and its permissions");
  if (::lseek(file_.fd(), static_cast<off_t>(position), SEEK_SET) >= 0 &&
      archive_read_support_format_tar(archive_.get()) == ARCHIVE_OK &&
      archive_read_open_fd(archive_.get(), file_.fd(), kBlockBytes) == ARCHIVE_OK)
    return;
  if (const std::string what = foreign::file(path); !what.empty())
    throw files::DataError(path.string() + ": " + what);
  fail("its start", "is no tar header");
}

void TarReader::fail(const std::string& where, const std::string& problem) const {
  throw files::DataError(path_.string() + ": " + where + ": " + problem +
                         ": must be a whole tar archive that is not compressed");
}

bool TarReader::next() {
  archive_entry* entry = nullptr;
  const char* symbolic = nullptr;
  const char* hard = nullptr;
  const std::string where = name_.empty() ? "its start" : "what follows " + printable(name_, "");
  do {
    const int status = archive_read_next_header(archive_.get(), &entry);
    if (status == ARCHIVE_EOF) {
      check_end(where);
      return false;
    }
    // After a header with a wrong sum the library would look for the next one, and what is between would be
    // lost without a word. It warns of damage, too, and of names that the locale does not have (EILSEQ).
    if (status != ARCHIVE_OK && (status != ARCHIVE_WARN || archive_errno(archive_.get()) != EILSEQ))
      fail(where, "is cut off or damaged");
    symbolic = either(archive_entry_symlink_utf8(entry), archive_entry_symlink(entry));
    hard = either(archive_entry_hardlink_utf8(entry), archive_entry_hardlink(entry));
  } while (symbolic == nullptr && hard == nullptr && archive_entry_filetype(entry) != AE_IFREG);
  const char* const name = either(archive_entry_pathname_utf8(entry), archive_entry_pathname(entry));
  if (name == nullptr) fail(where, "has no name");
  name_ = normal(name);
  position_ = start_ + static_cast<uint64_t>(archive_read_header_position(archive_.get()));
  bytes_ = static_cast<uint64_t>(archive_entry_size(entry));
  problem_.clear();
  is_elsewhere_ = false;
  if (symbolic != nullptr) {
    problem_ =
        "is a symbolic link to " + printable(symbolic, "") + ": pack the file itself (tar --dereference)";
    return true;
  }
  if (hard != nullptr) {
    const auto target = files_.find(files::hash128(normal(hard)));
    is_elsewhere_ = target != files_.end();
    if (is_elsewhere_) {
      std::tie(position_, bytes_) = target->second;
    } else {
      problem_ =
          "is a hard link to " + printable(hard, "") + ", which is not before it: pack the file itself";
      return true;
    }
  }
  if (!files_.try_emplace(files::hash128(name_), position_, bytes_).second)
    throw files::DataError(path_.string() + ": holds " + printable(name_, "") +
                           " twice, and which one is meant is not known: unpack it, and pack it again");
  return true;
}

// Checks that zeros follow the last file, and nothing else does.
void TarReader::check_end(const std::string& where) const {
  const auto at = static_cast<off_t>(start_) + archive_read_header_position(archive_.get());
  struct stat status {};
  if (::fstat(file_.fd(), &status) != 0) throw files::system_error(path_.string(), "check the disk");
  const int64_t left = status.st_size - at;
  if (left < kLeastEnd) fail(where, "is cut off or damaged: the zeros that end an archive are not there");
  std::vector<char> end(static_cast<size_t>(std::min(left, kMostEnd)));
  end.resize(files::read_at(file_.fd(), static_cast<uint64_t>(at), end.data(), end.size(), path_.string(),
                            "check the disk"));
  if (std::any_of(end.begin(), end.end(), [](char c) { return c != 0; }))
    fail(where, "is the end of the archive, and yet there is more: joined archives, or damage");
  if (left > kMostEnd) fail(where, std::to_string(left) + " bytes of zeros: has not been written completely");
}

std::vector<std::byte> TarReader::read() {
  const std::string shown = printable(name_, ""), where = path_.string() + ": " + shown + ": ";
  if (!problem_.empty()) throw files::DataError(where + problem_);
  if (bytes_ > kMostFileBytes)
    throw files::DataError(where + "has " + std::to_string(bytes_) + " bytes: may have " +
                           std::to_string(kMostFileBytes));
  if (is_elsewhere_) {
    TarReader file(path_, position_);
    if (!file.next()) throw files::DataError(where + "is not there any more: the archive has changed");
    return file.read();
  }
  std::vector<std::byte> content;
  const void* block = nullptr;
  size_t size = 0;
  la_int64_t offset = 0;
  int status = ARCHIVE_OK;
  while ((status = archive_read_data_block(archive_.get(), &block, &size, &offset)) == ARCHIVE_OK) {
    const auto begin = static_cast<uint64_t>(offset);
    if (begin > bytes_ || size > bytes_ - begin) break;
    content.resize(begin);  // a sparse file has holes
    const auto* const data = static_cast<const std::byte*>(block);
    content.insert(content.end(), data, data + size);
  }
  if (status != ARCHIVE_EOF) fail(shown, "is cut off or damaged");
  content.resize(bytes_);
  return content;
}

std::vector<std::filesystem::path> tar_archives(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> result;
  std::error_code ignored;  // who needs the folder finds out that it is not there
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".tar" && !entry.is_directory(ignored)) result.push_back(entry.path());
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
      throw files::DataError(printable(
          whole + ": is in " + archive(0) + " and in " + archive(1) + ": write " + archive(0) + "/" + whole,
          ""));
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

}  // namespace pipeline::picture_texts
