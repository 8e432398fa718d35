#include "doctor/export/http.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 431:
      return "Request Header Fields Too Large";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

std::string answer(int status, std::string_view type, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n"
      "X-Content-Type-Options: nosniff\r\n{}\r\n{}",
      status, reason_of(status), type, body.size(), status == 405 ? "Allow: GET\r\n" : "", body);
}

bool token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

struct Request {
  std::string_view method, target, version, accept;
  bool valid = false, body = false;
};

// Strict: lines end with CRLF or LF, names are tokens, no continuation lines, no control characters.
Request read_request(std::string_view bytes) {
  Request out;
  const auto lines = split(bytes, '\n');
  const auto whole = [](std::string_view line) {
    return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
  };
  const auto printable = [](std::string_view line) {
    return std::none_of(line.begin(), line.end(),
                        [](char c) { return (c >= 0 && c < 0x20 && c != '\t') || c == 0x7f; });
  };
  if (lines.empty()) return out;
  const auto parts = split(whole(lines[0]), ' ');
  if (parts.size() != 3 || !printable(whole(lines[0])) || !token(parts[0])) return out;
  out.method = parts[0];
  out.target = parts[1];
  out.version = parts[2];
  if (!out.version.starts_with("HTTP/") || out.target.empty()) return out;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string_view line = whole(lines[i]);
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !token(line.substr(0, colon)) || !printable(line)) return out;
    const std::string name = lowered(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (name == "accept") out.accept = value;
    if (name == "transfer-encoding" || (name == "content-length" && value != "0")) out.body = true;
  }
  out.valid = true;
  return out;
}

// Whoever asks for the old format only gets it.
MetricFormat format_for(std::string_view accept) {
  const bool old = contains(accept, "text/plain") && !contains(accept, "application/openmetrics-text");
  return old ? MetricFormat::kText : MetricFormat::kOpenMetrics;
}

}  // namespace

bool request_complete(std::string_view bytes) {
  return contains(bytes, "\r\n\r\n") || contains(bytes, "\n\n");
}

std::string refusal(int status, std::string_view sentence) {
  return answer(status, "text/plain; charset=utf-8", fmt::format("{}\n", sentence));
}

std::string respond(std::string_view bytes, const std::function<std::string(MetricFormat)>& metrics) {
  const Request request = read_request(bytes);
  if (!request.valid) return refusal(400, "This is no HTTP request.");
  if (request.version != "HTTP/1.1" && request.version != "HTTP/1.0")
    return refusal(505, "HTTP/1.1 is spoken here.");
  if (request.method != "GET") return refusal(405, "Only GET is answered.");
  if (request.body) return refusal(400, "A request with a body is not taken.");
  if (before(request.target, "?") != "/metrics") return refusal(404, "The metrics are at /metrics.");
  const MetricFormat format = format_for(request.accept);
  return answer(200, content_type_of(format), metrics(format));
}

}  // namespace mroce::doctor
