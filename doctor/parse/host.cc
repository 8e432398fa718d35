// What concerns the host: limits, environment, GIDs, modules, GPUs, the kernel's log.
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

bool environment(std::string_view line, uint32_t number, Context& context) {
  if (line.starts_with("export ")) line.remove_prefix(7);
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos || equals < 5 || equals > 60) return false;
  const std::string_view name = line.substr(0, equals);
  if (!name.starts_with("NCCL_") && !name.starts_with("UCX_") && !name.starts_with("RCCL_") &&
      !name.starts_with("FI_"))
    return false;
  if (contains(name, " ")) return false;
  std::string_view value = line.substr(equals + 1);
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\''))
    value = value.substr(1, value.size() - 2);
  context.set_host("env." + std::string(name), value, number);
  return true;
}

bool gids(const std::vector<std::string_view>& words, uint32_t number, Context& context) {
  // DEV PORT INDEX GID [IPv4] VER [DEV]
  // The address is there if the GID is made of one; the netdev is missing if it is in another namespace.
  if (words.size() < 5 || words.size() > 7 || !contains(words[3], ":")) return false;
  const auto is_version = [](std::string_view word) { return word == "v1" || word == "v2"; };
  const size_t at = is_version(words[4]) ? 4 : 5;
  if (at >= words.size() || !is_version(words[at]) || words.size() > at + 2) return false;
  const std::string_view version = words[at], netdev = at + 1 < words.size() ? words[at + 1] : "";
  const auto port_number = whole_number(words[1]);
  if (!port_number || *port_number > 255 || !whole_number(words[2])) return false;
  Port& port = context.port(words[0], static_cast<uint32_t>(*port_number), netdev);
  const std::string index(words[2]);
  context.set(port, "gid." + index + ".type", version == "v2" ? "RoCE v2" : "IB/RoCE v1", number);
  context.set(port, "gid." + index + ".address", at == 5 ? words[4] : words[3], number);
  return true;
}

bool kernel_log(std::string_view line, uint32_t number, Context& context) {
  if (contains(line, "NVRM: Xid")) return context.event("xid", line, number), true;
  if (contains(line, "Link down") || contains(line, "Link is Down") || contains(line, "link down"))
    return context.event("link-down", line, number), true;
  if (contains(line, "DMAR: DRHD") || contains(line, "AMD-Vi: Event logged"))
    return context.event("iommu-fault", line, number), true;
  return false;
}

bool gpu(std::string_view line, uint32_t number, Context& context) {
  const std::string_view name = trim(before(line, ":")), value = trim(after(line, ":"));
  if (value.empty()) return false;
  if ((name == "HW Slowdown" || name == "HW Thermal Slowdown" || name == "SW Thermal Slowdown" ||
       name == "HW Power Brake Slowdown") &&
      (value == "Active" || value == "Not Active")) {
    if (value == "Active" || last_setting(context.this_host().settings, "gpu.throttle") == nullptr)
      context.set_host("gpu.throttle", value == "Active" ? name : "none", number);
    return true;
  }
  struct Known {
    std::string_view text, name;
  };
  static constexpr std::array kKnown = {
      Known{"utilization.gpu", "gpu.util_pct"}, Known{"SM_ACTIVE", "gpu.sm_active_pct"},
      Known{"DCGM_FI_PROF_SM_ACTIVE", "gpu.sm_active_pct"}, Known{"DCGM_FI_DEV_GPU_UTIL", "gpu.util_pct"},
      Known{"DCGM_FI_DEV_XID_ERRORS", "gpu.xid"}};
  for (const Known& known : kKnown) {
    if (name != known.text) continue;
    auto number_in = leading_number(value);
    if (!number_in) return false;
    // DCGM gives activity as a share of one.
    if (known.name == "gpu.sm_active_pct" && *number_in <= 1.0) *number_in *= 100;
    context.set_host(known.name, std::to_string(*number_in), number);
    return true;
  }
  return false;
}

}  // namespace

size_t read_host(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = trim(lines[at]);
  if (line.empty()) return at;
  const uint32_t number = lines.numbers[at];
  const auto done = [&] {
    ++context.understood;
    return at + 1;
  };
  if (environment(line, number, context) || kernel_log(line, number, context) || gpu(line, number, context))
    return done();
  const auto words = words_of(line);
  if (gids(words, number, context) || line.starts_with("n_gids_found=")) return done();
  if (line.starts_with("Max locked memory") || line.starts_with("max locked memory")) {
    for (const auto word : words)
      if (word == "unlimited" || whole_number(word)) {
        context.set_host("memlock", word, number);
        break;
      }
    return done();
  }
  if (words.size() >= 2 && (words[0] == "nvidia_peermem" || words[0] == "nv_peer_mem") &&
      whole_number(words[1])) {
    context.set_host("peermem", "1", number);
    return done();
  }
  // A note of the one who collected: "duration: 60 s", "elapsed 10".
  if (line.starts_with("duration:") || line.starts_with("elapsed:")) {
    if (const auto seconds = leading_number(after(line, ":")); seconds && *seconds > 0) {
      context.evidence.seconds = seconds;
      context.evidence.seconds_where = context.where(number);
      return done();
    }
  }
  return at;
}

}  // namespace mroce::doctor
