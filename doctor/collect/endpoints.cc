#include "doctor/collect/endpoints.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr uint32_t kFirstPort = 61440, kPorts = 256;
constexpr size_t kMaxStatistics = 4u << 20;  // bytes of one file
constexpr size_t kMaxProcesses = 64;

// "0100007F" → 127.0.0.1: words of four bytes, each as this machine keeps it in memory.
std::string address_of(std::string_view hex) {
  hex = before(hex, ":");
  std::array<unsigned char, 16> bytes{};
  if (hex.size() != 8 && hex.size() != 32) return "?";
  for (size_t i = 0; i < hex.size() / 8; ++i) {
    uint32_t word = 0;
    std::from_chars(hex.data() + 8 * i, hex.data() + 8 * i + 8, word, 16);
    std::memcpy(bytes.data() + 4 * i, &word, sizeof word);
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(hex.size() == 8 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
  return text.data();
}

// "0100007F:F000" → 61440
uint32_t port_of(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return 0;
  const std::string_view hex = address.substr(colon + 1);
  uint32_t port = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), port, 16);
  return port;
}

bool put_sockets(const Tree& tree, TaskOutput& out) {
  bool any = false;
  for (const char* table : {"/proc/net/udp", "/proc/net/udp6"}) {
    const auto text = tree.read(table, 1u << 20);
    if (!text) continue;
    for (const std::string_view line : split(*text, '\n')) {
      const auto words = words_of(line);
      if (words.size() < 13) continue;
      const uint32_t port = port_of(words[1]);
      if (port < kFirstPort || port >= kFirstPort + kPorts) continue;
      any = true;
      out.line(fmt::format("socket port {} local {} queued {} drops {}", port, address_of(words[1]), words[4],
                           words[12]));
    }
  }
  return any;
}

std::string variable_of(std::string_view environment, std::string_view name) {
  for (const std::string_view variable : split(environment, '\0'))
    if (variable.starts_with(name) && variable.size() > name.size() && variable[name.size()] == '=')
      return std::string(variable.substr(name.size() + 1));
  return {};
}

std::string for_process(std::string pattern, const std::string& pid) {
  for (size_t at = pattern.find("%p"); at != std::string::npos; at = pattern.find("%p", at + pid.size()))
    pattern.replace(at, 2, pid);
  return pattern;
}

// The drop-in library is a libibverbs that carries our name in its folder, or in the folder that the program
// was started with; the distribution's has neither.
bool has_endpoint(const Tree& tree, const std::string& process, std::string& environment) {
  const auto maps = tree.read(process + "/maps", 1u << 20);
  if (!maps || !contains(*maps, "/libibverbs.so")) return false;
  environment = tree.read(process + "/environ", 1u << 20).value_or("");
  if (contains(*maps, "/mroce/libibverbs.so")) return true;
  const std::string library_path = variable_of(environment, "LD_LIBRARY_PATH");
  const std::string first(before(library_path, ":"));
  return !first.empty() && contains(*maps, first + "/libibverbs.so");
}

}  // namespace

void read_endpoints(const Tree& tree, TaskOutput& out) {
  if (!put_sockets(tree, out)) return out.missing("", "no process has one");
  size_t found = 0;
  for (const std::string& name : tree.names("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos || found == kMaxProcesses) continue;
    const std::string process = "/proc/" + name;
    std::string environment;
    if (!has_endpoint(tree, process, environment)) continue;
    ++found;
    out.line(fmt::format("process {} {}", name, trim(tree.read(process + "/comm", 64).value_or("?"))));
    const std::string pattern = variable_of(environment, "MROCE_STATS_FILE");
    if (!pattern.starts_with('/') || variable_of(environment, "MROCE_STATS_INTERVAL").empty()) continue;
    const std::string file = for_process(pattern, name);
    const auto statistics = tree.read(file, kMaxStatistics);
    if (statistics)
      out.line(trim(*statistics));
    else
      out.missing(file, statistics.error());
  }
}

void read_statistics_folder(const std::string& folder, TaskOutput& out) {
  const Tree machine;
  for (const std::string& name : machine.names(folder)) {
    if (!name.ends_with(".json")) continue;
    const auto text = machine.read(folder + "/" + name, kMaxStatistics);
    if (text)
      out.line(trim(*text));
    else
      out.missing(name, text.error());
  }
}

}  // namespace mroce::doctor
