#include "sim/connection_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/text_lines.h"
#include "sim/triggers.h"
#include "sim/words.h"

namespace mroce::sim {
namespace {

constexpr uint32_t kNone = 0;  // no trigger, no id: the numbers of both begin at 1

struct ParsedFlow {
  Flow flow;
  uint32_t line = 0;
  uint32_t trigger = kNone;
  uint32_t send_done = kNone;
  uint32_t recv_done = kNone;
};

struct ParsedTrigger {
  uint32_t id = kNone;
  uint32_t line = 0;
  uint32_t count = 0;
  TriggerKind kind = TriggerKind::kOneshot;
};

class MatrixParser {
 public:
  MatrixParser(std::string_view name, std::string_view text) : name_(name), lines_(name, text) {}

  WorkloadResult parse() {
    while (lines_.next()) {
      if (!parse_line()) return tl::unexpected(std::move(error_));
    }
    Workload workload;
    workload.name = std::string(name_);
    if (!check_counts() || !number_flows() || !check_triggers() || !connect(workload)) {
      return tl::unexpected(std::move(error_));
    }
    return workload;
  }

 private:
  using Words = std::span<const std::string_view>;
  struct Header {
    const char* name;
    uint64_t maximum;
    uint64_t value = 0;
    uint32_t line = 0;  // 0: absent
  };

  bool fail(uint32_t line, std::string_view what) {
    error_ = lines_.at(line) + std::string(what);
    return false;
  }
  bool fail(std::string_view what) { return fail(lines_.line(), what); }

  bool parse_line() {
    const Words words = lines_.words();
    if (words[0].find("->") != std::string_view::npos) return parse_flow(words);
    if (words[0] == "trigger") return parse_trigger(words);
    if (words[0] == "failure")
      return fail(
          "failures are not supported yet; remove this line and 'Failures', and give the fault to the run");
    for (Header* header : {&nodes_, &connections_, &triggers_header_, &failures_}) {
      if (words[0] == header->name) return parse_header(words, *header);
    }
    return fail(
        fmt::format("{} begins no line of a connection matrix; lines begin with Nodes, Connections, "
                    "Triggers, Failures, src->dst or trigger",
                    quoted(words[0])));
  }

  bool parse_header(Words words, Header& header) {
    if (header.line != 0)
      return fail(fmt::format("{} is in line {} already; keep one of the two", header.name, header.line));
    const auto value = words.size() == 2 ? parse_whole(words[1]) : std::nullopt;
    if (!value || *value > header.maximum) {
      return fail(fmt::format("{} needs one whole number up to {}", header.name, header.maximum));
    }
    header.value = *value;
    header.line = lines_.line();
    if (&header == &nodes_ && *value < 2) return fail("Nodes must be 2 or more: flows need two ends");
    return true;
  }

  // The number behind words[i].
  bool number(Words words, size_t i, uint64_t low, uint64_t high, uint64_t& out) {
    const auto value = i + 1 < words.size() ? parse_whole(words[i + 1]) : std::nullopt;
    if (!value || *value < low || *value > high) {
      return fail(fmt::format("'{}' needs a whole number from {} to {} behind it{}", words[i], low, high,
                              i + 1 < words.size() ? ", not " + quoted(words[i + 1]) : ""));
    }
    out = *value;
    return true;
  }

  bool parse_ends(std::string_view word, Flow& flow) {
    if (nodes_.line == 0) return fail("a flow before 'Nodes N'; put the line Nodes first");
    const size_t arrow = word.find("->");
    const auto source = parse_whole(word.substr(0, arrow));
    const auto destination = parse_whole(word.substr(arrow + 2));
    if (!source || !destination) return fail(fmt::format("{} should be two hosts, as in 0->5", quoted(word)));
    for (const uint64_t host : {*source, *destination}) {
      if (host >= nodes_.value) {
        return fail(fmt::format("host {} is not below Nodes {}; the last host is {}", host, nodes_.value,
                                nodes_.value - 1));
      }
    }
    if (*source == *destination)
      return fail(fmt::format("host {} sends to itself; a flow needs two hosts", *source));
    flow.source = static_cast<uint32_t>(*source);
    flow.destination = static_cast<uint32_t>(*destination);
    return true;
  }

