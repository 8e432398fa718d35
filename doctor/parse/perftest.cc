// perftest: preamble, table, errors; and its JSON, which often is none (lenient_json.h) and never has a unit.
//
// "MB/sec" and "MiB/sec" are both 2^20 bytes a second; "Gb/sec" is 10^9 bits. A row belongs to the preamble
// before it.
#include <algorithm>

#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

constexpr double kGbitsPerMiB = 8.388608e-3;

struct Preamble {
  PerftestRow row;  // what all rows share
  bool latency = false;
};

std::string value_after(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = trim(line.substr(at + key.size()));
  if (!rest.starts_with(':')) return {};
  const auto words = words_of(rest.substr(1));
  return words.empty() ? std::string() : std::string(words[0]);
}

void preamble_line(std::string_view line, Preamble& out, Context& context) {
  if (const auto test = perftest_test_of(line); !test.empty() && contains(line, "Test")) {
    out.row.test = test;
    out.latency = contains(test, "lat");
    out.row.bidirectional = contains(line, "Bidirectional");
  }
  if (const auto device = value_after(line, "Device"); !device.empty()) {
    out.row.device = device;
    context.device = device;
    context.netdev.clear();
  }
  if (const auto qps = value_after(line, "Number of qps"); !qps.empty()) out.row.qps = real_number(qps);
  if (const auto mtu = value_after(line, "Mtu"); !mtu.empty()) out.row.mtu_bytes = leading_number(mtu);
  if (const auto layer = value_after(line, "Link type"); !layer.empty()) out.row.link_layer = layer;
  if (const auto gid = value_after(line, "GID index"); !gid.empty()) out.row.gid_index = real_number(gid);
  if (contains(line, "CUDA") || contains(line, "cuda") || contains(line, "GPU")) out.row.gpu_memory = true;
}

enum class Column : uint8_t {
  kBytes,
  kIterations,
  kPeak,
  kAverage,
  kRate,
  kCpu,
  kSl,
  kMin,
  kMax,
  kTypical,
  kAvgTime,
  kStdev,
  kP99,
  kP999,
  kTps
};

// The header's words up to the bracket: "BW average[MiB/sec]" is two words, "99% percentile[usec]" too.
std::vector<Column> columns_of(std::string_view header) {
  struct Known {
    std::string_view words;
    Column column;
  };
  static constexpr std::array kKnown = {
      Known{"#bytes", Column::kBytes},
      Known{"iterations", Column::kIterations},
      Known{"BW peak", Column::kPeak},
      Known{"BW average", Column::kAverage},
      Known{"MsgRate", Column::kRate},
      Known{"CPU_Util", Column::kCpu},
      Known{"#sl", Column::kSl},
      Known{"t_min", Column::kMin},
      Known{"t_max", Column::kMax},
      Known{"t_typical", Column::kTypical},
      Known{"t_avg", Column::kAvgTime},
      Known{"t_stdev", Column::kStdev},
      Known{"99% percentile", Column::kP99},
      Known{"99.9% percentile", Column::kP999},
      Known{"tps average", Column::kTps},
  };
  std::vector<std::pair<size_t, Column>> found;
  for (const Known& known : kKnown) {
    size_t at = header.find(known.words);
    if (known.column == Column::kP99)
      while (at != std::string_view::npos && at > 0 && header[at - 1] == '.')
        at = header.find(known.words, at + 1);
    if (at != std::string_view::npos) found.emplace_back(at, known.column);
  }
  std::sort(found.begin(), found.end());
  std::vector<Column> out;
  for (const auto& [at, column] : found) out.push_back(column);
  return out;
}

void bandwidth(PerftestRow& row, std::string_view unit, double value, bool peak) {
  std::optional<double> gbps;
  if (unit == "MiB/sec" || unit == "MB/sec") gbps = value * kGbitsPerMiB;
  if (unit == "Gb/sec") gbps = value;
  row.unit = std::string(unit);
  if (peak && value == 0) return;  // not measured
  if (peak)
    row.peak_gbps = gbps;
  else if (gbps)
    row.goodput_gbps = gbps;
  else
    row.bare_number = value;
}

bool table_row(std::string_view line, const std::vector<Column>& columns, std::string_view unit,
               PerftestRow& row) {
  const auto words = words_of(line);
  if (words.size() < columns.size() || words.empty() || !whole_number(words[0])) return false;
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto value = real_number(words[i]);
    if (!value) return false;
    switch (columns[i]) {
      case Column::kBytes:
        row.bytes = value;
        break;
      case Column::kIterations:
        row.iterations = value;
        break;
      case Column::kPeak:
      case Column::kAverage:
        bandwidth(row, unit, *value, columns[i] == Column::kPeak);
        break;
      case Column::kRate:
        row.message_rate_mpps = value;
        break;
      case Column::kCpu:
        row.cpu_pct = value;
        break;
      case Column::kTypical:
        row.latency_us = value;
        break;
      case Column::kAvgTime:
        if (!row.latency_us) row.latency_us = value;
        break;
      case Column::kP99:
        row.latency_p99_us = value;
        break;
      default:
        break;
    }
  }
  return true;
}

void finish(PerftestRow& row) {
  row.duration_s = standard_duration(row.bytes, row.iterations, row.goodput_gbps);
  if (row.duration_s && row.bidirectional) *row.duration_s *= 2;
}

std::string_view unit_in(std::string_view header) {
  const std::string_view rest = after(header, "BW average[");
  return rest.empty() ? std::string_view() : before(rest, "]");
}

