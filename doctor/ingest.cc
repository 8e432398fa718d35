#include "doctor/ingest.h"

#include <fmt/format.h>

#include "doctor/bundle.h"
#include "doctor/decode.h"
#include "doctor/escape.h"
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

// The order matters where two could claim a line: the one with the narrower form comes first.
constexpr auto kReaders =
    std::to_array<Reader>({read_nccl_log, read_nccl_tests, read_perftest, read_switch, read_switch_vendors,
                           read_gpu, read_banner, read_ethtool, read_ibstat, read_rdma, read_lspci, read_qos,
                           read_host, read_mroce_sockets, read_sysfs, read_ethtool_stats});

uint32_t add_source(Evidence& evidence, std::string file, std::string inner) {
  evidence.sources.push_back({std::move(file), std::move(inner)});
  return static_cast<uint32_t>(evidence.sources.size() - 1);
}

void take_source(const BundleSource& source, Context context, const std::string& file) {
  context.source = add_source(context.evidence, file, source.name);
  if (!source.text) {
    context.problem(0, "not collected: " + source.missing.substr(0, 200));
    return;
  }
  context.device = clean_text(source.device);
  context.netdev = clean_text(source.netdev);
  if (source.device.empty() && source.netdev.empty()) {
    const auto words = words_of(source.name);
    if (words.size() > 1 && (words[0] == "ethtool" || words[0] == "mlnx_qos" || words[0] == "dcb"))
      context.netdev = std::string(words.back());
  }
  if (source.name.starts_with('/')) {
    const std::string_view value = trim(*source.text);
    if (!contains(value, "\n")) return set_sysfs(source.name, value, 1, context);
  }
  ingest_text(*source.text, context);
}

void take_bundle(Bundle&& bundle, uint32_t line, Context context, const std::string& file) {
  constexpr size_t kMaxName = 255;
  context.host = clean_text(bundle.host, kMaxName);
  if (bundle.role != Role::kUnknown) context.role = bundle.role;
  if (!bundle.boot_id.empty()) context.set_host("boot.id", bundle.boot_id, line);
  if (bundle.host.empty()) context.problem(line, "a bundle without the name of its host");
  if (bundle.snapshots.empty()) context.problem(line, "a bundle without snapshots");
  context.this_host();
  for (const Snapshot& snapshot : bundle.snapshots) {
    context.phase = snapshot.phase;
    context.time_ns = snapshot.time_ns;
    for (const BundleSource& source : snapshot.sources) take_source(source, context, file);
  }
  if (!bundle.command) return;
  context.phase = Phase::kUnknown;
  context.source = add_source(context.evidence, file, "output of the command");
  for (const std::string& word : bundle.command->argv)
    context.variant += (context.variant.empty() ? "" : " ") + word.substr(0, 200);
  ingest_text(bundle.command->output, context);
}

// Everything from line `at` on. Lines are views into one storage, but a launcher's prefixes may lie between:
// then what follows of the same host is joined.
std::string_view text_from(const Lines& lines, size_t at, std::string& joined) {
  if (lines.hosts.empty()) {
    const char* begin = lines[at].data();
    // The line feed that the storage adds to a last line without one is nobody's.
    const size_t end = lines.storage->size() - (lines.truncated_last ? 1 : 0);
    return {begin, static_cast<size_t>(lines.storage->data() + end - begin)};
  }
  for (size_t end = at; end < lines.size() && lines.hosts[end] == lines.hosts[at]; ++end) {
    joined += lines[end];
    joined += '\n';
  }
  return joined;
}

// What looks like the begin of JSON and is none may be tried again and again, each time to the end of the
// text: all trials together may look at each byte a few times.
constexpr size_t kMaxTrials = 4;

// The value that begins at line `at`. How many lines it took; 0 if it is no JSON of ours. `tried`: bytes
// looked at in vain so far.
size_t json_at(const Lines& lines, size_t at, size_t& tried, Context& context) {
  const std::string_view first = trim(lines[at]);
  if (first.empty() || (first[0] != '{' && first[0] != '[')) return 0;
  if (first[0] == '[' && first.size() > 1 && first[1] != '{' && first[1] != ' ' && first[1] != ']')
    return 0;  // "[0]: rx…"
  const size_t allowed = kMaxTrials * lines.storage->size();
  if (tried > allowed) return 0;
  std::string joined;
  const std::string_view text = text_from(lines, at, joined);
  const uint32_t first_line = lines.numbers[at];
  JsonReading reading = read_json(text, first_line);
  const size_t taken = reading.end_line - first_line + 1;
  const auto in_vain = [&]() -> size_t {
    tried += reading.end + joined.size();
    if (tried > allowed)
      context.problem(first_line, "too many beginnings of JSON that is none: only text is read from here on");
    return 0;
  };
  if (!reading.value.is_object() && !reading.value.is_array()) return in_vain();
  const std::string file = context.evidence.sources[context.source].file;
  const auto take = [&](Bundle&& bundle, uint32_t line) {
    take_bundle(std::move(bundle), line, context, file);
  };
  const auto problem = [&](uint32_t line, std::string reason) { context.problem(line, std::move(reason)); };
  const bool known = read_bundles(std::move(reading.value), take, problem) ||
                     read_json_document(std::move(reading.value), context);
  if (known) context.understood += taken;
  if (known && !reading.problem.empty())
    context.problem(reading.problem_line, "not quite JSON: " + reading.problem);
  return known ? std::max<size_t>(taken, 1) : in_vain();
}

}  // namespace

void ingest_text(std::string_view text, Context& context) {
  Lines lines = lines_of(text);
  const Context original = context;
  size_t tried = 0;
  for (size_t at = 0; at < lines.size();) {
    if (!lines.hosts.empty() && (at == 0 || lines.hosts[at] != lines.hosts[at - 1])) {
      context.host = lines.hosts[at];
      context.role = Role::kUnknown;
      context.device = original.device;
      context.netdev = original.netdev;
    }
    if (const size_t taken = json_at(lines, at, tried, context); taken > 0) {
      at += taken;
      continue;
    }
    if (lines[at].size() >= lines.longest)
      context.problem(lines.numbers[at],
                      fmt::format("a line of more than {} KiB: its end was not read", lines.longest >> 10));
    size_t next = at;
    for (const Reader reader : kReaders) {
      next = reader(lines, at, context);
      if (next > at) break;
    }
    at = next > at ? next : at + 1;
  }
  if (lines.cut) context.problem(lines.numbers.back(), "too many lines: the rest was not read");
}

void ingest(InputText input, Context context) {
  const NameHints hints = hints_of(input.hints);
  context.host = hints.host;
  context.role = hints.role;
  context.phase = hints.phase;
  context.device = hints.device;
  context.netdev = hints.netdev;
  context.variant = hints.variant;
  context.source = add_source(context.evidence, input.name, "");
  const uint64_t before = context.understood;
  if (trim(input.text).empty()) {
    context.problem(0, "the file is empty");
    return;
  }
  // Half a line says nothing, or the wrong thing.
  if (const size_t end = input.text.rfind('\n'); input.cut && end != std::string::npos)
    input.text.resize(end + 1);
  for (TextRemark& remark : decode_text(input.text)) context.problem(remark.line, std::move(remark.reason));
  ingest_text(input.text, context);
  if (input.cut)
    context.problem(0, fmt::format("longer than {} MiB: the rest was not read", kMaxFileBytes >> 20));
  if (context.understood == before) context.problem(1, "nothing in here is known");
}

}  // namespace mroce::doctor