  bool parse_start(Words words, size_t i, SimTime& start) {
    const std::string_view word = i + 1 < words.size() ? words[i + 1] : std::string_view{};
    const auto whole = parse_whole(word);
    const auto decimal = parse_decimal(word);
    if (whole && *whole <= kMaxStart) {
      start = static_cast<SimTime>(*whole);
    } else if (!whole && decimal && *decimal <= static_cast<double>(kMaxStart)) {
      start = std::llround(*decimal);
    } else {
      return fail(fmt::format("'start' needs picoseconds from 0 to {} (a day) behind it", kMaxStart));
    }
    return true;
  }

  bool parse_flow(Words words) {
    ParsedFlow parsed;
    parsed.line = lines_.line();
    parsed.flow.start = kEndOfTime;
    if (flows_.size() == kMaxFlows) return fail(fmt::format("more than {} flows", kMaxFlows));
    if (!parse_ends(words[0], parsed.flow)) return false;
    uint32_t seen = 0;
    for (size_t i = 1; i < words.size(); i += 2) {
      if (!parse_attribute(words, i, parsed, seen)) return false;
    }
    if ((seen & kSize) == 0) return fail("the flow has no 'size'; write the bytes that it sends");
    if ((seen & (kStart | kTrigger)) == 0)
      return fail("the flow has neither 'start' nor 'trigger' and would never begin; write one of them");
    if ((seen & kStart) != 0 && (seen & kTrigger) != 0)
      return fail("the flow has both 'start' and 'trigger'; keep one of them");
    flows_.push_back(parsed);
    return true;
  }

  enum Attribute : uint32_t { kId, kStartAt, kTriggeredBy, kBytes, kSendDone, kRecvDone, kPrio, kAttributes };
  static constexpr const char* kAttributeNames[kAttributes] = {
      "id", "start", "trigger", "size", "send_done_trigger", "recv_done_trigger", "prio"};
  static constexpr uint32_t kStart = 1U << kStartAt;
  static constexpr uint32_t kTrigger = 1U << kTriggeredBy;
  static constexpr uint32_t kSize = 1U << kBytes;

  bool parse_attribute(Words words, size_t i, ParsedFlow& parsed, uint32_t& seen) {
    const auto name = std::find(std::begin(kAttributeNames), std::end(kAttributeNames), words[i]);
    if (name == std::end(kAttributeNames)) {
      return fail(
          fmt::format("unknown word {}; a flow has id, start, size, trigger, send_done_trigger, "
                      "recv_done_trigger and prio",
                      quoted(words[i])));
    }
    const auto attribute = static_cast<Attribute>(name - std::begin(kAttributeNames));
    if ((seen >> attribute & 1) != 0) return fail(fmt::format("'{}' stands here twice", words[i]));
    seen |= 1U << attribute;
    if (attribute == kStartAt) return parse_start(words, i, parsed.flow.start);
    uint64_t value = 0;
    const uint64_t low = attribute == kPrio ? 0 : 1;
    const uint64_t high = attribute == kPrio ? 7 : attribute == kBytes ? kMaxFlowBytes : UINT32_MAX;
    if (!number(words, i, low, high, value)) return false;
    const auto small = static_cast<uint32_t>(value);
    switch (attribute) {
      case kId:
        parsed.flow.id = small;
        break;
      case kTriggeredBy:
        parsed.trigger = small;
        break;
      case kBytes:
        parsed.flow.bytes = value;
        break;
      case kSendDone:
        parsed.send_done = small;
        break;
      case kRecvDone:
        parsed.recv_done = small;
        break;
      case kPrio:
        parsed.flow.priority = static_cast<uint8_t>(value);
        break;
      case kStartAt:
      case kAttributes:
        break;
    }
    return true;
  }

