// iproute2: `rdma link`, `rdma statistic` (one long line, or -p with a line for each), and the JSON of rdma,
// ethtool and dcb.
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

void take_port(std::string_view word, Context& context) {
  const size_t slash = word.find('/');
  context.device = std::string(word.substr(0, slash));
  context.netdev.clear();
  const auto number = slash == std::string_view::npos ? std::nullopt : whole_number(word.substr(slash + 1));
  context.port_number = number && *number < 256 ? static_cast<uint32_t>(*number) : 1;
}

void link_words(const std::vector<std::string_view>& words, uint32_t line, Context& context) {
  Port* port = &context.this_port();
  for (size_t i = 2; i + 1 < words.size(); i += 2) {
    if (words[i] == "state") context.set(*port, "link.state", words[i + 1], line);
    if (words[i] == "physical_state") context.set(*port, "link.phys_state", words[i + 1], line);
    if (words[i] == "netdev") {
      const std::string device = context.device;
      port = &context.port(device, context.port_number, words[i + 1]);
    }
  }
}

}  // namespace

size_t read_rdma(const Lines& lines, size_t at, Context& context) {
  if (trim(lines[at]) == "Failed to open NETLINK_RDMA socket") {
    context.problem(lines.numbers[at], "rdma: the kernel has no RDMA (ib_core is not loaded)");
    ++context.understood;
    return at + 1;
  }
  const auto words = words_of(lines[at]);
  if (words.size() < 2 || words[0] != "link" ||
      (!contains(words[1], "/") && !hints_of(words[1]).device.size()))
    return at;
  take_port(words[1], context);
  const uint32_t number = lines.numbers[at];
  ++context.understood;
  if (words.size() > 2 && (words[2] == "state" || words[2] == "subnet_prefix")) {
    link_words(words, number, context);
    return at + 1;
  }
  Port& port = context.this_port();
  // Names may hold blanks ("RNR sent"): a name is all words up to the next number.
  std::string name;
  for (size_t i = 2; i < words.size(); ++i) {
    if (const auto whole = whole_number(words[i]); whole && !name.empty()) {
      context.count(port, "hw_counters", name, *whole, number);
      name.clear();
    } else {
      name += (name.empty() ? "" : " ") + std::string(words[i]);
    }
  }
  size_t next = at + 1;
  for (; next < lines.size(); ++next) {  // -p
    const auto more = words_of(lines[next]);
    if (more.size() < 2 || !whole_number(more.back()) || !lines[next].starts_with(' ')) break;
    const std::string_view all = trim(lines[next]);
    context.count(port, "hw_counters", trim(all.substr(0, all.size() - more.back().size())),
                  *whole_number(more.back()), lines.numbers[next]);
  }
  return next;
}

namespace {

bool link_or_statistic(const JsonValue& item, Context& context) {
  const JsonValue* port_json = item.find("port");
  if (port_json == nullptr || item.find("ifname") == nullptr) return false;
  const auto number = item.number_at("port");
  Port& port = context.port(item.string_at("ifname"),
                            number && *number >= 0 && *number < 256 ? static_cast<uint32_t>(*number) : 1,
                            item.string_at("netdev"));
  if (const JsonValue* state = item.find("state")) context.set(port, "link.state", state->text, state->line);
  if (const JsonValue* state = item.find("physical_state"))
    context.set(port, "link.phys_state", state->text, state->line);
  for (size_t i = 0; i < item.items.size(); ++i) {
    const JsonValue& member = item.items[i];
    if (member.kind != JsonValue::Kind::kNumber || item.names[i] == "port" || item.names[i] == "ifindex" ||
        item.names[i] == "netdev_index")
      continue;
    if (const auto whole = whole_number(member.text))
      context.count(port, "hw_counters", item.names[i], *whole, member.line);
  }
  return true;
}

bool ethtool_pause(const JsonValue& item, Context& context) {
  const JsonValue *rx = item.find("rx"), *tx = item.find("tx");
  if (rx == nullptr || tx == nullptr || item.find("autonegotiate") == nullptr) return false;
  Port& port = context.port("", 1, item.string_at("ifname"));
  context.set(port, "pause.rx", rx->text == "true" ? "on" : "off", rx->line);
  context.set(port, "pause.tx", tx->text == "true" ? "on" : "off", tx->line);
  if (const JsonValue* counts = item.find("statistics"); counts != nullptr && counts->is_object())
    for (size_t i = 0; i < counts->items.size(); ++i)
      if (const auto whole = whole_number(counts->items[i].text))
        context.count(port, "pause", counts->names[i], *whole, counts->items[i].line);
  return true;
}

bool dcb_pfc(const JsonValue& item, Context& context) {
  const JsonValue* enabled = item.find("prio_pfc");
  if (enabled == nullptr || !enabled->is_array()) return false;
  Port& port =
      context.port("", 1, item.find("ifname") != nullptr ? item.string_at("ifname") : context.netdev);
  std::string list;
  for (size_t i = 0; i < enabled->items.size() && i < 8; ++i)
    if (enabled->items[i].text == "true") list += (list.empty() ? "" : ",") + std::to_string(i);
  context.set(port, "pfc.enabled", list.empty() ? "none" : list, enabled->line);
  for (const char* name : {"requests", "indications"}) {
    const JsonValue* counts = item.find(name);
    if (counts == nullptr) continue;
    uint64_t sum = 0;
    for (const JsonValue& count : counts->items) sum += whole_number(count.text).value_or(0);
    context.count(port, "dcb", name, sum, counts->line);
  }
  return true;
}

bool ip_link(const JsonValue& item, Context& context) {
  const JsonValue* mtu = item.find("mtu");
  if (mtu == nullptr || item.find("ifname") == nullptr || item.find("flags") == nullptr) return false;
  if (item.string_at("link_type") == "loopback") return true;
  context.set(context.port("", 1, item.string_at("ifname")), "mtu.netdev", mtu->text, mtu->line);
  return true;
}

}  // namespace

bool read_rdma_json(const JsonValue& value, Context& context) {
  bool any = false;
  const auto one = [&](const JsonValue& item) {
    any = link_or_statistic(item, context) || ethtool_pause(item, context) || dcb_pfc(item, context) ||
          ip_link(item, context) || any;
  };
  if (value.is_object()) one(value);
  if (value.is_array())
    for (const JsonValue& item : value.items)
      if (item.is_object()) one(item);
  return any;
}

}  // namespace mroce::doctor
