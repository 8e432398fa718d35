// Settings: each declared once with name, default and sentence. Origin order: flag > environment > file >
// default.
//
// The library reads the environment (MROCE_<NAME>) and the file that MROCE_CONFIG names (key = value lines, #
// comments); `mroce run` turns its flags into environment variables. A value that does not parse is an error
// with cause and hint.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace mroce::net {

// X(name, textual default, sentence). The environment variable is MROCE_ + NAME in upper case; the flag
// --name with dashes.
#define MROCE_SETTINGS(X)                                                                                    \
  X(paths, "4", "paths of one connection in each direction, 1 to 32")                                        \
  X(planes, "8", "planes (pairs of local and remote addresses) that one connection may use, 1 to 8")         \
  X(addresses, "", "local addresses to use, comma-separated, in GID order; empty: all that are up")          \
  X(base_port, "61440", "UDP port of slot 0, the same on all hosts; a process uses base_port + its slot")    \
  X(max_payload, "4096",                                                                                     \
    "most payload bytes in a packet, 1024 to 4096; less where the link's MTU asks for it")                   \
  X(window, "1M", "most bytes in flight on one connection, 64K to 64M")                                      \
  X(receive_buffer, "8M", "receive buffer to ask the kernel for; what it grants counts")                     \
  X(impair, "", "impairments of what this endpoint sends, see mroce run --help")                             \
  X(seed, "", "seed of all random choices; empty: from the system")                                          \
  X(relaxed, "0", "1: place last packets at once; breaks programs that poll the last byte")                  \
  X(ecn, "1", "set ECT(0) on packets and react to CE marks")                                                 \
  X(security, "off", "encrypt with AES-GCM: off; prefer: if the peer does, too; require: talk to no others") \
  X(key_file, "", "pre-shared key of security: a file of 32 bytes or 64 hexadecimal digits")                 \
  X(key_update, "8M", "datagrams that one key of security protects before the next one, 16 to 8M")           \
  X(device_name, "mroce0", "name of the device that programs see")                                           \
  X(stats_file, "", "at exit, write statistics as JSON to this file; %p is the process id")                  \
  X(stats_interval, "0", "write that file also every so many milliseconds; 0: at exit only")                 \
  X(trace, "", "write all packets to this pcapng file; %p is the process id")                                \
  X(log, "warn", "what to say on standard error: error, warn, info, debug")

struct Setting {
  std::string_view name;
  std::string_view default_text;
  std::string_view sentence;
};
std::span<const Setting> all_settings();

struct EffectiveValue {
  std::string value;
  std::string origin;  // "default", "environment MROCE_PATHS", "file /etc/mroce.conf:3", "flag --paths"
};

class Settings {
 public:
  Settings();  // every value at its default

  // From the process environment and the file that it names.
  static tl::expected<Settings, std::string> from_environment();
  // The same for a given environment ("NAME=value" strings, ended by nullptr).
  static tl::expected<Settings, std::string> from_environment(const char* const* variables);
  // Overrides by flags, e.g. {"paths", "4"}; the error names cause and hint.
  tl::expected<void, std::string> set(std::string_view name, std::string_view value, std::string_view origin);
  // Checks every value; from_environment() does it already.
  tl::expected<void, std::string> validate() const;

  const EffectiveValue& effective(std::string_view name) const;
  const std::string& text(std::string_view name) const { return effective(name).value; }
  uint64_t number(std::string_view name) const;  // validated: plain numbers, or with suffix K, M, G (binary)
  bool flag(std::string_view name) const;

  // One sentence for each MROCE_… variable of the environment that is no setting: a slip of the pen, not an
  // error.
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  tl::expected<void, std::string> read_file(const std::string& path);

  std::vector<EffectiveValue> values_;  // parallel to all_settings()
  std::vector<std::string> unknown_;
};

}  // namespace mroce::net
