// SONiC: `show pfcwd stats`, `show pfc counters`. A switch counts from its own side: what it sends toward a
// host, the host receives.
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

constexpr std::string_view kSwitch = "switch";

// "Ethernet4:3  stormed  1/0  0/0  0/41507426 …"
bool pfcwd_row(const std::vector<std::string_view>& words, uint32_t number, Context& context) {
  if (words.size() < 3 || !words[0].starts_with("Ethernet") || !contains(words[0], ":")) return false;
  if (words[1] != "stormed" && words[1] != "operational") return false;
  if (context.host.empty()) context.host = kSwitch;
  context.role = Role::kSwitch;
  Port& port = context.port("", 1, before(words[0], ":"));
  if (const auto storms = whole_number(before(words[2], "/")))
    context.count(port, "pfcwd", "storm_detected", *storms, number);
  context.event(words[1] == "stormed" ? "pfc-storm" : "pfcwd-operational", words[0], number);
  context.evidence.events.back().status =
      static_cast<double>(whole_number(before(words[2], "/")).value_or(0));
  return true;
}

}  // namespace

size_t read_switch(const Lines& lines, size_t at, Context& context) {
  const auto words = words_of(lines[at]);
  if (words.size() < 3 || !pfcwd_row(words, lines.numbers[at], context)) return at;
  ++context.understood;
  return at + 1;
}

}  // namespace mroce::doctor
