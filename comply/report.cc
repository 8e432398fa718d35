#include "comply/report.h"

#include <fmt/format.h>

#include <array>

#include "core/base/text.h"
#include "core/trace/ip_headers.h"
#include "core/trace/pcapng.h"

namespace mroce::comply {

using nlohmann::ordered_json;

std::string packet_lines(const std::deque<Packet>& packets, const PacketLines& limits) {
  std::string out;
  for (size_t i = 0; i < packets.size(); ++i) {
    const bool skipped = i >= limits.head && i + limits.tail < packets.size();
    if (skipped) {
      if (i == limits.head)
        out += fmt::format("  … {} packets …\n", packets.size() - limits.head - limits.tail);
      continue;
    }
    const Packet& packet = packets[i];
    out += fmt::format("  {:10.3f} ms {} {}", static_cast<double>((packet.at - packets[0].at).count()) / 1e6,
                       packet.sent ? "→" : "←", describe(packet));
    if (!packet.note.empty()) out += fmt::format("  [{}]", packet.note);
    out += '\n';
  }
  return out;
}

// ---- JSON and JUnit

namespace {

ordered_json head_of(const Assertion& assertion) {
  return {{"id", assertion.id},
          {"section", assertion.section()},
          {"rule", assertion.rule},
          {"level", name_of(assertion.level)},
          {"sentence", assertion.sentence}};
}

// XML has no place for control characters but the end of a line, not even as references.
std::string xml_text(std::string_view text) {
  std::string out = markup_text(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ' && c != '\n') c = '?';
  }
  return out;
}

}  // namespace

ordered_json list_json(const std::vector<const Assertion*>& assertions) {
  ordered_json all = ordered_json::array();
  for (const Assertion* assertion : assertions) {
    ordered_json one = head_of(*assertion);
    one["needs"] = ordered_json::array();
    for (const Feature need : assertion->needs) one["needs"].push_back(name_of(need));
    all.push_back(std::move(one));
  }
  return {{"schema", kReportSchema}, {"assertions", std::move(all)}};
}

ordered_json report_json(const std::string& target, const std::vector<AssertionResult>& results) {
  ordered_json all = ordered_json::array();
  for (const AssertionResult& result : results) {
    ordered_json one = head_of(*result.assertion);
    one["result"] = name_of(result.verdict);
    one["reason"] = printable(result.reason, 1000);
    all.push_back(std::move(one));
  }
  const Summary summary = summary_of(results);
  return {{"schema", kReportSchema},
          {"target", printable(target)},
          {"assertions", std::move(all)},
          {"summary", {{"pass", summary.pass}, {"fail", summary.fail}, {"skip", summary.skip}}}};
}

std::string report_junit(const std::string& target, const std::vector<AssertionResult>& results) {
  const Summary summary = summary_of(results);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"mroce comply: {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
      xml_text(printable(target)), results.size(), summary.fail, summary.not_run,
      summary.skip - summary.not_run);
  for (const AssertionResult& result : results) {
    const Assertion& assertion = *result.assertion;
    out += fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.6f}\">", assertion.section(),
                       xml_text(assertion.id), static_cast<double>(result.took.count()) / 1e9);
    if (result.verdict == Verdict::kSkip)
      out += fmt::format("<{} message=\"{}\"/>", result.not_run ? "error" : "skipped",
                         xml_text(printable(result.reason, 1000)));
    if (result.verdict == Verdict::kFail)
      out += fmt::format("<failure message=\"{}\">{} {}: {}\n{}</failure>",
                         xml_text(printable(result.reason, 1000)), assertion.rule, name_of(assertion.level),
                         xml_text(assertion.sentence), xml_text(packet_lines(result.packets)));
    out += "</testcase>\n";
  }
  return out + "</testsuite>\n";
}

// ---- pcapng

namespace {

std::span<const std::byte> address_bytes(const Gid& gid) {
  const auto all = std::as_bytes(std::span(gid.raw));
  return gid.is_v4_mapped() ? all.subspan(12) : all;
}

std::vector<std::byte> as_ip(const Packet& packet) {
  trace::IpHeader ip;
  ip.source = address_bytes(packet.from.ip);
  ip.destination = address_bytes(packet.to.ip);
  ip.traffic_class = static_cast<uint8_t>(packet.ecn);
  ip.length = static_cast<uint32_t>(8 + packet.bytes.size());
  trace::Bytes udp;
  trace::append_be16(udp, packet.from.port);
  trace::append_be16(udp, packet.to.port);
  trace::append_be16(udp, ip.length);
  trace::append_be16(udp, 0);
  trace::append_raw(udp, packet.bytes.data(), packet.bytes.size());
  const uint16_t sum = trace::transport_checksum(ip, udp);
  trace::put_be16(udp, 6, sum == 0 ? 0xffff : sum);
  trace::Bytes out;
  trace::append_ip(out, ip);
  trace::append_raw(out, udp.data(), udp.size());
  return out;
}

}  // namespace

std::vector<std::byte> packets_pcapng(const std::deque<Packet>& packets, const Target& target) {
  trace::Bytes out;
  trace::append_section(out);
  trace::append_interface(out, {.name = "comply"});
  for (const Packet& packet : packets) {
    const std::vector<std::byte> bytes = as_ip(packet);
    trace::append_packet(out,
                         {.unix_ns = ns_of(target.unix_time(packet.at)),
                          .original_bytes = static_cast<uint32_t>(bytes.size()),
                          .direction = packet.sent ? trace::Direction::kOutbound : trace::Direction::kInbound,
                          .comment = packet.note},
                         bytes);
  }
  return out;
}

std::string pcapng_name(std::string_view id) {
  std::string out;
  for (const char c : id) out += c == '/' ? '-' : c;
  return out + ".pcapng";
}

}  // namespace mroce::comply
