// Output files that are there whole or not at all.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "cli/outcome.h"

namespace mroce::cli {

// Text goes to a file beside the named one, which takes its name at the end; "-" is standard output. Files
// that are no regular ones (/dev/stdout, a pipe, a link) are written as they are.
class OutputFile {
 public:
  explicit OutputFile(std::string name) : name_(std::move(name)) {}
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Outcome<void> open();
  void write(std::string_view text);
  Outcome<void> finish();

 private:
  Outcome<void> failed() const;
  std::string name_, temporary_;
  std::FILE* file_ = nullptr;
  bool good_ = true;
};

Outcome<void> write_file(const std::string& name, std::string_view text);

}  // namespace mroce::cli
