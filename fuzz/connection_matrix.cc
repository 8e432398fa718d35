// htsim's connection matrices.
#include "sim/connection_matrix.h"

#include "fuzz/input.h"

using namespace mroce;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto workload = sim::parse_connection_matrix(fuzz::kFile, text);
  if (!workload) {
    fuzz::require_place(workload.error(), text);
    return 0;
  }
  fuzz::require(!workload->flows.empty(), "a workload without flows");
  for (const sim::Flow& flow : workload->flows) {
    fuzz::require(flow.source < workload->hosts && flow.destination < workload->hosts, "a flow of no host");
    fuzz::require(flow.source != flow.destination && flow.bytes > 0, "a flow of nothing");
    fuzz::require(flow.start == sim::kEndOfTime || flow.start <= sim::kMaxStart, "a start beyond all");
  }
  return 0;
}
