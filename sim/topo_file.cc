#include "sim/topo_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "sim/text_lines.h"
#include "sim/words.h"

namespace mroce::sim {
namespace {

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

struct Field {
  std::string_view name;
  double least;
  double most;
  bool whole;
};

constexpr Field kHeader[] = {
    {"nodes", 2, kMaxHosts, true}, {"tiers", 2, 3, true}, {"podsize", 1, kMaxHosts, true}};
constexpr Field kTier[] = {{"downlink_speed_gbps", 0.001, 10'000, false},
                           {"radix_up", 1, kMaxPorts, true},
                           {"radix_down", 1, kMaxPorts, true},
                           {"downlink_latency_ns", 0, 1e9, false},
                           {"switch_latency_ns", 0, 1e9, false},
                           {"bundle", 1, kMaxPorts, true},
                           {"oversubscribed", 0.001, 1e6, false},
                           {"queue_up", 64, 4e9, true},
                           {"queue_down", 64, 4e9, true}};

class Reader {
 public:
  Reader(std::string_view file, std::string_view text) : lines_(file, text) {}

  tl::expected<FatTreeSpec, std::string> read() {
    while (lines_.next()) {
      const auto words = lines_.words();
      if (words.size() != 2) {
        return lines_.error("a line is a name and a value, this one has {} words", words.size());
      }
      if (auto line = read_line(lower(words[0]), words[1]); !line) return tl::unexpected(line.error());
    }
    return finish();
  }

 private:
  using Status = tl::expected<void, std::string>;

  Status read_line(const std::string& name, std::string_view text) {
    if (name == "tier") return begin_tier(text);
    const bool in_tier = tier_ >= 0;
    for (const Field& field : kHeader) {
      if (field.name != name) continue;
      if (in_tier) return lines_.error("{} stands after the first tier; it belongs before", name);
      return read_value(field, text);
    }
    for (const Field& field : kTier) {
      if (field.name != name) continue;
      if (!in_tier) return lines_.error("{} stands before the first \"Tier\" line", name);
      return read_value(field, text);
    }
    return lines_.error(
        "{} is not known; did you mean one of Nodes, Tiers, Podsize, Tier, Downlink_speed_Gbps, "
        "Radix_Up, Radix_Down, Downlink_Latency_ns, Switch_Latency_ns, Bundle, Oversubscribed, "
        "Queue_up, Queue_down?",
        quoted(name));
  }

  Status begin_tier(std::string_view text) {
    const auto value = parse_whole(text);
    const int next = tier_ + 1;
    if (!value || *value != static_cast<uint64_t>(next)) {
      return lines_.error("tier {} where tier {} should begin", quoted(text), next);
    }
    if (next == 0 && (!seen("nodes") || !seen("tiers"))) {
      return lines_.error("\"Nodes\" and \"Tiers\" must come before the first tier");
    }
    if (static_cast<uint32_t>(next) >= spec_.tiers) {
      return lines_.error("tier {} is one more than \"Tiers {}\" allows", next, spec_.tiers);
    }
    if (auto end = end_tier(); !end) return end;
    tier_ = next;
    seen_.clear();
    return {};
  }

  Status read_value(const Field& field, std::string_view text) {
    if (seen(field.name)) return lines_.error("{} is given twice", field.name);
    seen_.push_back(field.name);
    const auto value = parse_decimal(text);
    if (!value || *value < field.least || *value > field.most ||
        (field.whole && *value != std::floor(*value))) {
      return lines_.error("{} is {}; it must be a{} number from {} to {}", field.name, quoted(text),
                          field.whole ? " whole" : "", field.least, field.most);
    }
    set(field.name, *value);
    return {};
  }

  void set(std::string_view name, double value) {
    const auto whole = static_cast<uint32_t>(std::min(value, 4294967295.0));
    FatTreeTier& tier = spec_.tier[static_cast<size_t>(std::max(tier_, 0))];
    if (name == "nodes") spec_.hosts = whole;
    if (name == "tiers") spec_.tiers = whole;
    if (name == "podsize") spec_.pod_hosts = whole;
    if (name == "downlink_speed_gbps") tier.down_rate_bps = static_cast<uint64_t>(std::llround(value * 1e9));
    if (name == "radix_up") tier.up_ports = whole;
    if (name == "radix_down") tier.down_ports = whole;
    if (name == "downlink_latency_ns") tier.down_delay = std::llround(value * 1000);
    if (name == "switch_latency_ns") tier.switch_delay = std::llround(value * 1000);
    if (name == "bundle") tier.bundle = whole;
    if (name == "oversubscribed") oversubscribed_[static_cast<size_t>(tier_)] = value;
    if (name == "queue_up") tier.up_queue_bytes = whole;
    if (name == "queue_down") tier.down_queue_bytes = whole;
  }

  bool seen(std::string_view name) const {
    return std::find(seen_.begin(), seen_.end(), name) != seen_.end();
  }

  // What a tier must say; before the first tier, the header.
  Status end_tier() {
    if (tier_ < 0) return {};
    const bool highest = static_cast<uint32_t>(tier_) + 1 == spec_.tiers;
    for (const std::string_view name :
         {"downlink_speed_gbps", "radix_down", "downlink_latency_ns", "radix_up"}) {
      if (!seen(name) && !(highest && name == "radix_up"))
        return lines_.error("tier {} has no {}", tier_, name);
    }
    if (highest && seen("radix_up")) return lines_.error("tier {} is the highest and has no Radix_Up", tier_);
    return {};
  }

  tl::expected<FatTreeSpec, std::string> finish() {
    if (static_cast<uint32_t>(tier_ + 1) != spec_.tiers || tier_ < 0) {
      return lines_.error(
          "the file ends after {} tiers; \"Nodes\", \"Tiers\" and a part for each tier are needed",
          tier_ + 1);
    }
    if (auto end = end_tier(); !end) return tl::unexpected(end.error());
    if (spec_.tiers == 2) spec_.pod_hosts = spec_.hosts;
    if (spec_.pod_hosts == 0) return lines_.error("three tiers need a Podsize");
    for (uint32_t t = 0; t + 1 < spec_.tiers; ++t) {
      if (oversubscribed_[t] == 0) continue;
      const FatTreeTier& tier = spec_.tier[t];
      const double ratio = static_cast<double>(tier.down_rate_bps) * tier.down_ports /
                           (static_cast<double>(spec_.tier[t + 1].down_rate_bps) * tier.up_ports);
      if (std::abs(ratio - oversubscribed_[t]) > 0.01 * ratio) {
        return lines_.error("tier {} says Oversubscribed {}, but its speeds and radixes give {:.3}", t,
                            oversubscribed_[t], ratio);
      }
    }
    if (std::string error = check_fat_tree(spec_); !error.empty()) return lines_.error("{}", error);
    spec_.name = lines_.name();
    return spec_;
  }

  TextLines lines_;
  FatTreeSpec spec_;
  int tier_ = -1;
  std::array<double, 3> oversubscribed_{};
  std::vector<std::string_view> seen_;  // fields of this part
};

}  // namespace

tl::expected<FatTreeSpec, std::string> parse_topo(std::string_view file, std::string_view text) {
  Reader reader(file, text);
  return reader.read();
}

}  // namespace mroce::sim
