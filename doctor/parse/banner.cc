// Lines that say whose output follows: "==> path <==", "nodeA | CHANGED | rc=0 >>", "$ ethtool -S eth0", "###
// after ###".
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

bool is_banner_char(char c) {
  return c == '#' || c == '=' || c == '-' || c == '*' || c == '[' || c == ']' || c == ' ' || c == '>' ||
         c == '<' || c == ':' || c == '+';
}

// "ethtool -S eth0", "mlnx_qos -i eth0", "ibstat mlx5_0": the last word names the port.
bool command_line(std::string_view line, Context& context) {
  static constexpr auto kTools = std::to_array<std::string_view>(
      {"ethtool", "rdma", "mlnx_qos", "dcb",         "ibstat",     "ibv_devinfo", "show_gids",
       "cat",     "grep", "lspci",    "ib_write_bw", "ib_read_bw", "ib_send_bw",  "ulimit",
       "show",    "nv",   "dcgmi",    "nvidia-smi",  "rocm-smi",   "amd-smi"});
  const auto words = words_of(line);
  if (words.empty() || words.size() > 24) return false;
  for (const auto tool : kTools) {
    if (words[0] != tool) continue;
    const NameHints hints = hints_of(words.back());
    if (tool == "nv") {  // nv show interface swp1 qos roce counters
      if (words.size() > 3 && words[2] == "interface") context.netdev = std::string(words[3]);
      return words.size() > 2 && words[1] == "show";
    }
    if (tool == "show") return words.size() > 1;
    if (tool == "ethtool" || tool == "mlnx_qos" || tool == "dcb") {
      if (words.size() > 1 && !words.back().starts_with('-')) {
        context.netdev = std::string(words.back());
        context.device.clear();
      }
    } else if (!hints.device.empty()) {
      context.device = hints.device;
      context.netdev.clear();
    }
    return true;
  }
  return false;
}

}  // namespace

size_t read_banner(const Lines& lines, size_t at, Context& context) {
  std::string_view line = trim(lines[at]);
  if (line.empty() || line.size() > 200) return at;
  if (contains(line, "Waiting for client to connect")) return at + 1;  // of perftest's server, in stars
  if (line.starts_with("==> ") && line.ends_with(" <==")) {            // of `tail -n +1 FILES`
    const std::string_view path = trim(line.substr(4, line.size() - 8));
    size_t next = at + 1;
    while (next < lines.size() && trim(lines[next]).empty()) ++next;
    if (next < lines.size() && contains(path, "/")) {
      set_sysfs(path, trim(lines[next]), lines.numbers[next], context);
      return next + 1;
    }
    return at + 1;
  }
  if (const size_t bar = line.find(" | ");
      bar != std::string_view::npos && line.ends_with(">>")) {  // ansible
    context.host = std::string(trim(line.substr(0, bar)));
    context.role = Role::kUnknown;
    return at + 1;
  }
  // "user@node:~$ command", "# command", "$ command", "+ command"
  for (const std::string_view mark : {"$ ", "# ", "+ ", "> "}) {
    const size_t begin = line.find(mark);
    if (begin == std::string_view::npos || begin > 60) continue;
    const std::string_view prompt = line.substr(0, begin);
    if (!prompt.empty() && !contains(prompt, "@") && !contains(prompt, "#")) continue;
    if (!command_line(trim(line.substr(begin + mark.size())), context)) continue;
    if (contains(prompt, "@"))
      context.host = std::string(before(before(before(after(prompt, "@"), ":"), " "), "]"));
    return at + 1;
  }
  for (const std::string_view tool : {"taskset ", "numactl "})
    if (contains(line.substr(0, 80), tool) && contains(line, "ib_")) {
      context.variant += " pinned";
      return at + 1;
    }
  if (command_line(line, context)) return at + 1;
  // "### nodeA before ###", "--- after ---"
  const bool framed =
      line.size() <= 80 && line.size() > 4 && is_banner_char(line[0]) && is_banner_char(line[1]);
  if (!framed) return at;
  while (!line.empty() && is_banner_char(line.front())) line.remove_prefix(1);
  while (!line.empty() && is_banner_char(line.back())) line.remove_suffix(1);
  if (line.empty() || words_of(line).size() > 6) return at;
  const NameHints hints = hints_of(line);
  if (hints.phase == Phase::kUnknown && hints.role == Role::kUnknown) {
    command_line(line, context);
    return at;
  }
  if (hints.phase != Phase::kUnknown) context.phase = hints.phase;
  if (hints.role != Role::kUnknown) {
    context.role = hints.role;
    context.host = hints.host;
  }
  return at + 1;
}

}  // namespace mroce::doctor
