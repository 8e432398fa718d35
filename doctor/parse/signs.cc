// What single files of sysfs and procfs say of the host as a whole, and the sockets of mroce's endpoints.
//
// The IOMMU: none, or what it does to most devices. Of the types that the kernel gives to groups, "identity"
// passes addresses through, "DMA" and "DMA-FQ" translate them; the strictest one that was seen counts. A
// container: one of the files that container managers leave in it is enough.
#include <algorithm>

#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxValue = 200;

// Names in the order of how much they are in the way of a device that wants to reach another.
constexpr std::array<std::string_view, 4> kIommu = {"off", "on", "pass-through", "translated"};

void iommu(std::string_view seen, uint32_t line, Context& context) {
  const Setting* known = last_setting(context.this_host().settings, "iommu");
  const auto rank = [](std::string_view name) { return std::find(kIommu.begin(), kIommu.end(), name); };
  if (known == nullptr || rank(seen) > rank(known->text)) context.set_host("iommu", seen, line);
}

bool iommu_sign(std::string_view path, std::string_view value, uint32_t line, Context& context) {
  if (path == "/sys/class/iommu" && value == "none") return iommu("off", line, context), true;
  if (path.starts_with("/sys/class/iommu/") && value == "present") return iommu("on", line, context), true;
  if (path != "/sys/kernel/iommu_groups/type") return path == "/sys/kernel/iommu_groups";
  if (value == "identity") iommu("pass-through", line, context);
  if (value == "DMA" || value == "DMA-FQ") iommu("translated", line, context);
  return true;
}

bool container_sign(std::string_view path, std::string_view value, uint32_t line, Context& context) {
  for (const std::string_view file : {"/.dockerenv", "/run/.containerenv", "/run/systemd/container"}) {
    if (path != file || (value != "present" && value != "absent")) continue;
    const bool known = last_setting(context.this_host().settings, "container") != nullptr;
    if (value == "present" || !known) context.set_host("container", value == "present" ? "1" : "0", line);
    return true;
  }
  if (path == "/dev/infiniband") {
    size_t files = 0;
    for (const std::string_view name : words_of(value)) files += name.starts_with("uverbs") ? 1 : 0;
    context.set_host("verbs.files", std::to_string(files), line);
    return true;
  }
  if (path == "/proc/self/status" && value.starts_with("CapEff=")) {
    constexpr uint64_t kIpcLock = uint64_t{1} << 14;  // may lock any amount of memory
    if (const auto bits = whole_number("0x" + std::string(value.substr(7))))
      context.set_host("capability.ipc_lock", (*bits & kIpcLock) != 0 ? "1" : "0", line);
    return true;
  }
  return false;
}

// "/sys/module/mlx5_core:live", "/sys/module/mlx5_core/version:…", "/sys/module/mlx5_core/parameters/x:…"
bool module_sign(std::string_view path, std::string_view value, uint32_t line, Context& context) {
  constexpr std::string_view kFolder = "/sys/module/";
  if (!path.starts_with(kFolder)) return false;
  const auto parts = split(path.substr(kFolder.size()), '/');
  const std::string name = "module." + std::string(parts[0]) + ".";
  if (parts.size() == 1 && value == "live" && (parts[0] == "nvidia_peermem" || parts[0] == "nv_peer_mem"))
    context.set_host("peermem", "1", line);
  if (parts.size() == 2 && parts[1] == "version")
    context.set_host(name + "version", value.substr(0, kMaxValue), line);
  if (parts.size() == 3 && parts[1] == "parameters")
    context.set_host(name + std::string(parts[2]), value.substr(0, kMaxValue), line);
  return true;
}

}  // namespace

bool set_host_sign(std::string_view path, std::string_view value, uint32_t line, Context& context) {
  return iommu_sign(path, value, line, context) || container_sign(path, value, line, context) ||
         module_sign(path, value, line, context);
}

// Lines that follow each other are of one moment: their sum is one reading.
size_t read_mroce_sockets(const Lines& lines, size_t at, Context& context) {
  uint64_t drops = 0;
  size_t next = at;
  for (; next < lines.size(); ++next) {
    const auto words = words_of(lines[next]);
    if (words.size() != 9 || words[0] != "socket" || words[1] != "port" || words[7] != "drops") break;
    const auto count = whole_number(words[8]);
    if (!count || *count > UINT32_MAX) break;  // the kernel counts in 32 bits
    drops += *count;
  }
  if (next == at) return at;
  Port& port = context.port("mroce0", 1, "");
  port.vendor = "mroce";
  context.count(port, "mroce", "socket_drops", drops, lines.numbers[at]);
  context.understood += next - at;
  return next;
}

}  // namespace mroce::doctor
