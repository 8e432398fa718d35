#include "cli/sim_ideal.h"

#include <algorithm>

namespace mroce::cli {

// Along the first of the equal next links: all are alike in generated fabrics. No way is longer than the
// number of nodes; where none leads on, that is the end of it.
IdealTimes::Way IdealTimes::walk(uint32_t from, uint32_t to, uint32_t bytes) const {
  Way way{0, UINT64_MAX};
  uint32_t link = topology_.first_link(from);
  for (uint32_t hops = 0; hops < topology_.nodes(); ++hops) {
    const sim::LinkSpec& spec = topology_.links[link];
    way.time += spec.delay + sim::serialisation(bytes, spec.rate_bps);
    way.slowest_bps = std::min(way.slowest_bps, spec.rate_bps);
    if (topology_.is_host(spec.to)) break;
    const sim::NextLinks next = routing_.next(spec.to - topology_.hosts, to);
    if (next.count == 0) break;
    link = next.link(0);
  }
  return way;
}

sim::SimTime IdealTimes::fct(const sim::Flow& flow) const {
  const uint64_t packets = (flow.bytes + mtu_ - 1) / mtu_;
  const auto last = static_cast<uint32_t>(flow.bytes - (packets - 1) * mtu_);
  const uint64_t before =
      (packets + topology_.planes - 1) / topology_.planes - 1;  // on the plane of the last
  const Way there = walk(flow.source, flow.destination, wire_.of(last, 0));
  const Way back = walk(flow.destination, flow.source, wire_.of(0, 0));
  return sim::serialisation(before * wire_.of(mtu_, 0), there.slowest_bps) + there.time + back.time;
}

}  // namespace mroce::cli
