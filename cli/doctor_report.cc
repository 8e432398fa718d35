#include "cli/doctor_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "cli/write_file.h"
#include "doctor/report/html.h"

namespace mroce::cli {
namespace {

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[64];
  if (::gmtime_r(&now, &parts) == nullptr) return "";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts)};
}

}  // namespace

Outcome<void> write_doctor_report(const std::string& file, const doctor::Evidence& evidence,
                                  const doctor::Diagnosis& diagnosis) {
  const doctor::Timeline timeline =
      doctor::timeline_of(evidence, doctor::builtin_rulebook(), doctor::gpus_of(evidence), diagnosis);
  const std::string page = doctor::html_of(diagnosis, timeline, {MROCE_VERSION, now_text()});
  return write_file(file, page);
}

}  // namespace mroce::cli
