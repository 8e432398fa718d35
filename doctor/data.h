// The files of data/, as they were when this was built.
#pragma once

#include <string_view>

namespace mroce::doctor {

extern const std::string_view kCountersToml;
extern const std::string_view kThresholdsToml;
extern const std::string_view kRulesToml;

}  // namespace mroce::doctor
