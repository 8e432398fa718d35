// Speed of the fabric alone: a permutation over a full fat tree with the test transport. Not a test.
//   fabric_bench [radix] [KiB a flow] [threads] [queue KiB] [spray 0|1] [pfc 0|1]

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <ctime>

#include "sim/fat_tree.h"
#include "sim/run.h"
#include "sim/test_transport.h"
#include "sim/workload_generators.h"

// Of all threads of this process.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

int main(int argc, char** argv) {
  using namespace mroce::sim;
  const auto argument = [&](int i, unsigned long fallback) {
    return argc > i ? std::strtoul(argv[i], nullptr, 10) : fallback;
  };
  auto spec = full_fat_tree(static_cast<uint32_t>(argument(1, 16)), 400'000'000'000, microseconds(1));
  auto topology = make_fat_tree(spec);
  if (!topology) {
    fmt::print(stderr, "{}\n", topology.error());
    return 2;
  }
  auto workload = make_permutation(topology->hosts, argument(2, 2048) << 10, 1);
  if (!workload) {
    fmt::print(stderr, "{}\n", workload.error());
    return 2;
  }
  RunOptions options;
  options.threads = static_cast<uint32_t>(argument(3, 1));
  options.fabric.queue_bytes = argument(4, 0) << 10;
  options.wire.fixed = 64;
  if (options.fabric.queue_bytes != 0) options.fabric.set_ecn({128'960, 503'360, 1});
  if (argument(6, 0) != 0) {
    options.fabric.queue_bytes = 0;
    options.fabric.pfc.classes = 1;
    options.fabric.shared.bytes = uint64_t{628'160} * spec.tier[2].down_ports;
  }
  TestTransportOptions transport;
  transport.window = 225;
  transport.spray = argument(5, 1) != 0;
  const auto begin = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  const auto result = run(*topology, options, workload->flows, [&](const HostContext& context) {
    return std::make_unique<TestTransport>(context, transport);
  });
  const double used = cpu_seconds() - cpu;
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!result) {
    fmt::print(stderr, "{}\n", result.error());
    return 2;
  }
  const auto hops = static_cast<double>(result->fabric.hops);
  fmt::print(
      "hosts {} threads {} hops {} events {} cpu {:.3f} s wall {:.3f} s  {:.2f} Mhops/CPU s  {:.2f} "
      "Mhops/s\n",
      topology->hosts, result->partitions, result->fabric.hops, result->fabric.events, used, wall,
      hops / used / 1e6, hops / wall / 1e6);
  fmt::print("complete {} last finish {:.2f} us marks {} drops {} pauses {} max queue {}\n", result->complete,
             static_cast<double>(result->last_finish) * 1e-6, result->fabric.marks,
             result->fabric.switch_drops, result->pauses_sent, result->max_queue_bytes);
  fmt::print("memory: fabric {} B ({:.0f} a link), packets {} B, {:.0f} B a host\n", result->fabric_bytes,
             static_cast<double>(result->fabric_bytes) / static_cast<double>(topology->links.size()),
             result->packet_bytes, static_cast<double>(result->fabric_bytes) / topology->hosts);
  return result->complete ? 0 : 1;
}
