// What the suite runs: from options to exact commands, without running anything.
//
// The first host receives and the second one sends; in N:1 all others send to the first. Every test is a list
// of steps that run one after the other, a step a list of flows that run at once, a flow a perftest server
// and its client.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "doctor/suite/words.h"

namespace mroce::doctor {

enum class TestKind : uint8_t { kSingle, kMulti, kIncast, kBidirectional, kRails, kCollective };
std::string_view to_string(TestKind kind);
std::string_view variant_of(TestKind kind);  // the word for it that the rules know

struct SuiteHost {
  std::string name;     // as the launcher knows it
  std::string address;  // as the other hosts know it
};

struct Rail {
  std::string device;
  std::optional<uint32_t> gid;
};

struct SuiteOptions {
  std::vector<SuiteHost> hosts;
  Launcher launcher;
  Words prefix;             // of perftest: "mroce run --"
  std::string mroce;        // on the hosts
  std::vector<Rail> rails;  // empty: all that each host has
  std::optional<uint32_t> gid;
  std::vector<TestKind> tests;
  Words collective;  // its command; empty: what is found
  uint64_t size = 65536;
  uint32_t qps = 8;
  std::optional<uint32_t> iterations;  // else
  uint32_t seconds = 5;                // of a bandwidth test
  uint32_t latency_iterations = 1000;
  uint32_t repeat = 3;
  uint32_t port = 18515;
  uint32_t limit_s = 60;  // of a step
};

// "A,B=10.0.0.2": names, and addresses where the name is none.
tl::expected<std::vector<SuiteHost>, std::string> parse_hosts(std::string_view text);
// "mlx5_0,mlx5_1@3": devices, each with a GID index where it is not the common one. "auto" is none.
tl::expected<std::vector<Rail>, std::string> parse_rails(std::string_view text);
tl::expected<std::vector<TestKind>, std::string> parse_tests(std::string_view text);

// The rails of each host, in the order of the hosts: as asked for, or as found.
using RailsOfHosts = std::vector<std::vector<Rail>>;

struct Flow {
  size_t server_host = 0, client_host = 1;
  uint32_t port = 0;
  Words server, client;  // as they run on their hosts
};
struct Step {
  std::string name;  // "bandwidth", "latency"
  std::vector<Flow> flows;
};
struct TestPlan {
  TestKind kind = TestKind::kSingle;
  std::string skipped;  // why, or empty
  std::vector<Step> steps;
};

// One repetition; their ports differ, so that what one leaves behind is not in the way of the next.
TestPlan plan_test(const SuiteOptions& options, const RailsOfHosts& rails, TestKind kind,
                   uint32_t repetition);

// Does this prefix put its program on our own endpoint? Then where `run` stands in it, else nothing.
std::optional<size_t> mroce_run_in(const Words& prefix);

// With its end in sight, whatever becomes of the launcher.
Words bounded(const Words& command, uint32_t seconds);

Words collective_command(const SuiteOptions& options, const std::string& program);

}  // namespace mroce::doctor
