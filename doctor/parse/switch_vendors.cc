// Arista EOS, Cisco NX-OS and Cumulus (NVUE), each in the forms whose layout is beyond doubt:
//   EOS     "Port  RxPfc  TxPfc", "Port  InOctets  InUcastPkts …", "Port  OutOctets …", "Port  InDiscards …"
//   NX-OS   show interface priority-flow-control: port, mode, state with a bitmap of classes, RxPPP, TxPPP;
//           show queuing interface: tail drops of each group, and "TxPPP: 1, RxPPP: 2"
//   NVUE    nv show interface PORT qos roce counters: indented keys below rx-…-stats and tx-…-stats
// What else these commands print is left out.
#include <algorithm>

#include "doctor/parse/parsers.h"
#include "doctor/parse/switch.h"

namespace mroce::doctor {
namespace {

bool eos_head(const std::vector<std::string_view>& words) {
  if (words.size() < 3 || words[0] != "Port") return false;
  return words[1] == "RxPfc" || words[1] == "InOctets" || words[1] == "OutOctets" || words[1] == "InDiscards";
}

size_t eos_table(const Lines& lines, size_t at, Context& context) {
  const auto head = words_of(lines[at]);
  if (!eos_head(head)) return at;
  SwitchScope scope(context);
  size_t next = at + 1;
  for (; next < lines.size(); ++next) {
    const auto words = words_of(lines[next]);
    if (words.size() != head.size() || !is_switch_port(words[0])) break;
    for (size_t i = 1; i < words.size(); ++i)
      if (const auto value = whole_number(words[i]))
        scope.count(words[0], "interfaces", head[i], *value, lines.numbers[next]);
  }
  return next;
}

// "(8)": a bitmap of the classes that may be paused, in hexadecimal digits.
std::string classes_of(std::string_view bitmap) {
  if (bitmap.size() < 3 || bitmap.front() != '(' || bitmap.back() != ')') return {};
  const auto bits = whole_number("0x" + std::string(bitmap.substr(1, bitmap.size() - 2)));
  if (!bits || *bits > 0xff) return {};
  std::string out;
  for (unsigned i = 0; i < 8; ++i)
    if ((*bits >> i & 1) != 0) out += (out.empty() ? "" : ",") + std::to_string(i);
  return out.empty() ? "none" : out;
}

// "Ethernet1/2   Auto  On  (8)   12   3"
bool nxos_row(const std::vector<std::string_view>& words, uint32_t line, SwitchScope& scope,
              Context& context) {
  if (words.size() < 5 || words.size() > 6 || !is_switch_port(words[0])) return false;
  const auto received = whole_number(words[words.size() - 2]), sent = whole_number(words.back());
  if ((words[2] != "On" && words[2] != "Off") || !received || !sent) return false;
  if (words.size() == 6 && classes_of(words[3]).empty()) return false;
  if (words[2] == "Off") context.set(scope.port(words[0]), "pfc.enabled", "none", line);
  if (words[2] == "On" && words.size() == 6)
    context.set(scope.port(words[0]), "pfc.enabled", classes_of(words[3]), line);
  scope.count(words[0], "pfc", "RxPPP", *received, line);
  scope.count(words[0], "pfc", "TxPPP", *sent, line);
  return true;
}

size_t nxos_pause(const Lines& lines, size_t at, Context& context) {
  const auto head = words_of(lines[at]);
  if (head.size() < 4 || head[0] != "Port" || head[1] != "Mode" || head[head.size() - 2] != "RxPPP" ||
      head.back() != "TxPPP")
    return at;
  SwitchScope scope(context);
  size_t next = at + 1;
  for (; next < lines.size(); ++next) {
    const std::string_view line = trim(lines[next]);
    const bool ruler = line.find_first_not_of('-') == std::string_view::npos;  // or empty
    if (!ruler && !nxos_row(words_of(line), lines.numbers[next], scope, context)) break;
  }
  return next;
}

// "|  WRED/AFD & Tail Drop Pkts |  12|  0|": the sum of the row.
std::optional<uint64_t> row_sum(std::string_view line) {
  uint64_t sum = 0;
  const auto cells = split(line, '|');
  for (size_t i = 2; i < cells.size(); ++i) {
    if (trim(cells[i]).empty()) continue;
    const auto value = whole_number(cells[i]);
    if (!value || *value > UINT64_MAX - sum) return std::nullopt;
    sum += *value;
  }
  return sum;
}

size_t nxos_queuing(const Lines& lines, size_t at, Context& context) {
  constexpr std::string_view kHead = "Egress Queuing for ";
  const std::string_view first = trim(lines[at]);
  if (!first.starts_with(kHead)) return at;
  const std::string_view port = before(first.substr(kHead.size()), " ");
  if (!is_switch_port(port)) return at;
  SwitchScope scope(context);
  std::string group;
  // What follows the last line of this form belongs to somebody else.
  constexpr size_t kMaxLines = 400;
  size_t last = at;
  for (size_t next = at + 1; next < lines.size() && next - at < kMaxLines; ++next) {
    const std::string_view line = trim(lines[next]);
    if (line.starts_with(kHead)) break;
    if (!line.starts_with('|') && !line.starts_with("TxPPP:")) continue;
    last = next;
    const uint32_t number = lines.numbers[next];
    if (const auto name = trim(after(line, "QOS GROUP ")); !name.empty())
      group = std::string(before(before(name, "|"), " "));
    if (contains(line, "Tail Drop Pkts") && group.size() == 1)
      if (const auto drops = row_sum(line))
        scope.count(port, "queues", "group " + group + " Tail Drop Pkts", *drops, number);
    if (!line.starts_with("TxPPP:")) continue;
    if (const auto sent = whole_number(before(after(line, "TxPPP:"), ",")))
      scope.count(port, "pfc", "TxPPP", *sent, number);
    if (const auto received = whole_number(after(line, "RxPPP:")))
      scope.count(port, "pfc", "RxPPP", *received, number);
  }
  return last + 1;
}

bool is_section(std::string_view word) {
  return (word.starts_with("rx-") || word.starts_with("tx-")) && word.ends_with("-stats");
}

// "rx-stats" above, then "rx-pfc-stats" and so on, each with its keys.
size_t nvue_roce(const Lines& lines, size_t at, Context& context) {
  const auto first = words_of(lines[at]);
  if (first.size() != 1 || first[0] != "rx-stats") return at;
  SwitchScope scope(context);
  const std::string port = context.netdev;
  std::string section;
  size_t next = at + 1;
  for (; next < lines.size(); ++next) {
    const auto words = words_of(lines[next]);
    if (words.empty()) break;
    if (words.size() == 1 && (is_section(words[0]) || words[0] == "tx-stats"))
      section = std::string(words[0]);
    if (words.size() < 2) continue;
    if (!lines[next].starts_with(' ')) break;
    if (const auto value = whole_number(words[1]))
      scope.count(port, "roce", section + " " + std::string(words[0]), *value, lines.numbers[next]);
  }
  return next;
}

}  // namespace

size_t read_switch_vendors(const Lines& lines, size_t at, Context& context) {
  if (lines[at].empty()) return at;
  for (const Reader reader : {eos_table, nxos_pause, nxos_queuing, nvue_roce}) {
    const size_t next = reader(lines, at, context);
    if (next == at) continue;
    context.understood += next - at;
    return next;
  }
  return at;
}

}  // namespace mroce::doctor
