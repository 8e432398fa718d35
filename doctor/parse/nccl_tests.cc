// nccl-tests and rccl-tests, all versions: the row is read from its end, where the columns of all versions
// agree.
//
//   size count type [redop] [root]  time algbw busbw wrong  time algbw busbw wrong  [timestamps…]
//
// More than one header, or ranks that count from zero twice, in one output: these are runs that knew nothing
// of each other.
#include <algorithm>

#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

CollectiveTable& current(Context& context, uint32_t line, bool fresh) {
  auto& tables = context.evidence.collectives;
  const bool open =
      !tables.empty() && tables.back().where.source == context.source && tables.back().host == context.host;
  if (!fresh && open) return tables.back();
  CollectiveTable& table = tables.emplace_back();
  table.host = context.host;
  table.variant = context.variant;
  table.where = context.where(line);
  return table;
}

bool is_type(std::string_view word) {
  static constexpr std::array<std::string_view, 16> kTypes = {
      "float",  "half",     "double",  "int8",    "uint8",  "int32",  "uint32",   "int64",
      "uint64", "bfloat16", "float16", "float32", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"};
  return std::find(kTypes.begin(), kTypes.end(), word) != kTypes.end();
}

bool is_redop(std::string_view word) {
  static constexpr std::array<std::string_view, 6> kOps = {"sum", "prod", "max", "min", "avg", "none"};
  return std::find(kOps.begin(), kOps.end(), word) != kOps.end() || word == "mulsum";
}

bool data_row(std::string_view line, CollectiveRow& row, bool& wrong_known) {
  const auto words = words_of(line);
  if (words.size() < 7 || words.size() > 40) return false;
  const auto size = whole_number(words[0]), count = whole_number(words[1]);
  if (!size || !count || !is_type(words[2])) return false;
  size_t at = 3;
  if (at < words.size() && is_redop(words[at])) ++at;
  const bool has_root = at + 4 <= words.size() && real_number(words[at]) && !contains(words[at], ".") &&
                        (words.size() - at == 5 || words.size() - at >= 9);
  if (has_root) ++at;
  if (words.size() - at < 3) return false;
  row.bytes = static_cast<double>(*size);
  row.time_us = real_number(words[at]);
  row.busbw_gBps = real_number(words[at + 2]);
  const auto error = [&](size_t i) {
    if (i >= words.size()) return;
    const auto number = real_number(words[i]);
    if (!number) return;
    wrong_known = true;
    // Until 2.12 the column is the greatest error of a sum, "5e-07": not a count.
    if (contains(words[i], "e") || contains(words[i], ".")) return;
    row.wrong = row.wrong.value_or(0) + *number;
  };
  error(at + 3);
  if (words.size() >= at + 7) {
    row.time_in_us = real_number(words[at + 4]);
    row.busbw_in_gBps = real_number(words[at + 6]);
    error(at + 7);
  }
  return row.time_us && row.busbw_gBps;
}

void rank_line(std::string_view line, CollectiveTable& table) {
  const auto words = words_of(line);
  ++table.ranks;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "Rank" && whole_number(words[i + 1]) == 0u) ++table.times_rank_zero;
    if (words[i] == "on") {
      const std::string host(words[i + 1]);
      if (std::find(table.hosts.begin(), table.hosts.end(), host) == table.hosts.end() &&
          table.hosts.size() < 100'000)
        table.hosts.push_back(host);
    }
  }
}

bool trailer(std::string_view line, uint32_t number, Context& context) {
  if (const std::string_view rest = after(line, "Out of bounds values"); !rest.empty()) {
    CollectiveTable& table = current(context, number, false);
    if (contains(rest, "FAILED")) {
      table.out_of_bounds_failed = true;
      table.wrong_where = context.where(number);
    }
    return true;
  }
  if (const std::string_view rest = after(line, "Avg bus bandwidth"); !rest.empty()) {
    CollectiveTable& table = current(context, number, false);
    ++table.trailers;
    if (const auto value = leading_number(trim(after(rest, ":")))) {
      table.avg_busbw_gBps = value;
      table.average_where = context.where(number);
    }
    return true;
  }
  return false;
}

}  // namespace