size_t table(const Lines& lines, size_t at, const Preamble& preamble, Context& context) {
  const auto columns = columns_of(lines[at]);
  const std::string_view unit = unit_in(lines[at]);
  size_t next = at + 1, blank = 0;
  for (; next < lines.size() && blank < 2; ++next) {
    if (trim(lines[next]).empty()) {
      ++blank;
      continue;
    }
    PerftestRow row = preamble.row;
    if (!table_row(lines[next], columns, unit, row)) {
      if (contains(lines[next], "Conflicting CPU frequency") || contains(lines[next], "NCCL INFO")) continue;
      break;
    }
    row.host = context.host;
    row.variant = context.variant;
    if (row.device.empty()) row.device = context.device;
    row.gpu_memory =
        row.gpu_memory || contains_word(context.variant, "cuda") || contains_word(context.variant, "gpu");
    row.where = context.where(lines.numbers[next]);
    finish(row);
    context.evidence.perftest.push_back(std::move(row));
  }
  if (next == at + 1) context.problem(lines.numbers[at], "a perftest table without a row");
  return next;
}

bool error_line(std::string_view line, uint32_t number, Context& context) {
  if (const std::string_view rest = after(line, "Failed status"); !rest.empty()) {
    std::optional<double> status = leading_number(rest);
    if (const size_t open = line.find('('); !status && open != std::string_view::npos)
      status = leading_number(line.substr(open + 1));
    if (!status) return false;
    context.event("wc-error", line, number);
    context.evidence.events.back().status = status;
    context.evidence.events.back().fields["tool"] = "perftest";
    return true;
  }
  for (const std::string_view words :
       {"Couldn't connect to", "Unable to init the socket connection",
        "Found Incompatibility issue with GID types", "to RTR", "Couldn't get device attributes",
        "No IB devices found", "Unable to find the Infiniband/RoCE device"}) {
    if (!contains(line, words)) continue;
    const bool gid = contains(words, "GID") || contains(words, "RTR");
    const bool device = contains(words, "device");
    context.event(gid ? "connect-error" : device ? "no-device" : "tool-error", line, number);
    return true;
  }
  return false;
}

}  // namespace

std::optional<double> standard_duration(std::optional<double> bytes, std::optional<double> iterations,
                                        std::optional<double> goodput_gbps) {
  if (!bytes || !iterations || !goodput_gbps || *goodput_gbps <= 0) return std::nullopt;
  return *bytes * *iterations * 8 / (*goodput_gbps * 1e9);
}

std::string perftest_test_of(std::string_view text) {
  const std::string low = lowered(text);
  const char* operation = contains(low, "write")    ? "write"
                          : contains(low, "read")   ? "read"
                          : contains(low, "send")   ? "send"
                          : contains(low, "atomic") ? "atomic"
                                                    : nullptr;
  if (operation == nullptr) return {};
  if (contains(low, "latency") || contains(low, "_lat")) return std::string(operation) + "_lat";
  if (contains(low, "bw") || contains(low, "bandwidth")) return std::string(operation) + "_bw";
  return {};
}

size_t read_perftest(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = lines[at];
  if (error_line(line, lines.numbers[at], context)) return at + 1;
  const auto begins = [](std::string_view text) {
    return (contains(text, " Test") && !perftest_test_of(text).empty()) || contains(text, "Dual-port");
  };
  const auto is_header = [](std::string_view text) {
    return contains(text, "#bytes") && contains(text, "[");
  };
  if (!begins(line) && !is_header(line)) return at;
  Preamble preamble;
  if (preamble.row.test.empty())
    preamble.row.test = perftest_test_of(context.evidence.sources[context.source].file);
  constexpr size_t kLongest = 400;
  for (size_t next = at; next < lines.size() && next < at + kLongest; ++next) {
    if (is_header(lines[next])) {
      const size_t end = table(lines, next, preamble, context);
      context.understood += end - at;
      return end;
    }
    if (next > at && begins(lines[next]) && contains(lines[next], " Test"))
      return next;  // the first one never got to a table
    preamble_line(lines[next], preamble, context);
    error_line(lines[next], lines.numbers[next], context);
  }
  context.problem(lines.numbers[at], "a perftest preamble without a table");
  context.event("test-failed", preamble.row.test, lines.numbers[at]);
  return std::min(lines.size(), at + kLongest);
}

bool read_perftest_json(const JsonValue& value, Context& context) {
  const JsonValue *info = value.find("test_info"), *results = value.find("results");
  if (info == nullptr || results == nullptr) return false;
  PerftestRow row;
  row.host = context.host;
  row.variant = context.variant;
  row.test = perftest_test_of(info->string_at("test"));
  row.bidirectional = contains(lowered(info->string_at("test")), "bidirectional");
  row.device = info->string_at("Device");
  row.qps = info->number_at("Number_of_qps");
  row.mtu_bytes = info->number_at("Mtu");
  row.link_layer = info->string_at("Link_type");
  row.gid_index = info->number_at("GID_index");
  const auto one = [&](const JsonValue& result) {
    PerftestRow out = row;
    out.bytes = result.number_at("MsgSize");
    out.iterations = result.number_at("n_iterations");
    out.message_rate_mpps = result.number_at("MsgRate");
    out.bare_number = result.number_at("BW_average");
    if (!out.bare_number) out.bare_number = result.number_at("bw_avg");
    out.latency_us = result.number_at("t_typical");
    if (!out.latency_us) out.latency_us = result.number_at("t_avg");
    out.where = context.where(result.line);
    // No unit in there. A bundle's command line may say it.
    if (out.bare_number && contains(context.variant, "--report_gbits")) {
      out.goodput_gbps = out.bare_number;
      out.unit = "Gb/sec";
      out.bare_number.reset();
      finish(out);
    }
    context.evidence.perftest.push_back(std::move(out));
  };
  if (results->is_array())
    for (const JsonValue& item : results->items) one(item);
  else
    one(*results);
  return true;
}

}  // namespace mroce::doctor
