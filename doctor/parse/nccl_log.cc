// NCCL and RCCL logs. Kinds of events:
//   ib-using      fields: count, names ("mlx5_0,mlx5_1")     net-socket, net-ib, net-none
//   gdr-on        a channel or an adapter with GPUDirect RDMA  gdr-off    one without
//   wc-error      status; fields: side, vendor, hca           async-event
//   acs           a hint of the library that PCIe access control is in the way
// Opcode, length and hints of an error line are not used: they are undefined when the status is not zero.
#include <algorithm>

#include "doctor/parse/parsers.h"

namespace mroce::doctor {
namespace {

std::string names_of(std::string_view rest, size_t& count) {
  std::string names;
  for (const auto word : words_of(before(rest, "; OOB"))) {
    if (!word.starts_with('[')) continue;
    const std::string_view inside = after(word, "]");
    const std::string_view name = before(inside, ":");
    if (name.empty()) continue;
    ++count;
    names += (names.empty() ? "" : ",") + std::string(name);
  }
  return names;
}

// "status=IBV_WC_RETRY_EXC_ERR(12)", "status=12", "with error 12,".
std::optional<double> status_of(std::string_view line) {
  for (const std::string_view key : {"status=", "with error "}) {
    const std::string_view rest = after(line, key);
    if (rest.empty()) continue;
    if (const auto number = leading_number(rest)) return number;
    if (const auto number = leading_number(after(rest.substr(0, 60), "("))) return number;
  }
  return std::nullopt;
}

bool completion_error(std::string_view line, uint32_t number, Context& context) {
  if (!contains(line, "Got completion")) return false;
  const auto status = status_of(line);
  if (!status) return false;
  context.event("wc-error", line, number);
  Event& event = context.evidence.events.back();
  event.status = status;
  event.fields["tool"] = "nccl";
  if (contains(line, "(Send)")) event.fields["side"] = "send";
  if (contains(line, "(Recv)")) event.fields["side"] = "receive";
  if (const auto hca = words_of(after(line, "hca ")); !hca.empty()) event.fields["hca"] = std::string(hca[0]);
  return true;
}

}  // namespace

size_t read_nccl_log(const Lines& lines, size_t at, Context& context) {
  const std::string_view line = lines[at];
  const uint32_t number = lines.numbers[at];
  const auto done = [&] {
    ++context.understood;
    return at + 1;
  };
  if (completion_error(line, number, context)) return done();
  if (contains(line, "RTO retransmission threshold"))
    return context.event("transport-timeout", line, number), done();
  if (contains(lowered(line.substr(0, 200)), "health check") &&
      contains(lowered(line.substr(0, 300)), "fail"))
    return context.event("check-failed", line, number), done();
  const bool nccl = contains(line, "NCCL version") || contains(line, "NCCL INFO") ||
                    contains(line, "NCCL WARN") || contains(line, "NET/") || contains(line, "Using network ");
  if (!nccl) return at;
  if (const auto version = words_of(after(line, "NCCL version ")); !version.empty()) {
    context.version = std::string(before(version[0], "+"));
    return done();
  }
  if (contains(line, "NET/IB : Using [")) {
    size_t count = 0;
    const std::string names = names_of(after(line, "Using "), count);
    context.event("ib-using", names, number);
    context.evidence.events.back().status = static_cast<double>(count);
    context.evidence.events.back().fields["names"] = names;
    return done();
  }
  if (contains(line, "NET/IB : No device found")) return context.event("net-none", line, number), done();
  if (contains(line, "ibv_open_device failed") || contains(line, "Unable to open device"))
    return context.event("net-none", line, number), done();
  if (contains(line, "Using network Socket") || contains(line, "NET/Socket : Using"))
    return context.event("net-socket", line, number), done();
  if (contains(line, "Using network IB") || contains(line, "Using network AWS") || contains(line, "NET/OFI"))
    return context.event("net-ib", line, number), done();
  if (contains(line, "GPU Direct RDMA Enabled")) return context.event("gdr-on", line, number), done();
  if (contains(line, "GPU Direct RDMA Disabled")) return context.event("gdr-off", line, number), done();
  if (contains(line, "via NET/IB/")) {
    const bool direct = contains(line, "GDRDMA");
    return context.event(direct ? "gdr-on" : "gdr-off", line, number), done();
  }
  if (contains(line, "async event") || contains(line, "Async event") || contains(line, "async fatal") ||
      contains(line, "IBV_EVENT_QP_FATAL"))
    return context.event("async-event", line, number), done();
  if (contains(line, "ACS") && contains(line, "enabled")) return context.event("acs", line, number), done();
  if (contains(line, "Init COMPLETE")) return context.event("init-complete", line, number), done();
  if (contains(line, "nranks ") && contains(line, "comm "))
    return context.event("nccl-line", line, number), done();
  return contains(line, "NCCL INFO") ? (context.this_host(), done()) : at;
}

}  // namespace mroce::doctor
