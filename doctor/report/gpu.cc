#include "doctor/report/gpu.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "doctor/ingest.h"
#include "doctor/lenient_json.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxReadings = 1'000'000;

// "index, utilization.gpu [%], power.draw [W]" and below it "0, 98 %, 301.20 W".
void read_table(const std::vector<std::string_view>& lines, const GpuReading& whose,
                std::vector<GpuReading>& out) {
  std::vector<std::string_view> columns;
  for (const std::string_view line : lines) {
    const auto cells = split(line, ',');
    if (contains(line, "utilization.gpu")) {
      columns = cells;
      continue;
    }
    if (columns.empty() || cells.size() != columns.size() || out.size() >= kMaxReadings) continue;
    GpuReading& reading = out.emplace_back(whose);
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string_view column = trim(columns[i]), cell = trim(cells[i]);
      const auto number = leading_number(cell);
      if (column == "index") reading.gpu = std::string(cell.substr(0, 40));
      if (column.starts_with("utilization.gpu")) reading.busy_pct = number;
      if (column.starts_with("power.draw")) reading.power_w = number;
      if (column.starts_with("clocks") && contains(column, "sm")) reading.clock_mhz = number;
      if (column.starts_with("temperature.gpu")) reading.temperature_c = number;
    }
  }
}

// "GPU[0]   : GPU use (%): 97", "GPU[0]  : Average Graphics Package Power (W): 290.0"
void read_rocm_line(std::string_view line, const GpuReading& whose, std::vector<GpuReading>& out) {
  if (!line.starts_with("GPU[")) return;
  const std::string_view name = before(line.substr(4), "]");
  const bool use = contains(line, "GPU use (%):"), power = contains(line, "Package Power (W):");
  if ((!use && !power) || name.size() > 8) return;
  const auto number = leading_number(trim(after(line, use ? "GPU use (%):" : "Package Power (W):")));
  if (!number || out.size() >= kMaxReadings) return;
  const bool same = !out.empty() && out.back().gpu == name && out.back().time_ns == whose.time_ns &&
                    out.back().host == whose.host;
  GpuReading& reading = same ? out.back() : out.emplace_back(whose);
  reading.gpu = std::string(name);
  (use ? reading.busy_pct : reading.power_w) = number;
}

std::string file_text(const std::string& file) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(file, error);
  if (error) return "";
  std::string text(std::min(size, kMaxFileBytes), '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return text;
}

}  // namespace

bool is_gpu_source(std::string_view name) {
  return name.starts_with("nvidia-smi") || name.starts_with("rocm-smi");
}

void read_gpus(const Bundle& bundle, std::vector<GpuReading>& out) {
  for (const Snapshot& snapshot : bundle.snapshots)
    for (const BundleSource& source : snapshot.sources) {
      if (!source.text || !is_gpu_source(source.name)) continue;
      GpuReading whose;
      whose.host = bundle.host;
      whose.time_ns = snapshot.time_ns;
      const Lines lines = lines_of(*source.text);
      read_table(lines.lines, whose, out);
      for (const std::string_view line : lines.lines) read_rocm_line(trim(line), whose, out);
    }
}

std::vector<GpuReading> gpus_of(const Evidence& evidence) {
  std::set<std::string> files;
  for (const SourceName& source : evidence.sources)
    if (is_gpu_source(source.inner) && source.file != "-") files.insert(source.file);
  std::vector<GpuReading> out;
  for (const std::string& file : files) {
    const std::string text = file_text(file);
    // Most hosts say that the program is missing: no need to read their bundles again.
    if (!contains(text, "utilization.gpu") && !contains(text, "GPU use (%)")) continue;
    std::string_view rest = text;
    // Bundles may stand one after the other.
    for (size_t at = rest.find_first_of("{["); at != std::string_view::npos; at = rest.find_first_of("{[")) {
      rest.remove_prefix(at);
      JsonReading reading = read_json(rest, 1);
      rest.remove_prefix(std::clamp<size_t>(reading.end, 1, rest.size()));
      read_bundles(
          std::move(reading.value), [&](Bundle&& bundle, uint32_t) { read_gpus(bundle, out); },
          [](uint32_t, std::string) {});
    }
  }
  return out;
}

}  // namespace mroce::doctor
