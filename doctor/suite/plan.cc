#include "doctor/suite/plan.h"

#include <algorithm>
#include <array>
#include <set>

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

struct KindWords {
  TestKind kind;
  std::string_view name, variant;
};
constexpr std::array kKinds = {
    KindWords{TestKind::kSingle, "single", "single"},
    KindWords{TestKind::kMulti, "multi", "qp"},
    KindWords{TestKind::kIncast, "incast", "incast"},
    KindWords{TestKind::kBidirectional, "bidir", "bidir"},
    KindWords{TestKind::kRails, "rails", "rail"},
    KindWords{TestKind::kCollective, "collective", "collective"},
};

// The ports of one repetition.
constexpr uint32_t kPortsOfRepetition = 256;

// mroce's own statistics are asked for where `mroce run` is the prefix, as nothing else counts for its
// endpoints.
Words prefix_with_statistics(const Words& prefix) {
  Words out = prefix;
  const auto run = mroce_run_in(prefix);
  if (run && std::find(out.begin(), out.end(), "--json") == out.end())
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(*run) + 1, {"--json", "-"});
  return out;
}

class Planner {
 public:
  Planner(const SuiteOptions& options, const RailsOfHosts& rails, uint32_t repetition)
      : options_(options),
        rails_(rails),
        prefix_(prefix_with_statistics(options.prefix)),
        next_port_(options.port + repetition % 32 * kPortsOfRepetition) {}

  TestPlan plan(TestKind kind) {
    TestPlan out;
    out.kind = kind;
    out.skipped = reason_to_skip(kind);
    if (!out.skipped.empty()) return out;
    switch (kind) {
      case TestKind::kSingle:
        out.steps.push_back(bandwidth({}));
        out.steps.push_back(latency());
        break;
      case TestKind::kMulti:
        out.steps.push_back(bandwidth({"-q", std::to_string(options_.qps)}));
        break;
      case TestKind::kBidirectional:
        out.steps.push_back(bandwidth({"-b"}));
        break;
      case TestKind::kIncast: {
        Step& step = out.steps.emplace_back(Step{"bandwidth", {}});
        for (size_t sender = 1; sender < options_.hosts.size(); ++sender)
          step.flows.push_back(flow(0, sender, 0, bandwidth_words({})));
        break;
      }
      case TestKind::kRails: {
        Step& step = out.steps.emplace_back(Step{"bandwidth", {}});
        for (size_t rail = 0; rail < common_rails(); ++rail)
          step.flows.push_back(flow(0, 1, rail, bandwidth_words({})));
        break;
      }
      case TestKind::kCollective:
        break;  // no flows: one command on the first host
    }
    return out;
  }

 private:
  size_t common_rails() const { return std::min(rails_[0].size(), rails_[1].size()); }

  std::string reason_to_skip(TestKind kind) const {
    if (kind == TestKind::kCollective) return {};
    for (size_t host = 0; host < (kind == TestKind::kIncast ? options_.hosts.size() : 2); ++host)
      if (rails_[host].empty()) return "no RDMA device is known on " + options_.hosts[host].name;
    if (kind == TestKind::kIncast && options_.hosts.size() < 3) return "N:1 takes three hosts or more";
    if (kind == TestKind::kRails && common_rails() < 2) return "the first two hosts have one rail in common";
    return {};
  }

  Words bandwidth_words(const Words& more) const {
    Words out = {"ib_write_bw", "-F", "--report_gbits", "-s", std::to_string(options_.size)};
    if (options_.iterations)
      out.insert(out.end(), {"-n", std::to_string(*options_.iterations)});
    else
      out.insert(out.end(), {"-D", std::to_string(options_.seconds)});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  Step bandwidth(const Words& more) { return {"bandwidth", {flow(0, 1, 0, bandwidth_words(more))}}; }
  Step latency() {
    return {"latency",
            {flow(0, 1, 0,
                  {"ib_write_lat", "-F", "-s", "8", "-n", std::to_string(options_.latency_iterations)})}};
  }

  Words on_host(size_t host, size_t rail, const Words& program) const {
    Words out = prefix_;
    out.insert(out.end(), program.begin(), program.end());
    const Rail& used = rails_[host][rail];
    out.insert(out.end(), {"-d", used.device});
    if (used.gid) out.insert(out.end(), {"-x", std::to_string(*used.gid)});
    return out;
  }

  Flow flow(size_t server, size_t client, size_t rail, const Words& program) {
    Flow out{server, client, next_port_++, on_host(server, rail, program), on_host(client, rail, program)};
    for (Words* words : {&out.server, &out.client})
      words->insert(words->end(), {"-p", std::to_string(out.port)});
    out.client.push_back(options_.hosts[server].address);
    return out;
  }

  const SuiteOptions& options_;
  const RailsOfHosts& rails_;
  Words prefix_;
  uint32_t next_port_;
};

}  // namespace

