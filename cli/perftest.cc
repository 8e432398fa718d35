#include "cli/perftest.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "cli/child.h"
#include "cli/launch.h"
#include "cli/stats.h"
#include "cli/stopwatch.h"
#include "net/sockets.h"

namespace mroce::cli {
namespace {

using net::FileDescriptor;

uint16_t free_tcp_port() {
  const FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!fd || ::bind(fd.get(), generic, length) != 0 || ::getsockname(fd.get(), generic, &length) != 0)
    return 0;
  return ntohs(address.sin_port);
}

// Does somebody listen on this TCP port? From /proc/net/tcp: the local address is the second field, the state
// ("0A" is LISTEN) the fourth.
bool somebody_listens(uint16_t port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream fields(line);
      std::string slot, local, remote, state;
      if (fields >> slot >> local >> remote >> state && state == "0A" && local.ends_with(wanted)) return true;
    }
  }
  return false;
}

Outcome<void> wait_for_listener(Child& server, uint16_t port, const std::string& name,
                                SteadyClock::time_point limit) {
  while (!somebody_listens(port)) {
    if (const auto status = server.ended()) {
      return failure(kEnvironment,
                     fmt::format("{} (server) ended with {}: {}", name, *status, last_line(server.output())),
                     "");
    }
    if (SteadyClock::now() > limit) return failure(kInternal, name + " (server) does not listen", "");
    pause_briefly();
  }
  return {};
}

void add_statistics(const nlohmann::json& all, PerftestResult& result) {
  for (const auto& process : all) {
    const auto& out = member_at(member_at(process, "impairment"), "out");
    result.offered += number_at(out, "offered");
    result.dropped += number_at(out, "dropped");
    for (const auto& connection : member_at(process, "connections")) {
      result.retransmissions += number_at(member_at(connection, "counters"), "retransmissions");
    }
  }
}

LaunchPlan plan_for(const PerftestPlace& place, const PerftestProgram& program, uint32_t iterations,
                    uint16_t port, const std::vector<Override>& overrides, const std::string& stats_file) {
  LaunchPlan plan;
  plan.arguments = {program.name,
                    "-d",
                    place.device,
                    "-x",
                    std::to_string(place.gid_index),
                    "-p",
                    std::to_string(port),
                    "-n",
                    std::to_string(iterations),
                    "-F"};
  if (program.measures != Measures::kLatency) plan.arguments.push_back("--report_gbits");
  plan.arguments.insert(plan.arguments.end(), program.arguments.begin(), program.arguments.end());
  plan.environment.emplace_back("LD_LIBRARY_PATH", place.library_path);
  for (const Override& one : overrides)
    plan.environment.emplace_back(environment_name(one.setting), one.value);
  plan.environment.emplace_back(environment_name("stats_file"), stats_file);
  return plan;
}

std::vector<double> figures_of(const std::string& line) {
  std::vector<double> figures;
  std::istringstream fields(line);
  for (std::string field; fields >> field;) {
    double figure = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), figure);
    if (error != std::errc() || end != field.data() + field.size()) return {};
    figures.push_back(figure);
  }
  return figures;
}

}  // namespace

// The last line that consists of figures only. Bandwidth: size, iterations, peak, average, million messages a
// second. Latency: size, iterations, least, most, typical (the median), …
double figure_in(const std::string& output, Measures measures) {
  std::vector<double> last;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (auto figures = figures_of(line); figures.size() >= 5) last = std::move(figures);
  }
  const size_t at = measures == Measures::kGoodput ? 3 : 4;
  return last.empty() ? 0 : last[at];
}

Outcome<PerftestPlace> perftest_place() {
  const auto settings = settings_with({});
  if (!settings) return tl::unexpected(settings.error());
  const auto table = gid_table(*settings);
  if (!table) return tl::unexpected(table.error());
  const auto index = loopback_index(*table);
  if (!index) return tl::unexpected(index.error());
  const auto libraries = library_folder();
  if (!libraries) return tl::unexpected(libraries.error());
  return PerftestPlace{library_path_with(*libraries), settings->text("device_name"), *index};
}

Outcome<PerftestResult> run_perftest(const PerftestPlace& place, const PerftestProgram& program,
                                     uint32_t iterations, const std::vector<Override>& overrides,
                                     std::chrono::seconds limit) {
  const auto folder = StatsFolder::make();
  if (!folder) return tl::unexpected(folder.error());
  const uint16_t port = free_tcp_port();
  LaunchPlan plan = plan_for(place, program, iterations, port, overrides, folder->file_pattern());
  const auto deadline = SteadyClock::now() + limit;
  Child server(plan);
  if (auto done = server.start(); !done) return tl::unexpected(done.error());
  if (auto done = wait_for_listener(server, port, program.name, deadline); !done)
    return tl::unexpected(done.error());

  plan.arguments.emplace_back("127.0.0.1");
  Child client(plan);
  const auto start = SteadyClock::now();
  if (auto done = client.start(); !done) return tl::unexpected(done.error());
  if (auto done = wait_for_end(client, program.name, deadline); !done) return tl::unexpected(done.error());
  PerftestResult result;
  result.seconds = seconds_since(start);
  if (auto done = wait_for_end(server, program.name + " (server)", deadline); !done)
    return tl::unexpected(done.error());
  result.value = figure_in(client.output(), program.measures);
  if (result.value <= 0) {
    return failure(kFindings,
                   fmt::format("{} printed no result: {}", program.name, last_line(client.output())), "");
  }
  add_statistics(folder->collect(), result);
  return result;
}

}  // namespace mroce::cli
