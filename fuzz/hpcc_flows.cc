// Flow files of HPCC's and ConWeave's simulators.
#include "sim/hpcc_flows.h"

#include "fuzz/input.h"

using namespace mroce;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  for (const uint32_t hosts : {0U, 16U}) {
    const auto workload = sim::parse_hpcc_flows(fuzz::kFile, text, hosts);
    if (!workload) {
      fuzz::require_place(workload.error(), text);
      continue;
    }
    fuzz::require(!workload->flows.empty(), "a workload without flows");
    sim::SimTime first = sim::kEndOfTime;
    for (const sim::Flow& flow : workload->flows) {
      fuzz::require(flow.source < workload->hosts && flow.destination < workload->hosts, "a flow of no host");
      fuzz::require(flow.source != flow.destination && flow.bytes > 0, "a flow of nothing");
      first = std::min(first, flow.start);
    }
    fuzz::require(first == 0, "the earliest flow does not begin at zero");
  }
  return 0;
}
