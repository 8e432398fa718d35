// Listings of sysfs: "path:value" of `grep -r . FOLDER`, or single files of a bundle.
#include <algorithm>

#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

struct Path {
  std::vector<std::string_view> parts;
  // The part behind `name`, or empty.
  std::string_view behind(std::string_view name) const {
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      if (parts[i] == name) return parts[i + 1];
    return {};
  }
  bool has(std::string_view name) const { return std::find(parts.begin(), parts.end(), name) != parts.end(); }
  std::string_view last() const { return parts.back(); }
};

std::string_view before_of(const Path& path, std::string_view name) {
  for (size_t i = 1; i < path.parts.size(); ++i)
    if (path.parts[i] == name) return path.parts[i - 1];
  return {};
}

uint32_t port_number(const Path& path) {
  const auto number = whole_number(path.behind("ports"));
  return number && *number < 256 ? static_cast<uint32_t>(*number) : 1;
}

// "BadTLP 3": what the kernel's Advanced Error Reporting has counted, a line for each kind.
void reported_errors(std::string_view file, std::string_view value, Port& port, uint32_t line,
                     Context& context) {
  const auto words = words_of(value);
  if (words.size() != 2) return;
  if (const auto count = whole_number(words[1]))
    context.count(port, "aer", std::string(file) + " " + std::string(words[0]), *count, line);
}

void pcie(const Path& path, std::string_view value, Port& port, uint32_t line, Context& context) {
  if (path.last().starts_with("aer_dev_")) return reported_errors(path.last(), value, port, line, context);
  // A link to the physical function is there for virtual ones only.
  if (path.last() == "physfn") context.set(port, "function.virtual", "1", line);
  if (path.last() == "type" && path.has("iommu_group")) context.set(port, "iommu.type", value, line);
  const auto number = leading_number(value);
  if (!number) return;
  const std::string text = std::to_string(*number);
  if (path.last() == "current_link_width") context.set(port, "pcie.width", text, line);
  if (path.last() == "max_link_width") context.set(port, "pcie.width_max", text, line);
  if (path.last() == "current_link_speed") context.set(port, "pcie.speed_gts", text, line);
  if (path.last() == "max_link_speed") context.set(port, "pcie.speed_max_gts", text, line);
  if (path.last() == "numa_node") context.set(port, "numa.node", value, line);
}

void gid(const Path& path, std::string_view value, Port& port, uint32_t line, Context& context) {
  const std::string index(path.last());
  if (path.behind("gid_attrs") == "types") context.set(port, "gid." + index + ".type", value, line);
  if (path.behind("gid_attrs") == "ndevs") {
    context.set(port, "gid." + index + ".netdev", value, line);
    if (port.netdev.empty()) port.netdev = std::string(value);
  }
  if (!path.has("gid_attrs") && path.has("gids") && value != "0000:0000:0000:0000:0000:0000:0000:0000")
    context.set(port, "gid." + index + ".address", value, line);
}

void rdma_port(const Path& path, std::string_view device, std::string_view value, uint32_t line,
               Context& context) {
  Port& port = context.port(device, port_number(path), "");
  const std::string_view last = path.last();
  const bool of_port = path.has("ports");
  for (const std::string_view folder : {"hw_counters", "counters"}) {
    if (!path.has(folder)) continue;
    const auto whole = whole_number(value);
    if (whole)
      context.count(port, folder == "hw_counters" && !of_port ? "dev_hw_counters" : folder, last, *whole,
                    line);
    return;
  }
  if (of_port && last == "state") context.set(port, "link.state", trim(after(value, ":")), line);
  if (of_port && last == "phys_state") context.set(port, "link.phys_state", trim(after(value, ":")), line);
  if (of_port && last == "link_layer") context.set(port, "link.layer", value, line);
  if (of_port && last == "rate")
    if (const auto rate = leading_number(value))
      context.set(port, "link.rate_gbps", std::to_string(*rate), line);
  if (last == "fw_ver") context.set(port, "firmware", value, line);
  if (path.has("gids") || path.has("gid_attrs")) gid(path, value, port, line, context);
  pcie(path, value, port, line, context);
}

