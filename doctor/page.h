// A diagnosis as a page for a terminal: the verdict first, then why, then what to do.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "doctor/finding.h"
#include "doctor/rulebook.h"

namespace mroce::doctor {

enum class Ink : uint8_t { kBold, kDim, kGood, kBad };
using Styler = std::function<std::string(Ink, std::string_view)>;

std::string page_of(const Diagnosis& diagnosis, const Styler& styler);
std::string explain(const Rule& rule, const Rulebook& book);

}  // namespace mroce::doctor
