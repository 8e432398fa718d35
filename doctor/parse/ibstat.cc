// ibstat and ibv_devinfo.
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

std::string_view value_of(std::string_view line, std::string_view key) {
  line = trim(line);
  if (!line.starts_with(key)) return {};
  line = trim(line.substr(key.size()));
  return line.starts_with(':') ? trim(line.substr(1)) : std::string_view();
}

void take_port_line(std::string_view line, uint32_t number, Context& context) {
  Port& port = context.this_port();
  const auto set = [&](std::string_view key, std::string_view name) {
    if (const auto value = value_of(line, key); !value.empty()) context.set(port, name, value, number);
  };
  set("State", "link.state");
  set("Physical state", "link.phys_state");
  set("Link layer", "link.layer");
  if (const auto rate = leading_number(value_of(line, "Rate")))
    context.set(port, "link.rate_gbps", std::to_string(*rate), number);
  set("link_layer", "link.layer");
  const auto mtu = [&](std::string_view key, std::string_view name) {  // "4096 (5)"
    if (const auto bytes = leading_number(value_of(line, key)))
      context.set(port, name, std::to_string(*bytes), number);
  };
  mtu("active_mtu", "mtu.active");
  mtu("max_mtu", "mtu.max");
  if (const auto state = value_of(line, "state"); state.starts_with("PORT_"))
    context.set(port, "link.state", before(state.substr(5), " "), number);
  if (const auto speed = value_of(line, "fw_ver"); !speed.empty())
    context.set(port, "firmware", speed, number);
}

// "GID[  3]:  ::ffff:10.0.0.7, RoCE v2" of ibv_devinfo -v.
void take_gid(std::string_view line, uint32_t number, Context& context) {
  if (!line.starts_with("GID[")) return;
  const auto index = whole_number(before(line.substr(4), "]"));
  const std::string_view value = trim(after(line, "]:"));
  if (!index || *index > 65535 || value.empty()) return;
  const std::string name = "gid." + std::to_string(*index);
  context.set(context.this_port(), name + ".address", trim(before(value, ",")), number);
  const std::string_view type = trim(after(value, ","));
  if (type == "RoCE v2") context.set(context.this_port(), name + ".type", type, number);
  if (type == "RoCE v1" || type == "IB/RoCE v1")
    context.set(context.this_port(), name + ".type", "IB/RoCE v1", number);
}

}  // namespace

size_t read_ibstat(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = trim(lines[at]);
  std::string device;
  if (line.starts_with("ibpanic:") || line.starts_with("ibwarn:")) {
    context.problem(lines.numbers[at], "infiniband-diags: " + std::string(line.substr(0, 200)));
    ++context.understood;
    return at + 1;
  }
  if (line.starts_with("CA '") && line.size() > 5) device = std::string(before(line.substr(4), "'"));
  if (line.starts_with("hca_id:")) device = std::string(trim(line.substr(7)));
  if (device.empty()) return at;
  context.device = device;
  context.netdev.clear();
  context.port_number = 1;
  size_t next = at + 1;
  for (; next < lines.size(); ++next) {
    const std::string_view raw = lines[next], more = trim(raw);
    if (more.empty()) continue;
    if ((!raw.starts_with(' ') && !raw.starts_with('\t')) || more.starts_with("CA '") ||
        more.starts_with("hca_id:"))
      break;
    const auto port =
        more.starts_with("Port ") ? leading_number(more.substr(5)) : leading_number(value_of(more, "port"));
    if (port && *port >= 1 && *port < 256) context.port_number = static_cast<uint32_t>(*port);
    if (const auto firmware = value_of(more, "Firmware version"); !firmware.empty())
      context.set(context.this_port(), "firmware", firmware, lines.numbers[next]);
    take_gid(more, lines.numbers[next], context);
    take_port_line(more, lines.numbers[next], context);
  }
  context.understood += next - at;
  return next;
}

}  // namespace mroce::doctor