std::string_view to_string(TestKind kind) {
  for (const KindWords& words : kKinds)
    if (words.kind == kind) return words.name;
  return "?";
}

std::string_view variant_of(TestKind kind) {
  for (const KindWords& words : kKinds)
    if (words.kind == kind) return words.variant;
  return "";
}

tl::expected<std::vector<SuiteHost>, std::string> parse_hosts(std::string_view text) {
  std::vector<SuiteHost> out;
  std::set<std::string> seen;
  for (const std::string_view raw : split(text, ',')) {
    const std::string_view word = trim(raw);
    const size_t equals = word.find('=');
    SuiteHost host{std::string(word.substr(0, equals)), {}};
    // "user@node": perftest connects to the node.
    host.address = equals == std::string_view::npos ? host.name.substr(host.name.rfind('@') + 1)
                                                    : std::string(word.substr(equals + 1));
    if (!is_plain_name(host.name) || !is_plain_name(host.address))
      return tl::unexpected("\"" + std::string(word) + "\" is no name of a host");
    if (!seen.insert(host.name).second) return tl::unexpected(host.name + " is there twice");
    out.push_back(std::move(host));
  }
  constexpr size_t kMaxHosts = 200;  // each sends to a port of its own on the first
  if (out.size() < 2) return tl::unexpected<std::string>("two hosts or more are needed");
  if (out.size() > kMaxHosts) return tl::unexpected<std::string>("200 hosts at most");
  return out;
}

tl::expected<std::vector<Rail>, std::string> parse_rails(std::string_view text) {
  std::vector<Rail> out;
  if (trim(text) == "auto") return out;
  for (const std::string_view raw : split(text, ',')) {
    const std::string_view word = trim(raw);
    const size_t at = word.find('@');
    Rail rail{std::string(word.substr(0, at)), std::nullopt};
    if (!is_plain_name(rail.device))
      return tl::unexpected("\"" + std::string(word) + "\" is no name of a device");
    if (at != std::string_view::npos) {
      const auto gid = whole_number(word.substr(at + 1));
      if (!gid || *gid > 255) return tl::unexpected("\"" + std::string(word) + "\": a GID index is 0 to 255");
      rail.gid = static_cast<uint32_t>(*gid);
    }
    out.push_back(std::move(rail));
  }
  return out;
}

tl::expected<std::vector<TestKind>, std::string> parse_tests(std::string_view text) {
  std::vector<TestKind> out;
  for (const std::string_view raw : split(text, ',')) {
    const std::string_view word = trim(raw);
    const auto* known = std::find_if(kKinds.begin(), kKinds.end(),
                                     [&](const KindWords& words) { return words.name == word; });
    if (known == kKinds.end())
      return tl::unexpected("no test is called \"" + std::string(word) +
                            "\"; there are single, multi, incast, bidir, rails, collective");
    if (std::find(out.begin(), out.end(), known->kind) == out.end()) out.push_back(known->kind);
  }
  return out;
}

TestPlan plan_test(const SuiteOptions& options, const RailsOfHosts& rails, TestKind kind,
                   uint32_t repetition) {
  return Planner(options, rails, repetition).plan(kind);
}

std::optional<size_t> mroce_run_in(const Words& prefix) {
  for (size_t i = 0; i + 1 < prefix.size(); ++i)
    if (prefix[i].substr(prefix[i].rfind('/') + 1) == "mroce" && prefix[i + 1] == "run") return i + 1;
  return std::nullopt;
}

Words bounded(const Words& command, uint32_t seconds) {
  Words out = {"timeout", "-k", "2", std::to_string(seconds)};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

Words collective_command(const SuiteOptions& options, const std::string& program) {
  std::string hosts;
  for (const SuiteHost& host : options.hosts) hosts += (hosts.empty() ? "" : ",") + host.address;
  const std::string number = std::to_string(options.hosts.size());
  if (options.collective.empty()) {
    Words out = {"mpirun", "-np", number, "--host", hosts, program};
    if (program == "all_reduce_perf") out.insert(out.end(), {"-b", "1M", "-e", "1G", "-f", "2", "-g", "1"});
    return out;
  }
  Words out;
  for (std::string word : options.collective) {
    for (const auto& [mark, value] :
         {std::pair<std::string, std::string>{"{hosts}", hosts}, {"{np}", number}})
      for (size_t at = word.find(mark); at != std::string::npos; at = word.find(mark, at + value.size()))
        word.replace(at, mark.size(), value);
    out.push_back(std::move(word));
  }
  return out;
}

}  // namespace mroce::doctor
