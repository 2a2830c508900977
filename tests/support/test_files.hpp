#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/support/temporary_folder.hpp"

namespace pipeline::tests {

// A temporary folder for small files, its paths as the strings that error messages show.
class FilesFolder {
 public:
  std::string path() const { return folder_.path().string(); }
  std::string operator/(const std::string& name) const { return (folder_.path() / name).string(); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream stream(*this / name, std::ios::binary);
    stream << text;
    if (!stream.flush()) throw std::runtime_error(name + ": cannot be written");
    return *this / name;
  }

 private:
  TemporaryFolder folder_;
};

inline std::string read_all(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error(path + ": cannot be read");
  std::ostringstream text;
  text << stream.rdbuf();  // in blocks
  return text.str();
}

// The message of the Exception that `act` throws; `none`, by default a text that no test expects, when it
// throws none.
template <class Exception, class Act>
std::string message_of(Act&& act, const std::string& none = "(nothing was thrown)") {
  try {
    act();
  } catch (const Exception& error) {
    return error.what();
  }
  return none;
}

}  // namespace pipeline::tests
