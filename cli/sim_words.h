// Words of the simulator's command line: quantities with units, and lists of key=value after a name.
//
//   sizes  1500  64K  2M  1G (powers of 1024, as KiB or KB alike)      rates   400G  25Gbps  1e9
//   times  1us  500ns  2.5ms  1s  250ps  0                             shares  1%  0.01
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/outcome.h"
#include "sim/time.h"

namespace mroce::cli {

std::optional<uint64_t> parse_size(std::string_view text);
std::optional<uint64_t> parse_rate(std::string_view text);  // bit/s, powers of 1000
std::optional<sim::SimTime> parse_time(std::string_view text);
std::optional<double> parse_share(std::string_view text);  // 0 to 1
std::optional<uint64_t> parse_count(std::string_view text, uint64_t low, uint64_t high);
std::optional<bool> parse_switch(std::string_view text);  // on, off, 1, 0

std::vector<std::string_view> split_words(std::string_view text, char separator);

// "name:key=value,key=value". Each value is asked for by its key, once; what nobody has asked for is an
// error.
class NamedList {
 public:
  static Outcome<NamedList> parse(std::string_view flag, std::string_view text);

  const std::string& name() const { return name_; }
  // They leave `out` alone if the key is absent. The first bad value is kept for end().
  void size(std::string_view key, uint64_t& out);
  void rate(std::string_view key, uint64_t& out);
  void time(std::string_view key, sim::SimTime& out);
  void count(std::string_view key, uint32_t& out, uint32_t low, uint32_t high);
  bool has(std::string_view key) const;
  // Every key was understood, and its value.
  Outcome<void> end() const;

 private:
  struct Pair {
    std::string key;
    std::string value;
    bool used = false;
  };
  const std::string* take(std::string_view key, std::string_view what);
  void bad(std::string_view key, std::string_view value, std::string_view wanted);

  std::string flag_;
  std::string name_;
  std::vector<Pair> pairs_;
  std::vector<std::string> known_;  // keys that were asked for, with what they want
  std::string trouble_;
};

}  // namespace mroce::cli
