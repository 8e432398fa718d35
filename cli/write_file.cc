#include "cli/write_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mroce::cli {

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Outcome<void> OutputFile::failed() const {
  return failure(kEnvironment, fmt::format("cannot write {}: {}", name_, std::strerror(errno)),
                 "name a file that you may write to");
}

Outcome<void> OutputFile::open() {
  struct stat status {};
  if (name_ == "-") {
    file_ = stdout;
    return {};
  }
  // A link is not replaced: /dev/stdout is one, to a regular file if it is redirected.
  const bool special = ::lstat(name_.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (!special) temporary_ = fmt::format("{}.{}.part", name_, ::getpid());
  file_ = std::fopen((special ? name_ : temporary_).c_str(), special ? "we" : "wxe");
  if (file_ != nullptr) return {};
  temporary_.clear();
  return failed();
}

void OutputFile::write(std::string_view text) {
  good_ = good_ && std::fwrite(text.data(), 1, text.size(), file_) == text.size();
}

Outcome<void> OutputFile::finish() {
  bool good = good_ && std::fflush(file_) == 0;
  if (file_ != stdout) good = std::fclose(file_) == 0 && good;
  file_ = nullptr;
  if (good && !temporary_.empty()) good = ::rename(temporary_.c_str(), name_.c_str()) == 0;
  if (!good) return failed();
  temporary_.clear();
  return {};
}

Outcome<void> write_file(const std::string& name, std::string_view text) {
  OutputFile file(name);
  if (auto opened = file.open(); !opened) return opened;
  file.write(text);
  return file.finish();
}

}  // namespace mroce::cli
