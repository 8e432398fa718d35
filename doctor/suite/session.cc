#include "doctor/suite/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/collect/merge.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLook{20};  // between two looks at what nothing announces

}  // namespace

// "  0: 00000000:4853 00000000:0000 0A …": the local address is the second field, the state ("0A" is LISTEN)
// the fourth.
bool has_listener(std::string_view tables, uint32_t port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const std::string_view line : split(tables, '\n')) {
    const auto words = words_of(line);
    for (size_t i = 0; i + 3 < words.size() && i < 3; ++i)  // behind a launcher's label, too
      if (words[i].ends_with(':') && words[i + 1].ends_with(wanted) && words[i + 3] == "0A") return true;
  }
  return false;
}

Words Session::launched(size_t host, const Words& command, uint32_t limit_s) const {
  return options_.launcher.command(options_.hosts[host].name, bounded(command, limit_s));
}

std::vector<Ran> Session::on_hosts(const std::vector<size_t>& hosts, const std::vector<Words>& commands,
                                   uint32_t limit_s) {
  Processes all;
  std::vector<Ran> out(hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i)
    if (!all.emplace_back(launched(hosts[i], commands[i], limit_s)).start())
      out[i].problem = all.back().error();
  const Deadline deadline = SuiteClock::now() + seconds(limit_s + 3);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!out[i].problem.empty()) continue;
    std::optional<int> status;
    bool waiting = true;
    while (!(status = all[i].ended()) && waiting)
      waiting = signals_.pause(kLook) && SuiteClock::now() < deadline;
    out[i].status = status.value_or(-1);
    out[i].output = all[i].output();
    out[i].errors = all[i].errors();
    constexpr int kOfTimeout = 124;
    if (interrupted())
      out[i].problem = "interrupted";
    else if (!status || *status == kOfTimeout)
      out[i].problem = fmt::format("did not answer within {} s", limit_s);
    else if (*status != 0)
      out[i].problem = fmt::format("ended with {}: {}", *status, all[i].last_words());
  }
  return out;
}

Bundle Session::bundle_of(size_t host, const Ran& ran, Phase phase) const {
  Bundle bundle;
  std::string why = ran.problem;
  find_bundles(
      ran.output, "snapshot", [&](Bundle&& found) { bundle = std::move(found); },
      [&](MergeProblem&& problem) {
        if (why.empty()) why = problem.reason;
      });
  if (bundle.snapshots.empty()) {
    BundleSource source;
    source.name = "mroce doctor snapshot";
    source.missing = why.empty() ? "it holds no snapshot" : why;
    bundle.snapshots.push_back({phase, 0, {std::move(source)}});
  }
  // Hosts are called what the launcher calls them: containers and network namespaces may share one hostname.
  bundle.host = options_.hosts[host].name;
  for (Snapshot& snapshot : bundle.snapshots) snapshot.phase = phase;
  return bundle;
}

std::vector<Bundle> Session::snapshots(const std::vector<size_t>& hosts, Phase phase) {
  const auto answers = on_hosts(
      hosts, std::vector<Words>(hosts.size(), {options_.mroce, "doctor", "snapshot"}), options_.limit_s);
  std::vector<Bundle> out;
  for (size_t i = 0; i < hosts.size(); ++i) out.push_back(bundle_of(hosts[i], answers[i], phase));
  return out;
}

tl::expected<void, std::string> Session::start(Processes& all, size_t host, const Words& command) {
  SuiteProcess& process = all.emplace_back(launched(host, command, options_.limit_s));
  if (!process.start()) return tl::unexpected(process.error());
  return {};
}

bool Session::listens(size_t host, uint32_t port, Deadline deadline) {
  SuiteProcess look(launched(host, {"cat", "/proc/net/tcp", "/proc/net/tcp6"}, options_.limit_s));
  if (!look.start()) return false;
  while (!look.ended())
    if (!signals_.pause(kLook) || SuiteClock::now() > deadline) return false;
  return has_listener(look.output(), port);  // without IPv6, cat complains and shows the rest
}

tl::expected<void, std::string> Session::wait_for_listeners(const Step& step, Processes& servers,
                                                            Deadline deadline) {
  for (size_t i = 0; i < servers.size(); ++i) {
    const Flow& flow = step.flows[i];
    const std::string& host = options_.hosts[flow.server_host].name;
    while (!listens(flow.server_host, flow.port, deadline)) {
      if (const auto status = servers[i].ended())
        return tl::unexpected(fmt::format("the server on {} ended with {} before it listened: {}", host,
                                          *status, servers[i].last_words()));
      if (SuiteClock::now() > deadline)
        return tl::unexpected(fmt::format("the server on {} did not listen on port {} within {} s: {}", host,
                                          flow.port, options_.limit_s, servers[i].last_words()));
      if (!signals_.pause(kLook)) return tl::unexpected<std::string>("interrupted");
    }
  }
  return {};
}

// A client that fails leaves its server waiting for nothing, so the first failure ends the step.
tl::expected<void, std::string> Session::wait_for_end(const Step& step, Processes& all, bool clients,
                                                      Deadline deadline) {
  const char* side = clients ? "client" : "server";
  for (size_t running = 1; running > 0;) {
    running = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto status = all[i].ended();
      const Flow& flow = step.flows[i];
      const std::string& host = options_.hosts[clients ? flow.client_host : flow.server_host].name;
      if (!status)
        ++running;
      else if (*status != 0)
        return tl::unexpected(
            fmt::format("the {} on {} ended with {}: {}", side, host, *status, all[i].last_words()));
    }
    if (running > 0 && SuiteClock::now() > deadline)
      return tl::unexpected(
          fmt::format("{} of {} {}s did not end within {} s", running, all.size(), side, options_.limit_s));
    if (running > 0 && !signals_.pause(kLook)) return tl::unexpected<std::string>("interrupted");
  }
  return {};
}

tl::expected<void, std::string> Session::run(const Step& step, std::vector<EndOutput>& out) {
  Processes servers, clients;
  const Deadline deadline = SuiteClock::now() + seconds(options_.limit_s);
  const auto all = [&]() -> tl::expected<void, std::string> {
    for (const Flow& flow : step.flows)
      if (auto done = start(servers, flow.server_host, flow.server); !done) return done;
    if (auto done = wait_for_listeners(step, servers, deadline); !done) return done;
    for (const Flow& flow : step.flows)
      if (auto done = start(clients, flow.client_host, flow.client); !done) return done;
    if (auto done = wait_for_end(step, clients, true, deadline); !done) return done;
    return wait_for_end(step, servers, false, deadline);
  };
  auto done = all();
  for (size_t i = 0; i < step.flows.size(); ++i) {
    const Flow& flow = step.flows[i];
    const auto keep = [&](Processes& of, size_t host, bool is_client, const Words& words) {
      if (i >= of.size()) return;
      out.push_back({host, is_client, words, of[i].ended().value_or(-1), of[i].output() + of[i].errors()});
    };
    keep(servers, flow.server_host, false, flow.server);
    keep(clients, flow.client_host, true, flow.client);
  }
  return done;
}

}  // namespace mroce::doctor
