// Activity of GPUs from the samples of bundles: nvidia-smi's table of a query, rocm-smi's lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/bundle.h"

namespace mroce::doctor {

struct GpuReading {
  std::string host, gpu;
  int64_t time_ns = 0;
  std::optional<double> busy_pct, power_w, clock_mhz, temperature_c;
};

// Is this the name of a source that may have some?
bool is_gpu_source(std::string_view source_name);
void read_gpus(const Bundle& bundle, std::vector<GpuReading>& out);
// Of all bundles in these files that `evidence` says have such sources. Standard input cannot be read twice
// and yields none.
std::vector<GpuReading> gpus_of(const Evidence& evidence);

}  // namespace mroce::doctor