  bool parse_trigger(Words words) {
    if (triggers_.size() == kMaxFlows) return fail(fmt::format("more than {} triggers", kMaxFlows));
    ParsedTrigger parsed;
    parsed.line = lines_.line();
    bool has_kind = false;
    bool has_count = false;
    for (size_t i = 1; i < words.size(); ++i) {
      uint64_t value = 0;
      if (words[i] == "id" || words[i] == "count") {
        const bool is_id = words[i] == "id";
        if (is_id ? parsed.id != kNone : has_count)
          return fail(fmt::format("'{}' stands here twice", words[i]));
        if (!number(words, i++, 1, UINT32_MAX, value)) return false;
        (is_id ? parsed.id : parsed.count) = static_cast<uint32_t>(value);
        has_count = has_count || !is_id;
        continue;
      }
      if (!parse_kind(words[i], has_kind, parsed.kind)) return false;
    }
    if (parsed.id == kNone) return fail("the trigger has no 'id'");
    if (!has_kind) return fail("the trigger has no kind; write oneshot, multishot or barrier");
    if ((parsed.kind == TriggerKind::kBarrier) != has_count)
      return fail("a barrier needs 'count N', the number of its signals; other triggers have no count");
    triggers_.push_back(parsed);
    return true;
  }

  bool parse_kind(std::string_view word, bool& has_kind, TriggerKind& kind) {
    if (word == "oneshot") {
      kind = TriggerKind::kOneshot;
    } else if (word == "multishot") {
      kind = TriggerKind::kMultishot;
    } else if (word == "barrier") {
      kind = TriggerKind::kBarrier;
    } else {
      return fail(fmt::format(
          "unknown word {}; a trigger has id, count and one of oneshot, multishot, barrier", quoted(word)));
    }
    if (has_kind) return fail("the trigger has two kinds; keep one");
    return has_kind = true;
  }

  // ---- the file as a whole

  bool check_counts() {
    const uint32_t end = lines_.line();
    if (nodes_.line == 0) return fail(end, "there is no line 'Nodes N' with the number of hosts");
    if (connections_.line == 0) return fail(end, "there is no line 'Connections N' with the number of flows");
    const auto differs = [&](const Header& header, size_t found, const char* what) {
      if (header.value == found) return false;
      fail(header.line != 0 ? header.line : end,
           fmt::format("{} says {}, but the file has {} {}; correct the number or the lines", header.name,
                       header.value, found, what));
      return true;
    };
    if (flows_.empty() && connections_.value == 0) return fail(connections_.line, "there are no flows");
    return !differs(connections_, flows_.size(), "flows") &&
           !differs(triggers_header_, triggers_.size(), "lines of triggers") &&
           !differs(failures_, 0, "lines of failures");
  }

  bool number_flows() {
    const bool have_ids = flows_[0].flow.id != kNone;
    uint32_t next = 0;
    std::vector<std::pair<uint32_t, uint32_t>> ids;
    for (ParsedFlow& parsed : flows_) {
      if ((parsed.flow.id != kNone) != have_ids) {
        return fail(parsed.line,
                    fmt::format("this flow has {} id, unlike the first one in line {}; give one to "
                                "all flows or to none",
                                have_ids ? "no" : "an", flows_[0].line));
      }
      if (!have_ids) parsed.flow.id = ++next;
      ids.emplace_back(parsed.flow.id, parsed.line);
    }
    return unique("flow", ids);
  }

  bool unique(const char* what, std::vector<std::pair<uint32_t, uint32_t>>& ids) {
    std::sort(ids.begin(), ids.end());
    const auto twice = std::adjacent_find(ids.begin(), ids.end(),
                                          [](const auto& a, const auto& b) { return a.first == b.first; });
    if (twice == ids.end()) return true;
    return fail(twice[1].second, fmt::format("{} id {} is taken in line {}; ids must differ", what,
                                             twice->first, twice->second));
  }

  bool check_triggers() {
    std::sort(triggers_.begin(), triggers_.end(), [](const ParsedTrigger& a, const ParsedTrigger& b) {
      return a.id != b.id ? a.id < b.id : a.line < b.line;
    });
    std::vector<std::pair<uint32_t, uint32_t>> ids;
    for (const ParsedTrigger& trigger : triggers_) ids.emplace_back(trigger.id, trigger.line);
    return unique("trigger", ids);
  }

