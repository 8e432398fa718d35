// htsim's .topo files, and that what the reader accepts can be built.
#include "sim/topo_file.h"

#include "fuzz/input.h"

using namespace mroce;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto spec = sim::parse_topo(fuzz::kFile, text);
  if (!spec) {
    fuzz::require_place(spec.error(), text);
    return 0;
  }
  constexpr uint32_t kMostHosts = 4096;  // larger ones only take longer
  if (spec->hosts > kMostHosts || spec->tier[0].up_ports > 64 || spec->tier[1].up_ports > 64) return 0;
  const auto topology = sim::make_fat_tree(*spec);
  if (!topology) return fuzz::require_sentence(topology.error()), 0;
  fuzz::require(topology->hosts == spec->hosts, "the fabric has other hosts than the file");
  fuzz::require(topology->base_rtt(4096, 64) > 0, "hosts that do not reach each other");
  return 0;
}
