#include "core/train/results/result_files.hpp"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/base/files.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

ResultFile::ResultFile(fs::path path, std::string remedy)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp"), remedy_(std::move(remedy)) {
  on_disk(remedy_, [&] {
    if (path_.has_parent_path()) fs::create_directories(path_.parent_path());
  });
  std::error_code ignored;
  if (fs::is_directory(path_, ignored)) throw write_error(path_, EISDIR, remedy_);
  if (fs::exists(path_, ignored) &&
      !fs::is_regular_file(path_, ignored))  // a device, such as /dev/null, would be replaced
    throw Error(PL_ERROR_CONFIG,
                fmt::format("{}: cannot be written: is no plain file: {}", path_.string(), remedy_));
  if (!std::ofstream(temporary_, std::ios::trunc)) throw write_error(path_, errno, remedy_);
}

void require_file_place(const fs::path& path, const std::string& remedy) {
  const ResultFile tried(path, remedy);
}

void require_folder_place(const fs::path& path, const std::string& remedy) {
  on_disk(remedy, [&] {
    const fs::path tried = path.string() + ".tmp";
    fs::create_directories(tried);
    fs::remove_all(tried);
  });
}

ResultFile::~ResultFile() {
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void ResultFile::write(std::string_view text) { write_atomically(path_, text, remedy_); }

namespace {

constexpr std::string_view kRecord = ".written-by-";  // no side file's name begins with a dot

// The whole lines of a file: what was cut short by a kill is not taken for a name.
std::string whole_lines(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

}  // namespace

fs::path side_files_of(const fs::path& output) {
  return output.parent_path() / (output.stem().string() + "-files");
}

void write_side_file(const fs::path& folder, std::string_view name, std::span<const std::byte> bytes) {
  on_disk({}, [&] { fs::create_directories(folder); });
  std::ofstream out(folder / name, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw write_error(folder / name, errno);
}

SideFileRecord::SideFileRecord(const fs::path& output)
    : folder_(side_files_of(output)), file_(folder_ / (std::string(kRecord) + output.filename().string())) {}

SideFileRecord::Content SideFileRecord::read(const fs::path& file) {
  Content content;
  const std::string text = whole_lines(file);
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const std::string name = text.substr(begin, end - begin);
    if (name.empty()) {
      content.before.merge(content.now);
      content.now.clear();
    } else if (plugins::is_side_file_name(name)) {
      content.now.insert(name);
    }
  }
  return content;
}

void SideFileRecord::append(const std::string& text) {
  if (!std::exchange(is_whole_, true) && fs::exists(file_))
    on_disk({}, [&] { fs::resize_file(file_, whole_lines(file_).size()); });
  std::ofstream out(file_, std::ios::binary | std::ios::app);
  out << text;
  if (!out.flush()) throw write_error(file_, errno);
}

void SideFileRecord::begin() {
  if (fs::exists(file_)) append("\n");
}

void SideFileRecord::add(const std::vector<std::string>& names) {
  if (names.empty()) return;
  on_disk({}, [&] { fs::create_directories(folder_); });
  std::string text;
  for (const std::string& name : names)
    if (name.find('\n') == name.npos) text += name + '\n';
  append(text);
}

SideFileRecord::Names SideFileRecord::of_other_results() const {
  Names names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
    if (const std::string name = entry.path().filename();
        entry.path() != file_ && name.starts_with(kRecord) && !name.ends_with(".tmp")) {
      Content content = read(entry.path());
      names.merge(content.before);
      names.merge(content.now);
    }
  return names;
}

void SideFileRecord::remove_others() {
  const Content content = read(file_);
  if (content.before.empty()) return;
  on_disk({}, [&] {
    const Names others = of_other_results();
    for (const std::string& name : content.before)
      if (!content.now.contains(name) && !others.contains(name) && !fs::is_directory(folder_ / name))
        fs::remove(folder_ / name);
  });
  std::string text;
  for (const std::string& name : content.now) text += name + '\n';
  if (!text.empty()) return ResultFile(file_, {}).write(text);
  on_disk({}, [&] { fs::remove(file_); });
  std::error_code not_empty;
  fs::remove(folder_, not_empty);
}

}  // namespace pipeline::train