  // Position of a trigger in the sorted table.
  bool find(uint32_t line, uint32_t id, uint32_t& index) {
    const auto it = std::lower_bound(triggers_.begin(), triggers_.end(), id,
                                     [](const ParsedTrigger& a, uint32_t wanted) { return a.id < wanted; });
    if (it == triggers_.end() || it->id != id) {
      return fail(line, fmt::format("there is no trigger with id {}; add a line 'trigger id {} oneshot', or "
                                    "correct the number",
                                    id, id));
    }
    index = static_cast<uint32_t>(it - triggers_.begin());
    return true;
  }

  bool connect(Workload& workload) {
    auto triggers = std::make_unique<Triggers>(static_cast<uint32_t>(flows_.size()));
    for (const ParsedTrigger& parsed : triggers_) triggers->add(parsed.kind, parsed.count);
    workload.hosts = static_cast<uint32_t>(nodes_.value);
    workload.flows.reserve(flows_.size());
    for (uint32_t i = 0; i < flows_.size(); ++i) {
      const ParsedFlow& parsed = flows_[i];
      workload.flows.push_back(parsed.flow);
      uint32_t index = 0;
      if (parsed.trigger != kNone) {
        if (!find(parsed.line, parsed.trigger, index)) return false;
        triggers->starts(index, i);
      }
      if (parsed.send_done != kNone) {
        if (!find(parsed.line, parsed.send_done, index)) return false;
        triggers->signals(i, FlowEvent::kFinished, index);
      }
      if (parsed.recv_done != kNone) {
        if (!find(parsed.line, parsed.recv_done, index)) return false;
        triggers->signals(i, FlowEvent::kReceived, index);
      }
    }
    triggers->finish(workload.flows);
    if (!check_that_all_fire(*triggers, workload.flows)) return false;
    if (!triggers_.empty()) workload.scheduler = std::move(triggers);
    return true;
  }

  bool check_that_all_fire(const Triggers& triggers, std::span<const Flow> flows) {
    for (uint32_t i = 0; i < triggers_.size(); ++i) {
      const ParsedTrigger& parsed = triggers_[i];
      const uint32_t signals = triggers.signal_count(i);
      const uint32_t starts = triggers.flow_count(i);
      const uint32_t needed = parsed.kind == TriggerKind::kBarrier     ? parsed.count
                              : parsed.kind == TriggerKind::kMultishot ? starts
                                                                       : 1;
      if (starts == 0) {
        return fail(parsed.line,
                    fmt::format("trigger {} starts no flow; write 'trigger {}' in a flow, or remove "
                                "it",
                                parsed.id, parsed.id));
      }
      if (signals < needed) {
        return fail(
            parsed.line,
            fmt::format("trigger {} cannot start all its flows: it needs {} signals and {} flows have it "
                        "as send_done_trigger or recv_done_trigger",
                        parsed.id, needed, signals));
      }
    }
    if (const auto stuck = triggers.never_started(flows)) {
      const ParsedFlow& parsed = flows_[*stuck];
      return fail(parsed.line,
                  fmt::format("flow {} can never start: trigger {} waits for flows that wait for it; "
                              "give one of them a 'start'",
                              parsed.flow.id, parsed.trigger));
    }
    return true;
  }

  std::string_view name_;
  TextLines lines_;
  Header nodes_{"Nodes", kMaxWorkloadHosts};
  Header connections_{"Connections", kMaxFlows};
  Header triggers_header_{"Triggers", kMaxFlows};
  Header failures_{"Failures", kMaxFlows};
  std::vector<ParsedFlow> flows_;
  std::vector<ParsedTrigger> triggers_;
  std::string error_;
};

}  // namespace

WorkloadResult parse_connection_matrix(std::string_view name, std::string_view text) {
  return MatrixParser(name, text).parse();
}

WorkloadResult read_connection_matrix(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  return parse_connection_matrix(path, *text);
}

}  // namespace mroce::sim
