// What GPUs do, as their tools print it; one fact for all GPUs of the host, as the rules ask about hosts.
//
//   dcgmi dmon          "#Entity  GPUTL  SMACT" and rows "GPU 0  98  0.11": the mean over all rows
//   dcgm-exporter       DCGM_FI_PROF_SM_ACTIVE{gpu="0",…} 0.11, one GPU a line: the mean, of errors the last
//   nvidia-smi          "index, utilization.gpu [%], …" and rows below: the mean
//   rocm-smi, amd-smi   "GPU[0] : GPU use (%): 97", "GFX_ACTIVITY: 97 %": the mean
//   nvidia-smi topo -m  how far each GPU is from its nearest adapter
//
// Activity of multiprocessors is what tells work from waiting: a collective that waits keeps utilisation at
// 100 %.
#include <algorithm>

#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

struct Mean {
  double sum = 0;
  size_t count = 0;
  uint32_t line = 0;
  void add(std::optional<double> value, uint32_t at) {
    if (!value) return;
    sum += *value;
    ++count;
    line = at;
  }
  void set(Context& context, std::string_view name, double factor = 1) const {
    if (count > 0) context.set_host(name, std::to_string(sum / static_cast<double>(count) * factor), line);
  }
};

std::optional<double> cell(const std::vector<std::string_view>& words, size_t at) {
  return at < words.size() ? real_number(words[at]) : std::nullopt;
}

// Rows begin with "GPU 0", two words under one head.
size_t dcgm_table(const Lines& lines, size_t at, Context& context) {
  auto head = words_of(lines[at]);
  if (!head.empty() && head[0] == "#") head.erase(head.begin());
  if (head.size() < 2 || (head[0] != "#Entity" && head[0] != "Entity")) return at;
  const auto column = [&](std::string_view name) {
    return static_cast<size_t>(std::find(head.begin(), head.end(), name) - head.begin()) + 1;
  };
  const size_t busy = column("GPUTL"), active = column("SMACT");
  Mean busy_pct, active_share;
  size_t next = at + 1;
  for (; next < lines.size(); ++next) {
    const auto words = words_of(lines[next]);
    if (words.size() == 1 && (words[0] == "ID" || words[0] == "Id")) continue;
    if (!words.empty() && (words[0] == "#Entity" || words[0] == "#"))
      continue;  // the head again, each screen
    if (words.size() != head.size() + 1 || words[0] != "GPU" || !whole_number(words[1])) break;
    busy_pct.add(cell(words, busy), lines.numbers[next]);
    active_share.add(cell(words, active), lines.numbers[next]);
  }
  busy_pct.set(context, "gpu.util_pct");
  active_share.set(context, "gpu.sm_active_pct", 100);
  return next;
}

// Reasons of NVML's bit mask that mean a fault, not a limit that somebody chose.
std::string_view throttle_reason(uint64_t bits) {
  if ((bits & 0x40) != 0) return "HW Thermal Slowdown";
  if ((bits & 0x80) != 0) return "HW Power Brake Slowdown";
  if ((bits & 0x08) != 0) return "HW Slowdown";
  if ((bits & 0x20) != 0) return "SW Thermal Slowdown";
  return "none";
}

// "NAME{labels} value [time]": labels may hold blanks and braces within quotes.
bool sample_of(std::string_view line, std::string_view& name, std::string_view& value) {
  if (!line.starts_with("DCGM_FI_")) return false;
  const size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos) return false;
  name = line.substr(0, end);
  if (name.ends_with(':')) return false;  // somebody's note, not Prometheus
  size_t at = end;
  if (line[end] == '{') {
    bool quoted = false;
    for (; at < line.size() && (quoted || line[at] != '}'); ++at) {
      if (line[at] == '\\')
        ++at;
      else if (line[at] == '"')
        quoted = !quoted;
    }
    if (at >= line.size()) return false;
    ++at;
  }
  const auto words = words_of(line.substr(at));
  if (words.empty() || words.size() > 2) return false;
  value = words[0];
  return true;
}

size_t dcgm_exporter(const Lines& lines, size_t at, Context& context) {
  Mean busy_pct, active_share;
  uint64_t errors = 0;
  uint32_t errors_line = 0, throttle_line = 0;
  std::string_view throttle = "none";
  size_t next = at, read = at;
  for (; next < lines.size(); ++next) {
    const std::string_view line = trim(lines[next]);
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ") || (line.empty() && next > at)) continue;
    std::string_view name, value;
    if (!sample_of(line, name, value)) break;
    read = next + 1;
    const uint32_t number = lines.numbers[next];
    if (name == "DCGM_FI_DEV_GPU_UTIL") busy_pct.add(real_number(value), number);
    if (name == "DCGM_FI_PROF_SM_ACTIVE") active_share.add(real_number(value), number);
    const auto whole = whole_number(value);
    if (!whole) continue;
    if (name == "DCGM_FI_DEV_XID_ERRORS" && (errors_line == 0 || *whole > errors)) {
      errors = *whole;
      errors_line = number;
    }
    if (name != "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS" && name != "DCGM_FI_DEV_CLOCKS_EVENT_REASONS") continue;
    if (throttle_line == 0 || throttle == "none") throttle_line = number;
    if (throttle_reason(*whole) != "none") throttle = throttle_reason(*whole);
  }
  if (read == at) return at;
  busy_pct.set(context, "gpu.util_pct");
  active_share.set(context, "gpu.sm_active_pct", 100);
  if (errors_line != 0) context.set_host("gpu.xid", std::to_string(errors), errors_line);
  if (throttle_line != 0) context.set_host("gpu.throttle", throttle, throttle_line);
  return read;
}

