// The little of HTTP/1.1 that a scrape needs (RFC 9112): one GET for each connection, no body.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "doctor/export/openmetrics.h"

namespace mroce::doctor {

inline constexpr size_t kMaxRequestBytes = 16u << 10;

// Is the request there in whole? Only its head counts, as a body is refused.
bool request_complete(std::string_view bytes);

// The answer to a whole request, head and body. `metrics` is asked only if the request is for them.
std::string respond(std::string_view request, const std::function<std::string(MetricFormat)>& metrics);
std::string refusal(int status, std::string_view sentence);

}  // namespace mroce::doctor
