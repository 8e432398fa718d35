// lspci -vv: width and speed of network adapters, access control of bridges.
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

void link(std::string_view line, bool can, Port& port, uint32_t number, Context& context) {
  if (const auto speed = leading_number(after(line, "Speed ")))
    context.set(port, can ? "pcie.speed_max_gts" : "pcie.speed_gts", std::to_string(*speed), number);
  if (const auto width = leading_number(after(line, "Width x")))
    context.set(port, can ? "pcie.width_max" : "pcie.width", std::to_string(*width), number);
}

}  // namespace

size_t read_lspci(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = trim(lines[at]);
  const uint32_t number = lines.numbers[at];
  if (const std::string_view flags = after(line, "ACSCtl:"); !flags.empty()) {
    const bool redirects =
        contains(flags, "SrcValid+") || contains(flags, "ReqRedir+") || contains(flags, "CmpltRedir+");
    // One bridge with it is enough.
    const Setting* known = last_setting(context.this_host().settings, "acs");
    if (redirects || known == nullptr) context.set_host("acs", redirects ? "on" : "off", number);
    ++context.understood;
    return at + 1;
  }
  const bool can = line.starts_with("LnkCap:"), is = line.starts_with("LnkSta:");
  if (!can && !is) return at;
  // Whose link it is stands in the head of the paragraph.
  std::string_view head;
  for (size_t i = at; i-- > 0 && at - i < 400;) {
    if (lines[i].empty() || lines[i].starts_with('\t') || lines[i].starts_with(' ')) continue;
    head = lines[i];
    break;
  }
  const bool other = !head.empty() && !contains(head, "Ethernet controller") &&
                     !contains(head, "Infiniband controller") && !contains(head, "Network controller");
  if (!other) link(line, can, context.this_port(), number, context);
  ++context.understood;
  return at + 1;
}

}  // namespace mroce::doctor