// "index, utilization.gpu [%], power.draw [W]" and below it "0, 98 %, 301.20 W".
size_t nvidia_query(const Lines& lines, size_t at, Context& context) {
  if (!contains(lines[at], "utilization.gpu") || !contains(lines[at], ",")) return at;
  const auto head = split(lines[at], ',');
  Mean busy_pct;
  size_t next = at + 1;
  for (; next < lines.size(); ++next) {
    const auto cells = split(lines[next], ',');
    if (cells.size() != head.size() || contains(lines[next], "utilization.gpu")) break;
    for (size_t i = 0; i < cells.size(); ++i)
      if (trim(head[i]).starts_with("utilization.gpu"))
        busy_pct.add(leading_number(cells[i]), lines.numbers[next]);
  }
  busy_pct.set(context, "gpu.util_pct");
  return next;
}

// One GPU below the other, each with a page of keys: rocm-smi's begin with "GPU[0]", amd-smi's are indented.
size_t amd_pages(const Lines& lines, size_t at, Context& context) {
  const std::string_view first = trim(lines[at]);
  const bool amd_smi = first.starts_with("GFX_ACTIVITY:");
  if (!amd_smi && !(first.starts_with("GPU[") && contains(first, "GPU use (%):"))) return at;
  Mean busy_pct;
  size_t last = at;
  for (size_t next = at; next < lines.size(); ++next) {
    const std::string_view line = lines[next];
    const bool of_page = amd_smi ? line.empty() || line.starts_with(' ') || line.starts_with("GPU: ")
                                 : line.starts_with("GPU[");
    if (!of_page) break;
    const std::string_view value = after(line, amd_smi ? "GFX_ACTIVITY:" : "GPU use (%):");
    if (value.empty()) continue;
    busy_pct.add(leading_number(value), lines.numbers[next]);
    last = next;
  }
  busy_pct.set(context, "gpu.util_pct");
  return last + 1;
}

// How far: the kinds of nvidia-smi's legend. From PHB on, what they exchange crosses a host bridge.
constexpr std::array<std::string_view, 5> kDistances = {"PIX", "PXB", "PHB", "NODE", "SYS"};

bool is_adapter(std::string_view name) {
  return name.starts_with("NIC") || name.starts_with("mlx") || name.starts_with("bnxt") ||
         name.starts_with("irdma");
}

size_t topology(const Lines& lines, size_t at, Context& context) {
  if (!lines[at].starts_with('\t') && !lines[at].starts_with(' ')) return at;
  std::vector<std::string_view> head;  // "CPU Affinity" is two words; adapters and GPUs come before
  for (const auto word : words_of(lines[at]))
    if (word.starts_with("GPU") || is_adapter(word)) head.push_back(word);
  if (head.empty() || head[0] != "GPU0" || !std::any_of(head.begin(), head.end(), is_adapter)) return at;
  size_t gpus = 0, far_gpus = 0, worst = 0, next = at + 1;
  uint32_t worst_line = lines.numbers[at];
  for (; next < lines.size(); ++next) {
    const auto words = words_of(lines[next]);
    if (words.empty() || (!words[0].starts_with("GPU") && !is_adapter(words[0]))) break;
    if (!words[0].starts_with("GPU")) continue;
    size_t nearest = kDistances.size();
    for (size_t i = 0; i < head.size() && i + 1 < words.size(); ++i) {
      const auto kind = std::find(kDistances.begin(), kDistances.end(), words[i + 1]);
      if (is_adapter(head[i])) nearest = std::min(nearest, static_cast<size_t>(kind - kDistances.begin()));
    }
    if (nearest == kDistances.size()) continue;
    ++gpus;
    far_gpus += nearest >= 2 ? 1 : 0;
    if (nearest < worst) continue;
    worst = nearest;
    worst_line = lines.numbers[next];
  }
  if (gpus == 0) return at;
  context.set_host("topo.gpus", std::to_string(gpus), lines.numbers[at]);
  context.set_host("topo.far_gpus", std::to_string(far_gpus), worst_line);
  context.set_host("topo.farthest", kDistances[worst], worst_line);
  return next;
}

}  // namespace

size_t read_gpu(const Lines& lines, size_t at, Context& context) {
  if (lines[at].empty()) return at;
  for (const Reader reader : {dcgm_table, dcgm_exporter, nvidia_query, amd_pages, topology}) {
    const size_t next = reader(lines, at, context);
    if (next == at) continue;
    context.understood += next - at;
    return next;
  }
  return at;
}

}  // namespace mroce::doctor