void net_port(const Path& path, std::string_view netdev, std::string_view value, uint32_t line,
              Context& context) {
  Port& port = context.port("", 1, netdev);
  const std::string_view last = path.last();
  if (path.has("statistics") || last == "carrier_changes" || last == "carrier_down_count") {
    if (const auto whole = whole_number(value)) context.count(port, "netdev", last, *whole, line);
    return;
  }
  if (last == "mtu") context.set(port, "mtu.netdev", value, line);
  if (last == "operstate") context.set(port, "netdev.operstate", value, line);
  if (last == "carrier") context.set(port, "netdev.carrier", value, line);
  if (last == "speed")
    if (const auto mbps = real_number(value); mbps && *mbps > 0)
      context.set(port, "link.rate_gbps", std::to_string(*mbps / 1000), line);
  if (path.has("roce_np") && path.has("enable"))
    context.set(port, "ecn.np." + std::string(last), value, line);
  if (path.has("roce_rp") && path.has("enable"))
    context.set(port, "ecn.rp." + std::string(last), value, line);
  pcie(path, value, port, line, context);
}

}  // namespace

void set_sysfs(std::string_view path_text, std::string_view value, uint32_t line, Context& context) {
  Path path{split(path_text, '/')};
  if (path.parts.size() < 2 || value.empty()) return;
  value = trim(value);
  if (path.last() == "boot_id") return context.set_host("boot.id", value, line);
  if (path.last() == "osrelease") return context.set_host("kernel", value, line);
  if (set_host_sign(path_text, value, line, context)) {
    ++context.understood;
    return;
  }
  std::string_view device = path.behind("infiniband");
  if (device.empty()) device = before_of(path, "ports");
  if (device.empty() && (path.has("hw_counters") || path.has("counters")) && path.parts.size() >= 3) {
    // "mlx5_0/hw_counters/x"
    const std::string_view folder = path.has("hw_counters") ? "hw_counters" : "counters";
    device = before_of(path, folder);
  }
  if (device.empty() && (path.has("hw_counters") || path.has("counters"))) device = context.device;
  if (!device.empty() || path.has("hw_counters") || path.has("counters")) {
    ++context.understood;
    return rdma_port(path, device, value, line, context);
  }
  std::string_view netdev = path.behind("net");
  if (netdev.empty()) netdev = before_of(path, "statistics");
  if (!netdev.empty()) {
    ++context.understood;
    net_port(path, netdev, value, line, context);
  }
}

size_t read_sysfs(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = trim(lines[at]);
  const size_t slash = line.find('/');
  if (slash == std::string_view::npos || contains(line.substr(0, slash), " ")) return at;
  // Paths of PCI devices hold colons: the value begins behind the colon that follows the last slash.
  // Values may hold slashes ("IB/RoCE v1", "16.0 GT/s PCIe"): look for the first colon behind a name that we
  // know.
  size_t colon = std::string_view::npos;
  for (size_t i = line.find(':'); i != std::string_view::npos; i = line.find(':', i + 1)) {
    const bool pci =
        i + 3 < line.size() && line.find('/', i) != std::string_view::npos && i >= 2 &&
        line.substr(i + 1, 3).find_first_not_of("0123456789abcdef:.") == std::string_view::npos &&
        contains(line.substr(0, i), "/devices/");
    if (pci) continue;
    colon = i;
    break;
  }
  if (colon == std::string_view::npos || colon < slash) {
    // "path value"
    const auto words = words_of(line);
    if (words.size() != 2 || !whole_number(words[1])) return at;
    set_sysfs(words[0], words[1], lines.numbers[at], context);
    return at + 1;
  }
  const uint64_t before_count = context.understood;
  set_sysfs(line.substr(0, colon), line.substr(colon + 1), lines.numbers[at], context);
  return context.understood > before_count ? at + 1 : at;
}

}  // namespace mroce::doctor