size_t read_nccl_tests(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = trim(lines[at]);
  const uint32_t number = lines.numbers[at];
  const auto done = [&] {
    ++context.understood;
    return at + 1;
  };
  if (line.starts_with("# nThread ") || line.starts_with("#nThread ")) {
    auto& tables = context.evidence.collectives;
    // A second header before the first run has come to its end: the output of runs that knew nothing of each
    // other. Behind the end it is the next run.
    const bool open =
        !tables.empty() && tables.back().where.source == context.source && tables.back().host == context.host;
    const bool ended = open && tables.back().headers > 0 && tables.back().trailers >= tables.back().headers;
    CollectiveTable& table = current(context, number, !open || ended);
    if (!context.version.empty() && table.version.empty()) table.version = context.version;
    if (++table.headers == 2) table.second_header = context.where(number);
    const std::string_view warmup = after(line, "warmup iters:");
    if (const auto count = leading_number(warmup)) table.warmup = count;
    return done();
  }
  if (const std::string_view version = after(line, "nccl-library=");
      line.starts_with("#") && !version.empty()) {
    context.version = std::string(words_of(version)[0]);
    return done();
  }
  if (line.starts_with("# Collective test starting:") || line.starts_with("# Collective test concluded:")) {
    std::string name(trim(after(line, ":")));
    if (name.ends_with("_perf")) name.resize(name.size() - 5);
    const auto& tables = context.evidence.collectives;
    const bool next = !tables.empty() && tables.back().trailers > 0 && contains(line, "starting");
    current(context, number, next).name = name;
    return done();
  }
  if (line.starts_with("#") && contains(line, "Rank") && contains(line, "Pid") && contains(line, " on ")) {
    rank_line(line, current(context, number, false));
    return done();
  }
  if (line.starts_with("#") && trailer(line, number, context)) return done();
  CollectiveRow row;
  bool wrong_known = false;
  if (data_row(line, row, wrong_known)) {
    row.where = context.where(number);
    CollectiveTable& table = current(context, number, false);
    if (!context.version.empty() && table.version.empty()) table.version = context.version;
    if (row.wrong) table.wrong = table.wrong.value_or(0) + *row.wrong;
    if (row.wrong.value_or(0) > 0) table.wrong_where = row.where;
    if (table.rows.size() < 100'000) table.rows.push_back(row);
    return done();
  }
  if (contains(line, "Test NCCL failure") || contains(line, "Test failure")) {
    context.event("collective-failed", line, number);
    return done();
  }
  // "mpirun -np 16 …": how many ranks were meant.
  const auto words = words_of(line);
  for (size_t i = 0; i + 1 < words.size() && (contains(line, "mpirun") || contains(line, "srun")); ++i) {
    const auto ranks = whole_number(words[i + 1]);
    if ((words[i] != "-np" && words[i] != "-n" && words[i] != "--np" && words[i] != "--ntasks") || !ranks)
      continue;
    if (!contains(line, "_perf")) break;
    context.event("launch", line, number);
    context.evidence.events.back().status = static_cast<double>(*ranks);
    return done();
  }
  return at;
}

bool read_nccl_json(const JsonValue& value, Context& context) {
  const JsonValue* results = value.find("results");
  if (results == nullptr || !results->is_array() || value.find("nccl_version") == nullptr) return false;
  CollectiveTable& table = current(context, value.line, true);
  table.headers = table.trailers = 1;
  table.version = value.string_at("nccl_version");
  if (const JsonValue* devices = value.find("devices"); devices != nullptr)
    for (const JsonValue& device : devices->items) {
      ++table.ranks;
      if (device.number_at("rank") == 0.0) ++table.times_rank_zero;
      std::string host = device.string_at("host");
      if (host.empty()) host = device.string_at("hostname");
      if (!host.empty() && std::find(table.hosts.begin(), table.hosts.end(), host) == table.hosts.end())
        table.hosts.push_back(host);
    }
  for (const JsonValue& result : results->items) {
    CollectiveRow row;
    row.bytes = result.number_at("size").value_or(0);
    row.where = context.where(result.line);
    const auto side = [&](const char* name, std::optional<double>& time, std::optional<double>& busbw) {
      const JsonValue* part = result.find(name);
      if (part == nullptr || !part->is_object()) return;
      time = part->number_at("time");
      busbw = part->number_at("bus_bw");
      if (const auto wrong = part->number_at("nwrong")) {
        row.wrong = row.wrong.value_or(0) + *wrong;
        table.wrong = table.wrong.value_or(0) + *wrong;
        if (*wrong > 0) table.wrong_where = row.where;
      }
    };
    side("out_of_place", row.time_us, row.busbw_gBps);
    side("in_place", row.time_in_us, row.busbw_in_gBps);
    table.rows.push_back(row);
  }
  if (const JsonValue* bounds = value.find("out_of_bounds");
      bounds != nullptr && bounds->string_at("okay") == "false") {
    table.out_of_bounds_failed = true;
    table.wrong_where = context.where(bounds->line);
  }
  if (const JsonValue* average = value.find("average_bus_bandwidth"); average != nullptr) {
    table.avg_busbw_gBps = average->number_at("bandwidth");
    table.average_where = context.where(average->line);
  }
  return true;
}

}  // namespace mroce::doctor
