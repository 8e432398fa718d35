// Topology files of HPCC's simulator: any graph.
#include "sim/hpcc_topology.h"

#include "fuzz/input.h"
#include "sim/routing.h"

using namespace mroce;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto topology = sim::parse_hpcc_topology(fuzz::kFile, text);
  if (!topology) {
    fuzz::require_place(topology.error(), text);
    return 0;
  }
  // A way leads to its host, each step one hop nearer.
  const sim::Routing routing(*topology);
  for (uint32_t from = 0; from < topology->hosts; ++from) {
    for (uint32_t to = 0; to < topology->hosts; ++to) {
      if (from == to) continue;
      uint32_t node = topology->links[topology->first_link(from)].to;
      for (uint32_t hops = 0; node != to; ++hops) {
        fuzz::require(!topology->is_host(node) && hops < topology->nodes(), "a way that does not end");
        const auto next = routing.next(node - topology->hosts, to);
        if (next.count == 0) break;  // the graph is in pieces
        node = topology->links[next.link(next.count - 1)].to;
      }
    }
  }
  return 0;
}
