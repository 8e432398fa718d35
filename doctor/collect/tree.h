// The files of a machine: those of this one, or of another that were recorded below a folder.
//
// A recorded tree has the files where the machine had them (DIR/sys/class/…, DIR/proc/…) and what commands
// printed in DIR/commands/NAME.txt, NAME being the command line with "_" for all but letters, digits, "." and
// "-". DIR/time_ns, if there is one, says when: nanoseconds since 1970.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace mroce::doctor {

class Tree {
 public:
  Tree() = default;  // this machine
  explicit Tree(std::string root) : root_(std::move(root)) {}

  bool recorded() const { return !root_.empty(); }
  // The content, at most `bound` bytes of it, or why there is none.
  tl::expected<std::string, std::string> read(const std::string& path, size_t bound = 64u << 10) const;
  // Names in the folder, sorted, at most 4,096; without those that begin with a dot.
  std::vector<std::string> names(const std::string& folder) const;
  bool exists(const std::string& path) const;
  bool is_folder(const std::string& path) const;
  // What a symbolic link ends in: "mlx5_core" of ".../drivers/mlx5_core"; or empty.
  std::string link_name(const std::string& path) const;
  // All of a symbolic link, or empty.
  std::string link(const std::string& path) const;
  std::string on_disk(const std::string& path) const { return root_ + path; }
  // Where a recorded tree keeps the output of this command.
  static std::string command_file(std::string_view command_line);

 private:
  std::string root_;
};

}  // namespace mroce::doctor
