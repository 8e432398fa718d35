// mlnx_qos and dcb: which priorities are lossless, what is trusted, where DSCP values go.
#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

std::string enabled_list(const std::vector<std::string_view>& words, size_t first) {
  std::string list;
  for (size_t i = first; i < words.size() && i < first + 8; ++i)
    if (words[i] == "1") list += (list.empty() ? "" : ",") + std::to_string(i - first);
  return list.empty() ? "none" : list;
}

// "20016,156096,0,…,max_buffer_size=1027728": bytes of each receive buffer.
void buffer_sizes(std::string_view list, uint32_t line, Context& context) {
  size_t number = 0;
  for (const std::string_view size : split(list, ',')) {
    const auto bytes = whole_number(size);
    if (!bytes || number == 8) break;
    context.set(context.this_port(), "qos.buffer_bytes." + std::to_string(number++), trim(size), line);
  }
}

// Which buffer each priority is put into.
bool buffers_of_priorities(const std::vector<std::string_view>& words, uint32_t line, Context& context) {
  if (words.size() != 9 || words[0] != "buffer") return false;
  for (size_t i = 1; i < words.size(); ++i)
    if (words[i].size() != 1 || words[i][0] < '0' || words[i][0] > '7') return false;
  for (size_t i = 1; i < words.size(); ++i)
    context.set(context.this_port(), "qos.buffer_of_prio." + std::to_string(i - 1), words[i], line);
  return true;
}

}  // namespace

size_t read_qos(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = trim(lines[at]);
  const uint32_t number = lines.numbers[at];
  const auto done = [&] {
    ++context.understood;
    return at + 1;
  };
  if (const std::string_view trust = after(line, "Priority trust state:"); !trust.empty()) {
    context.set(context.this_port(), "qos.trust", trim(trust), number);
    return done();
  }
  if (const std::string_view sizes = after(line, "Receive buffer size (bytes):"); !sizes.empty()) {
    buffer_sizes(trim(sizes), number, context);
    return done();
  }
  const auto words = words_of(line);
  if (buffers_of_priorities(words, number, context)) return done();
  if (words.size() >= 9 && words[0] == "enabled") {
    context.set(context.this_port(), "pfc.enabled", enabled_list(words, 1), number);
    return done();
  }
  if (words.size() >= 2 && words[0] == "prio-pfc") {
    std::string list;
    for (size_t i = 1; i < words.size(); ++i)
      if (words[i].ends_with(":on")) list += (list.empty() ? "" : ",") + std::string(before(words[i], ":"));
    context.set(context.this_port(), "pfc.enabled", list.empty() ? "none" : list, number);
    return done();
  }
  if (words.size() >= 9 && (words[0] == "requests" || words[0] == "indications")) {
    uint64_t sum = 0;
    for (size_t i = 1; i < words.size(); ++i) {
      const auto count = whole_number(words[i]);
      if (!count) return at;
      sum += *count;
    }
    context.count(context.this_port(), "dcb", words[0], sum, number);
    return done();
  }
  // "prio:3 dscp:31,30,…" of mlnx_qos.
  if (words.size() == 2 && words[0].starts_with("prio:") && words[1].starts_with("dscp:")) {
    context.set(context.this_port(), "qos.dscp_of_prio." + std::string(words[0].substr(5)),
                words[1].substr(5), number);
    return done();
  }
  return at;
}

}  // namespace mroce::doctor
