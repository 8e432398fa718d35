// ethtool: -S (ioctl statistics), the link, pause, driver and FEC pages.
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

// "     rx_prio3_pause: 12": split at the last ": ", as names may hold colons and blanks.
bool name_and_value(std::string_view line, std::string_view& name, std::string_view& value) {
  size_t colon = line.rfind(": ");
  if (colon == std::string_view::npos) {
    colon = line.rfind(':');
    if (colon == std::string_view::npos || colon + 1 >= line.size()) return false;
  }
  name = trim(line.substr(0, colon));
  value = trim(line.substr(colon + 1));
  return !name.empty() && !value.empty() && name.size() <= 64;
}

// Rings: "[0]: rx_ucast_packets: 5". Their counters are not ours.
bool counts(std::string_view line, Context& context, Port& port, uint32_t number, std::string_view from) {
  std::string_view name, value;
  if (!name_and_value(line, name, value)) return false;
  const auto whole = whole_number(value);
  if (!whole) return real_number(value).has_value() || value == "N/A" || value == "18446744073709551615";
  context.count(port, from, name, *whole, number);
  return true;
}

// Of a name that stands alone, without "NIC statistics:" before it.
std::string_view place_of(const Context& context, std::string_view name) {
  const auto matches = context.book.vendors.find("", "", name);
  for (const auto& match : matches)
    if (match.entry->from == "ethtool") return "ethtool";
  return matches.empty() ? std::string_view() : std::string_view(matches.front().entry->from);
}

}  // namespace

size_t read_ethtool_stats(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = trim(lines[at]);
  if (line == "no stats available" || line.starts_with("netlink error: ")) {
    ++context.understood;
    return at + 1;
  }
  if (line == "NIC statistics:") {
    Port& port = context.this_port();
    size_t next = at + 1;
    while (next < lines.size() && counts(lines[next], context, port, lines.numbers[next], "ethtool")) ++next;
    context.understood += next - at;
    // Whole dumps end with a line feed.
    const size_t last = lines.size() - 1;
    const bool cut = next >= last && lines.truncated_last && !lines[last].empty();
    if (cut)
      context.problem(lines.numbers[last], "the text ends in the middle of a line: the dump is not complete");
    if (next - at > 100 && !cut) port.complete_dump = true;
    return next;
  }
  std::string_view name, value;
  if (!name_and_value(line, name, value) || contains(name, "/")) return at;
  const auto whole = whole_number(value);
  if (!whole) return at;
  const std::string_view from = place_of(context, name);
  if (from.empty()) return at;
  context.count(context.this_port(), from, name, *whole, lines.numbers[at]);
  ++context.understood;
  return at + 1;
}

namespace {

std::string_view value_of(std::string_view line, std::string_view key) {
  line = trim(line);
  if (!line.starts_with(key)) return {};
  return trim(line.substr(key.size()));
}

void take_netdev(Context& context, std::string_view name) {
  name = trim(name);
  if (name.ends_with(':')) name.remove_suffix(1);
  context.netdev = std::string(name);
  context.device.clear();
}

void pause_page(const Lines& lines, size_t& next, Context& context) {
  Port& port = context.this_port();
  for (; next < lines.size() && contains(lines[next], ":"); ++next) {
    const uint32_t number = lines.numbers[next];
    if (const auto rx = value_of(lines[next], "RX:"); !rx.empty()) context.set(port, "pause.rx", rx, number);
    if (const auto tx = value_of(lines[next], "TX:"); !tx.empty()) context.set(port, "pause.tx", tx, number);
    std::string_view name, value;
    if (name_and_value(lines[next], name, value))
      if (const auto whole = whole_number(value)) context.count(port, "pause", name, *whole, number);
  }
}

}  // namespace

size_t read_ethtool(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = trim(lines[at]);
  const uint32_t number = lines.numbers[at];
  const auto done = [&](size_t next) {
    context.understood += next - at;
    return next;
  };
  if (const auto name = value_of(line, "Pause parameters for "); !name.empty()) {
    take_netdev(context, name);
    size_t next = at + 1;
    pause_page(lines, next, context);
    return done(next);
  }
  for (const std::string_view head : {"Settings for ", "FEC parameters for "}) {
    if (const auto name = value_of(line, head); !name.empty()) {
      take_netdev(context, name);
      return done(at + 1);
    }
  }
  if (const auto speed = value_of(line, "Speed:"); !speed.empty() && contains(speed, "b/s")) {
    if (const auto mbps = leading_number(speed))
      context.set(context.this_port(), "link.rate_gbps", std::to_string(*mbps / 1000), number);
    return done(at + 1);
  }
  if (const auto link = value_of(line, "Link detected:"); !link.empty()) {
    context.set(context.this_port(), "netdev.carrier", link == "yes" ? "1" : "0", number);
    return done(at + 1);
  }
  if (const auto driver = value_of(line, "driver:"); !driver.empty() && words_of(driver).size() == 1) {
    context.set(context.this_port(), "driver.name", driver, number);
    size_t next = at + 1;
    for (; next < lines.size() && contains(lines[next], ":"); ++next) {
      if (const auto version = value_of(lines[next], "version:"); !version.empty())
        context.set(context.this_port(), "driver.version", version, lines.numbers[next]);
      if (const auto version = value_of(lines[next], "firmware-version:"); !version.empty())
        context.set(context.this_port(), "firmware", version, lines.numbers[next]);
    }
    return done(next);
  }
  if (const auto fec = value_of(line, "Active FEC encoding"); !fec.empty()) {
    context.set(context.this_port(), "fec.active", trim(after(fec, ":")), number);
    return done(at + 1);
  }
  return at;
}

}  // namespace mroce::doctor
